"""The client as a handler sees it: inform it, ask it.

A handler reaches it as ``frame.client``. Informing never blocks and works from synchronous
and from asynchronous handlers alike; the ``a`` twins also wait until the stream has room.

Asking has two implementations, and handlers cannot tell them apart: ``LiveClient``, here,
asks on the open stream and waits; ``rounds.RoundsClient`` ends the attempt and is called again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from django_mcp.frame.client import input_requests
from django_mcp.frame.client.input_requests import (
    ElicitResult,
    InputRequest,
    InvalidClientResponse,
    Root,
    SamplingResult,
)
from django_mcp.frame.exchange import NULL_EXCHANGE
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import InternalError, InvalidParams, MissingClientCapability
from django_mcp.protocol.revisions import NEWEST, Feature
from django_mcp.protocol.strict import messages as strict_messages

if TYPE_CHECKING:
    from pydantic import BaseModel

    from django_mcp.frame.exchange import Exchange
    from django_mcp.protocol.errors import Json
    from django_mcp.protocol.revisions import Revision
    from django_mcp.server.server import Server

logger = logging.getLogger("django_mcp")

Model = TypeVar("Model", bound="BaseModel")

LEVELS: Mapping[str, int] = {
    name: severity
    for severity, name in enumerate(
        ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    )
}
"""The log levels of RFC 5424, least severe first."""

ALIASES: Mapping[str, str] = {"warn": "warning", "fatal": "critical"}
"""Other spellings, from the seeds, which authors and clients may use in any case."""


LEAST_SEVERE = "debug"


def level_name(spelling: str) -> str | None:
    """The level that a spelling means, or None."""
    name = spelling.lower()
    name = ALIASES.get(name, name)
    return name if name in LEVELS else None


class LogRateLimiter:
    """How many log messages may still be sent in this second; what is too much is dropped.

    It may be used from any thread.
    """

    __slots__ = ("_ends", "_left", "_lock", "_now", "_per_second")

    def __init__(self, per_second: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._now = now
        self._lock = threading.Lock()
        self._ends = 0.0
        self._left = 0

    def take(self) -> bool:
        """Whether one more may be sent, which then counts as sent."""
        with self._lock:
            now = self._now()
            if now >= self._ends:
                self._ends, self._left = now + 1, self._per_second
            self._left -= 1
            return self._left >= 0


class CallState:
    """What the copies of one call's client share: how far it has come, and whether it is over."""

    __slots__ = ("is_over", "progress")

    def __init__(self) -> None:
        self.is_over = False
        self.progress = -inf


