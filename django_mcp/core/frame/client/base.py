"""``frame.client``: notifications and requests of a handler to its client.

Sending never blocks and works from synchronous and asynchronous handlers; the async twins, such as
``alog``, also wait until the stream has room. Input requests have three implementations with one
interface: ``bidirectional`` sends them on the open stream and waits for the response;
``multi_round_trip`` ends the call and reads the responses when the client calls again; the clients
of tasks store them until the client reads the task.

An input request passes through these methods: ``elicit`` and its like → ``_form``, ``_one`` or
``_all``, which block, or ``_aform``, ``_aone`` or ``_aall``. These two check what the client
supports, and read responses until nothing is missing: first those of ``_given``, then those of
``_request``, which are the implementation. A Django form may query the database, so its responses
are read on the thread of a synchronous handler, or where an async handler has its ORM calls.
"""

from __future__ import annotations

import logging
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from django_mcp.core.components.base import UnserializableResult
from django_mcp.core.components.serializers import jsonable
from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.input_requests import (
    ElicitResult,
    InputRequest,
    InputRequests,
    Reading,
    Responses,
    Root,
    SamplingResult,
)
from django_mcp.core.frame.client.log_levels import LEAST_SEVERE, LEVELS, LogRateLimiter, level_name
from django_mcp.core.protocol import jsonrpc, limits
from django_mcp.core.protocol.errors import InvalidParams, MissingClientCapability
from django_mcp.core.protocol.revisions import Feature
from django_mcp.core.protocol.texts import encodable, resolved

if TYPE_CHECKING:
    from pydantic import BaseModel

    from django_mcp.core.frame.exchange import Exchange
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

logger = logging.getLogger("django_mcp")

Model = TypeVar("Model", bound="BaseModel")
C = TypeVar("C", bound="Client")
P = ParamSpec("P")
T = TypeVar("T")


MAX_PROGRESS = sys.float_info.max
"""The greatest number that every client can read."""