class Client(ABC):
    """The other side of one request.

    ``capabilities`` is what the client says it can do, ``log_level`` the least severe level it
    wants to hear of, or None when it wants no log messages at all.
    """

    is_multi_round_trip = False
    """Whether a question ends the attempt, and the handler runs again for the answer."""

    __slots__ = (
        "_allowance",
        "_exchange",
        "_log_level",
        "_progress_token",
        "_revision",
        "_server",
        "_told",
        "capabilities",
    )

    def __init__(
        self,
        server: Server,
        revision: Revision,
        capabilities: Json,
        exchange: Exchange,
        progress_token: str | int | None = None,
        log_level: str | None = None,
        allowance: LogRateLimiter | None = None,
    ) -> None:
        self.capabilities = capabilities
        self._server = server
        self._revision = revision
        self._exchange = exchange
        self._progress_token = progress_token
        self._log_level = log_level
        self._allowance = allowance
        self._told = CallState()

    # Inform it.

    def log(
        self, level: str, message: str | None = None, *, data: Any = None, logger: str | None = None
    ) -> None:
        """Send a log message, unless the client wants none of this level.

        ``level`` is one of ``LEVELS`` or ``ALIASES``, in any case; an unknown one is the least
        severe. What travels is ``data`` (any JSON value), or else the message. Never put
        secrets or personal data into it. A server's rate limit drops what is too much.
        """
        warn_deprecated(self._revision, "notifications/message")
        name = level_name(level) or LEAST_SEVERE
        if self._log_level is None or LEVELS[name] < LEVELS[self._log_level]:
            return
        if self._allowance is not None and not self._allowance.take():
            return
        self.notify(
            "notifications/message",
            {
                "level": name,
                "logger": logger or self._server.name,
                "data": message if data is None else data,
            },
        )

    async def alog(self, level: str, message: str | None = None, **options: Any) -> None:
        """``log``, and wait until the stream has room again."""
        self.log(level, message, **options)
        await self._exchange.flush()

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the work has come: silent unless the client asked for it.

        The number must grow; one that does not, or is none, is left out.
        """
        if self._progress_token is None or not self._told.progress < progress < inf:
            return
        self._told.progress = progress
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        if total is not None and isfinite(total):
            params["total"] = total
        if message is not None and "message" in self._revision.fields["progress"]:
            params["message"] = message
        self.notify("notifications/progress", params)

    async def aprogress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """``progress``, and wait until the stream has room again."""
        self.progress(progress, total, message)
        await self._exchange.flush()

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification on this request's stream, where the revision knows it.

        Nothing is sent any more when the request has been answered or given up.
        """
        if method not in self._revision.server_notifications and method.startswith(
            "notifications/"
        ):
            return
        if self._told.is_over:
            return
        is_strict = self._server.limits.strict
        if is_strict and _is_unfit(method, strict_messages.notification, self._revision, params):
            return
        self._exchange.write(jsonrpc.notification(method, params))

    async def anotify(self, method: str, params: Json | None = None) -> None:
        """``notify``, and wait until the stream has room again."""
        self.notify(method, params)
        await self._exchange.flush()

    def over(self) -> None:
        """Say nothing more, whatever was left running: nobody waits for this request any more."""
        self._told.is_over = True

    def close_stream(self, *, retry: int = 1000) -> None:
        """Let go of this request's connection while the work goes on.

        The client comes back for the answer after ``retry`` milliseconds. Where its revision
        has no way to come back, nothing happens.
        """
        self._exchange.wait(self.aclose_stream(retry=retry))

    async def aclose_stream(self, *, retry: int = 1000) -> None:
        """``close_stream`` for async handlers."""
        await self._exchange.close_stream(retry)

    # Ask it.

    def ping(self, *, timeout: float = 10.0) -> None:
        """Ask whether it is still there: TimeoutError if it does not say so in time.

        Where its revision cannot be asked, nothing happens: there, a client that goes ends its
        request.
        """
        self._exchange.wait(self.aping(timeout=timeout))

    async def aping(self, *, timeout: float = 10.0) -> None:
        """``ping`` for async handlers."""
        if "ping" in self._revision.server_requests:
            await self._exchange.ask("ping", {}, timeout=timeout)

    @overload
    def elicit(
        self,
        message: str,
        schema: type[Model],
        *,
        key: str | None = ...,
        timeout: float | None = ...,
    ) -> ElicitResult[Model]: ...
    @overload
    def elicit(
        self, message: str, schema: Json, *, key: str | None = ..., timeout: float | None = ...
    ) -> ElicitResult[dict[str, Any]]: ...
    @overload
    def elicit(
        self, message: str, schema: type, *, key: str | None = ..., timeout: float | None = ...
    ) -> ElicitResult[Any]: ...

    def elicit(
        self, message: str, schema: Any, *, key: str | None = None, timeout: float | None = None
    ) -> ElicitResult[Any]:
        """Ask the user to fill in a form; see ``questions.form``.

        ``key`` names the question among those of this handler; ``timeout`` is in seconds.
        Raises ClientCapabilityMissing before anything is sent, ClientRefused when the client
        answers with an error, and TimeoutError when it does not answer.
        """
        return cast(
            ElicitResult[Any], self._one(input_requests.form(message, schema), key, timeout)
        )

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> ElicitResult[None]:
        """Ask the user to visit a page; see ``questions.page`` and ``elicit``."""
        question = input_requests.url_elicitation(message, url, elicitation_id=elicitation_id)
        return cast(ElicitResult[None], self._one(question, key, timeout))

    def create_message(
        self,
        messages: str | Sequence[Json],
        max_tokens: int,
        *,
        key: str | None = None,
        timeout: float | None = None,
        **wishes: Any,
    ) -> SamplingResult:
        """Ask for a message of the client's model; see ``questions.sample`` and ``elicit``."""
        question = input_requests.sample(messages, max_tokens=max_tokens, **wishes)
        return cast(SamplingResult, self._one(question, key, timeout))

    def list_roots(self, *, key: str | None = None, timeout: float | None = None) -> list[Root]:
        """Ask for the places that the client lets servers work in; see ``elicit``."""
        return cast(list[Root], self._one(input_requests.roots(), key, timeout))

    def ask(self, **asked: InputRequest) -> dict[str, Any]:
        """Ask several questions together: ``ask(name=questions.form(…), at=questions.roots())``.

        Returns the answers under the names of their questions; raises as ``elicit`` does.
        """
        return self._ask(asked, None)

    @overload
    async def aelicit(
        self,
        message: str,
        schema: type[Model],
        *,
        key: str | None = ...,
        timeout: float | None = ...,
    ) -> ElicitResult[Model]: ...
    @overload
    async def aelicit(
        self, message: str, schema: Json, *, key: str | None = ..., timeout: float | None = ...
    ) -> ElicitResult[dict[str, Any]]: ...
    @overload
    async def aelicit(
        self, message: str, schema: type, *, key: str | None = ..., timeout: float | None = ...
    ) -> ElicitResult[Any]: ...

    async def aelicit(
        self, message: str, schema: Any, *, key: str | None = None, timeout: float | None = None
    ) -> ElicitResult[Any]:
        """``elicit`` for async handlers."""
        return cast(
            ElicitResult[Any], await self._aone(input_requests.form(message, schema), key, timeout)
        )

    async def aelicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> ElicitResult[None]:
        """``elicit_url`` for async handlers."""
        question = input_requests.url_elicitation(message, url, elicitation_id=elicitation_id)
        return cast(ElicitResult[None], await self._aone(question, key, timeout))

    async def acreate_message(
        self,
        messages: str | Sequence[Json],
        max_tokens: int,
        *,
        key: str | None = None,
        timeout: float | None = None,
        **wishes: Any,
    ) -> SamplingResult:
        """``create_message`` for async handlers."""
        question = input_requests.sample(messages, max_tokens=max_tokens, **wishes)
        return cast(SamplingResult, await self._aone(question, key, timeout))

    async def alist_roots(
        self, *, key: str | None = None, timeout: float | None = None
    ) -> list[Root]:
        """``list_roots`` for async handlers."""
        return cast(list[Root], await self._aone(input_requests.roots(), key, timeout))

    async def aask(self, **asked: InputRequest) -> dict[str, Any]:
        """``ask`` for async handlers."""
        return await self._aask(asked, None)

    def remembering(self, assigned: Json) -> Client:
        """This client for a Frame to which ``assigned`` was assigned."""
        return self

    def _one(self, question: InputRequest, key: str | None, timeout: float | None) -> Any:
        name = key or self._key(question)
        return self._ask({name: question}, timeout)[name]

    async def _aone(self, question: InputRequest, key: str | None, timeout: float | None) -> Any:
        name = key or self._key(question)
        return (await self._aask({name: question}, timeout))[name]

    def _ask(self, asked: Mapping[str, InputRequest], timeout: float | None) -> dict[str, Any]:
        self._require_all(asked)
        return self._exchange.wait(self._answers(asked, self._seconds(timeout)))

    async def _aask(
        self, asked: Mapping[str, InputRequest], timeout: float | None
    ) -> dict[str, Any]:
        self._require_all(asked)
        return await self._answers(asked, self._seconds(timeout))

    def _seconds(self, timeout: float | None) -> float:
        return self._server.limits.client_response_timeout if timeout is None else timeout

    def _require_all(self, asked: Mapping[str, InputRequest]) -> None:
        for question in asked.values():
            self._require(question)

    @abstractmethod
    async def _answers(self, asked: Mapping[str, InputRequest], timeout: float) -> dict[str, Any]:
        """The answers to questions which the client can be asked."""

    def _key(self, question: InputRequest) -> str:
        return question.method

    def _params(self, question: InputRequest) -> dict[str, Any]:
        """What is sent for ``question``; ClientCapabilityMissing if the revision cannot ask it."""
        params = self._revision.input_request(question.method, question.params)
        may_say = self._revision.has(Feature.SAMPLING_TOOLS)
        if may_say and "context" not in self.capabilities.get("sampling", {}):
            # Revisions in which a client says whether it can do this (SAMP-06).
            params.pop("includeContext", None)
        is_strict = self._server.limits.strict
        if is_strict and _is_unfit(
            question.method, strict_messages.server_request, self._revision, params
        ):
            raise InternalError("The server asked something unfit")
        return params

    def _require(self, question: InputRequest) -> None:
        """Refuse, before anything is sent, what the client or the revision cannot be asked."""
        warn_deprecated(self._revision, question.method)
        too_old = question.method not in self._revision.server_requests or any(
            question.capability == capability and not self._revision.has(feature)
            for capability, feature in LATER
        )
        if too_old or input_requests.missing(question, self.capabilities):
            raise MissingClientCapability.of(question.capability)


LATER = (
    (input_requests.PAGE, Feature.URL_ELICITATION),
    (input_requests.SAMPLING_TOOLS, Feature.SAMPLING_TOOLS),
)
"""What a client can only be asked where its revision has it, whatever it declares."""


class McpDeprecationWarning(DeprecationWarning):
    """A handler uses what the newest revision of MCP deprecates."""


def warn_deprecated(revision: Revision, method: str) -> None:
    """Warn authors, once in a process, that they use what ``revision`` deprecates."""
    if method in revision.deprecated and method not in _warned:
        _warned.add(method)
        warnings.warn(
            f"MCP {revision.version} deprecates {method}: it works, but new code should not use it",
            McpDeprecationWarning,
            stacklevel=4,
        )


_warned: set[str] = set()


class BidirectionalClient(Client):
    """A client which is asked on the open stream of its request, or of its session."""

    __slots__ = ()

    async def _answers(self, asked: Mapping[str, InputRequest], timeout: float) -> dict[str, Any]:
        found = await asyncio.gather(*(self._answer(item, timeout) for item in asked.values()))
        return dict(zip(asked, found, strict=True))

    async def _answer(self, question: InputRequest, timeout: float) -> Any:
        """The answer to one question, asked again when what comes back does not fit."""
        params = self._params(question)
        for _ in range(ATTEMPTS - 1):
            result = await self._exchange.ask(question.method, params, timeout=timeout)
            try:
                return question.read(result)
            except InvalidClientResponse:
                continue
        result = await self._exchange.ask(question.method, params, timeout=timeout)
        return question.read(result)