def _flushing(
    method: Callable[Concatenate[C, P], None],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, None]]:
    """Derive the async twin of a method that sends: it also waits until the stream has room."""
    name = method.__name__

    @wraps(method)
    async def twin(client: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
        getattr(client, name)(*args, **kwargs)
        await client._exchange.flush()

    return twin


def _awaiting(
    method: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Derive the async twin of a method that requests input.

    Such a method ends with ``self._form``, ``self._one`` or ``self._all``. The twin runs the same
    body on a stand-in, where these return a coroutine instead of blocking.
    """

    @wraps(method)
    async def twin(client: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        stand_in: Any = SimpleNamespace(_form=client._aform, _one=client._aone, _all=client._aall)
        answer: Any = method(stand_in, *args, **kwargs)
        result: T = await answer
        return result

    return twin


@dataclass(eq=False, repr=False)
class Client(ABC):
    """The client which sent one request.

    ``capabilities`` are declared by the client. ``log_level`` is the least severe level that it
    wants; None disables log messages.
    """

    is_multi_round_trip = False
    """Whether an input request ends the call, so that the handler runs again."""
    shows_urls = False
    """Whether its user can visit a URL although its revision has no request for it."""

    _server: Server
    _revision: Revision
    capabilities: Json
    _exchange: Exchange
    _progress_token: str | int | None = None
    _log_level: str | None = None
    _rate_limiter: LogRateLimiter | None = None

    def log(
        self, level: str, message: str | None = None, *, data: Any = None, logger: str | None = None
    ) -> None:
        """Send a log message, unless its level is below the client's.

        ``level`` is one of ``LEVELS`` or ``ALIASES``, in any case; an unknown one is the least
        severe. ``data`` is sent instead of ``message``. Messages above the server's rate limit are
        dropped. Never send secrets or personal data.
        """
        warn_deprecated(self._revision, "notifications/message")
        name = level_name(level) or LEAST_SEVERE
        if self._log_level is None or LEVELS[name] < LEVELS[self._log_level]:
            return
        if self._rate_limiter is not None and not self._rate_limiter.take():
            return
        content = _sendable(message if data is None else data)
        params = {"level": name, "logger": encodable(logger or self._server.name), "data": content}
        self._send("notifications/message", params)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification, if the client requested progress.

        ``progress`` must increase: a number that does not, or is no finite float, is dropped.
        """
        if self._progress_token is None or not self._exchange.progress < progress <= MAX_PROGRESS:
            return
        self._exchange.progress = progress
        self._send("notifications/progress", self._progress_params(progress, total, message))

    def _progress_params(
        self, progress: float, total: float | None, message: str | None
    ) -> dict[str, Any]:
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        if total is not None and -MAX_PROGRESS <= total <= MAX_PROGRESS:
            params["total"] = total
        if message is not None and "message" in self._revision.fields["progress"]:
            params["message"] = encodable(str(message))
        return params

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification on this request's stream, if the revision has it.

        Nothing is sent after the request was answered or cancelled.
        """
        self._send(method, resolved(params))

    def _send(self, method: str, params: Json | None) -> None:
        if self._exchange.has_ended:
            return
        is_known = method in self._revision.server_notifications
        # A site may send methods of its own under other prefixes.
        if not is_known and method.startswith("notifications/"):
            return
        self._exchange.write(jsonrpc.notification(method, params))

    alog = _flushing(log)
    aprogress = _flushing(progress)
    anotify = _flushing(notify)

    def close_stream(self, *, retry: int = 1000) -> None:
        """Close this request's connection while the handler keeps running.

        The client reconnects for the response after ``retry`` milliseconds, where streams can be
        resumed.
        """
        self._exchange.wait_for(self.aclose_stream(retry=retry))

    async def aclose_stream(self, *, retry: int = 1000) -> None:
        """``close_stream`` for async handlers."""
        await self._exchange.close_stream(retry)

    def ping(self, *, timeout: float = 10.0) -> None:
        """Ping the client; raises TimeoutError if it does not respond in time.

        Nothing happens where the revision has no ping.
        """
        self._exchange.wait_for_client(self.aping(timeout=timeout))

    async def aping(self, *, timeout: float = 10.0) -> None:
        """``ping`` for async handlers."""
        if "ping" in self._revision.server_requests:
            await self._exchange.send_request("ping", {}, timeout=timeout)

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
        """Request a form from the user; see ``input_requests.form``.

        ``key`` names the input request within this handler; ``timeout`` is in seconds. Raises
        MissingClientCapability, ClientError if the client responds with an error, or several times
        with an invalid response, and TimeoutError.
        """
        return self._form(message, schema, key, timeout)

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> ElicitResult[None]:
        """Request that the user visits a page; see ``input_requests.url_elicitation``."""
        request = input_requests.url_elicitation(message, url, elicitation_id=elicitation_id)
        return self._one(request, key, timeout)

    def create_message(
        self,
        /,
        messages: str | Sequence[Json],
        max_tokens: int,
        *,
        key: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> SamplingResult:
        """Request a message from the client's model; see ``input_requests.sample``."""
        request = input_requests.sample(messages, max_tokens=max_tokens, **options)
        return self._one(request, key, timeout)

    def list_roots(self, *, key: str | None = None, timeout: float | None = None) -> list[Root]:
        """Request the client's roots; see ``input_requests.roots``."""
        return self._one(input_requests.roots(), key, timeout)

    def ask(self, /, **requests: InputRequest[Any]) -> dict[str, Any]:
        """Send several input requests together and return the responses by name.

        ``ask(name=input_requests.form(…), roots=input_requests.roots())``. Raises as ``elicit``.
        """
        return self._all(requests)

    aelicit = _awaiting(elicit)
    aelicit_url = _awaiting(elicit_url)
    acreate_message = _awaiting(create_message)
    alist_roots = _awaiting(list_roots)
    aask = _awaiting(ask)

    def with_assigns(self, assigned: Json) -> Client:
        """Return the client of a Frame after ``assigned`` was assigned."""
        return self

    def earlier_response(self, prefix: str) -> tuple[str, Json] | None:
        """Return the key and the response of an input request whose key begins with ``prefix``.

        Only a repeated call brings one; its key was sent in the signed state.
        """
        return None

    def _form(
        self, message: str, schema: Any, key: str | None, timeout: float | None
    ) -> ElicitResult[Any]:
        return self._one(input_requests.form(message, schema), key, timeout)

    async def _aform(
        self, message: str, schema: Any, key: str | None, timeout: float | None
    ) -> ElicitResult[Any]:
        if input_requests.is_django_form(schema):
            request = await self._in_thread(input_requests.form, message, schema)
        else:
            request = input_requests.form(message, schema)
        return await self._aone(request, key, timeout)

    def _one(self, request: InputRequest[T], key: str | None, timeout: float | None) -> T:
        name = key or self._key(request)
        answer: T = self._all({name: request}, timeout)[name]
        return answer

    async def _aone(self, request: InputRequest[T], key: str | None, timeout: float | None) -> T:
        name = key or self._key(request)
        answers = await self._aall({name: request}, timeout)
        answer: T = answers[name]
        return answer

    def _all(self, requests: InputRequests, timeout: float | None = None) -> dict[str, Any]:
        self._require(requests)
        reading = Reading(requests)
        reading.read(self._given(requests))
        self._note(reading)
        while reading.missing:
            requested = self._request(reading.missing, timeout)
            reading.read_requested(self._exchange.wait_for_client(requested))
        return reading.answers

    async def _aall(self, requests: InputRequests, timeout: float | None = None) -> dict[str, Any]:
        self._require(requests)
        reading = Reading(requests)
        await self._aread(reading, reading.read, self._given(requests))
        self._note(reading)
        while reading.missing:
            responses = await self._request(reading.missing, timeout)
            await self._aread(reading, reading.read_requested, responses)
        return reading.answers

    async def _aread(
        self, reading: Reading, read: Callable[[Responses], None], responses: Responses
    ) -> None:
        if reading.may_block(responses):
            await self._in_thread(read, responses)
        else:
            read(responses)

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await self._exchange.run_queries(function, *args)

    def _given(self, requests: InputRequests) -> Responses:
        """Return the responses that came with the call."""
        return {}

    def _note(self, reading: Reading) -> None:  # noqa: B027 - most clients send none with a call
        """Keep in mind which of the responses that came with the call were valid."""

    @abstractmethod
    async def _request(self, requests: InputRequests, timeout: float | None) -> Responses:
        """Send input requests which the client supports, and return all of the responses."""

    def _key(self, request: InputRequest[Any]) -> str:
        """Return the name of an input request without a ``key`` of the handler."""
        return request.method

    def _params(self, request: InputRequest[Any]) -> dict[str, Any]:
        """Return the parameters that are sent, as the revision and the client support them."""
        params = self._revision.input_request(request.method, request.params)
        if self._revision.has(Feature.SAMPLING_TOOLS):
            # In these revisions, a client declares whether it supports includeContext (SAMP-06).
            sampling = self.capabilities.get("sampling")
            if not isinstance(sampling, dict) or "context" not in sampling:
                params.pop("includeContext", None)
        return params

    def _require(self, requests: InputRequests) -> None:
        """Raise MissingClientCapability unless the client and the revision support it."""
        for request in requests.values():
            warn_deprecated(self._revision, request.method)
            if not self._supports(request):
                raise MissingClientCapability.of(request.capability)

    def _supports(self, request: InputRequest[Any]) -> bool:
        if request.method not in self._revision.server_requests:
            return False
        for capability, feature in LATER:
            if request.capability == capability and not self._revision.has(feature):
                return False
        return not input_requests.missing(request, self.capabilities)


LATER = (
    (input_requests.URL, Feature.URL_ELICITATION),
    (input_requests.SAMPLING_TOOLS, Feature.SAMPLING_TOOLS),
)
"""Capabilities that count only in revisions with the feature, whatever a client declares."""


class McpDeprecationWarning(DeprecationWarning):
    """A handler uses a feature that the newest revision of MCP deprecates."""


def warn_deprecated(revision: Revision, method: str) -> None:
    """Warn, once in a process, that ``revision`` deprecates ``method``."""
    if method in revision.deprecated and method not in _warned:
        _warned.add(method)
        warnings.warn(
            f"MCP {revision.version} deprecates {method}: it works, but new code should not use it",
            McpDeprecationWarning,
            stacklevel=4,
        )


_warned: set[str] = set()


def progress_token(meta: Json) -> str | int:
    """Return the progress token in a message's metadata, which has one; raises InvalidParams."""
    token = meta["progressToken"]
    if jsonrpc.is_id(token):
        return token
    if isinstance(token, str):
        raise InvalidParams(limits.too_long("_meta.progressToken", limits.MAX_IDENTIFIER))
    raise InvalidParams("_meta.progressToken must be a string or an integer")


def _sendable(value: Any) -> Any:
    """``value`` as JSON-compatible objects, or else as a string: logging never fails."""
    if type(value) is str:
        return encodable(value)
    try:
        return jsonable(value)
    except UnserializableResult:
        return encodable(str(value))


current_frame: ContextVar[Frame | None] = ContextVar("django_mcp.frame", default=None)
"""The Frame of the handler that runs in this context."""


class CurrentClient:
    """The client of the current call, for code which is not given a Frame."""

    def get(self, default: Client | None = None) -> Client | None:
        """Return the client of the handler that runs in this context, if there is one."""
        frame = current_frame.get()
        return default if frame is None else frame.client


current = CurrentClient()