class NullClient(Client):
    """The client of a Frame made by hand: it drops what it is sent and answers nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, NEWEST, {}, NULL_EXCHANGE)  # type: ignore[arg-type]

    def log(
        self, level: str, message: str | None = None, *, data: Any = None, logger: str | None = None
    ) -> None:
        """Do nothing."""

    def notify(self, method: str, params: Json | None = None) -> None:
        """Do nothing."""

    def over(self) -> None:
        """Do nothing."""

    def _require(self, question: InputRequest) -> None:
        raise ConnectionError(
            "This Frame was made by hand and has no client: use django_mcp.testing.Client to test "
            "a handler which requests input"
        )

    async def _answers(self, asked: Mapping[str, InputRequest], timeout: float) -> dict[str, Any]:
        raise NotImplementedError

    def __reduce__(self) -> str:
        return "NULL_CLIENT"


NULL_CLIENT = NullClient()

ATTEMPTS = 3
"""How often a question is asked whose answers do not fit, before the handler is told."""


def progress_token(meta: Any) -> str | int | None:
    """The token under which the client wants to hear of progress; InvalidParams for a wrong one.

    ``meta`` is what a message has as its metadata.
    """
    token = meta.get("progressToken") if type(meta) is dict else None
    if token is None or jsonrpc.is_id(token):
        return token
    raise InvalidParams("_meta.progressToken must be a string or an integer")


def _is_unfit(
    method: str, check: Callable[..., list[str]], revision: Revision, params: Json | None
) -> bool:
    """Whether what is to be said does not fit the revision, which is logged with the difference."""
    misfits = check(revision, method, params)
    if misfits:
        logger.error("%s does not fit the protocol: %s", method, "; ".join(misfits))
    return bool(misfits)


current: ContextVar[Client | None] = ContextVar("django_mcp.client", default=None)
"""The client of the call that is being answered, for code which is not given a Frame."""
