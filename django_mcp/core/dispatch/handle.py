"""Answering every request of every transport: from its Frame to the bytes of its response.

Around ``_answer``, which every request passes, are the steps that a site asks for:

============ ======================================================================
step         what it does
============ ======================================================================
``traced``   makes a span of OpenTelemetry (``Site.telemetry``)
``_once``    lets a request state be used once (``Site.single_use``)
``_prepared`` starts the server, and runs the frame processors (``Site.process``)
``logged``   writes the call log, and sends the signal of the method
============ ======================================================================

Exceptions become responses in ``encode_raised``, and nowhere else. ``Site`` has the functions
which depend on stores, Channels and Django.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.core.dispatch import call_records, dispatcher
from django_mcp.core.dispatch.call_records import Signal
from django_mcp.core.dispatch.invocation import Result, raise_outcome
from django_mcp.core.dispatch.methods import tools
from django_mcp.core.frame.client import request_state
from django_mcp.core.frame.client.multi_round_trip import InputRequired, MultiRoundTripClient
from django_mcp.core.frame.transport import answering
from django_mcp.core.protocol import jsonrpc, preencoded
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    ClientError,
    InternalError,
    InvalidParams,
    McpError,
    MissingClientCapability,
    ServerBusy,
    ToolError,
    UrlElicitationRequired,
)
from django_mcp.core.protocol.limits import quoted
from django_mcp.core.protocol.preencoded import PreEncodedList, PreEncodedResult
from django_mcp.core.protocol.revisions import Feature
from django_mcp.core.server import failures
from django_mcp.core.server.server import server_of

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.frame.session import Change, Session
    from django_mcp.core.protocol.jsonrpc import RequestInfo
    from django_mcp.core.server.server import Server

logger = logging.getLogger("django_mcp")

NOT_PREPARED = "A message could not be prepared"


class SingleUse(Protocol):
    """Request states that are accepted once."""

    def claim(self, state: str, /) -> bool:
        """Return whether no other call has used the state, or is using it."""

    def keep(self, state: str, /) -> None:
        """Mark a claimed state as used."""

    def release(self, state: str, /) -> None:
        """Let another call claim the state."""


RequestStep = Callable[["Frame", "Site"], Awaitable[bytes]]
"""A step: it returns the response to a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the answer to a request needs of the site: functions that the core does not have."""

    start: Callable[[Server], Awaitable[None]]
    """Starts a server that is not running in this process."""
    process: Callable[[Frame], Awaitable[Frame]] | None
    """Runs the frame processors; None where there are none."""
    single_use: SingleUse | None
    """Lets a request state be used once; None where it may be used repeatedly."""
    commit: Callable[[str, str, Sequence[Change]], Awaitable[Session | None]]
    """Applies changes to a session, by its id and the key of its principal.

    Returns the new session, or None if there is none of this principal.
    """
    publish: Callable[[Server, str, Sequence[Change]], Awaitable[None]]
    """Notifies the client of a session of the changes that it has to know."""
    signals: Mapping[str, Signal]
    """The signals which are sent when a call of a method is over."""
    telemetry: ModuleType | None = None
    """``dispatch.telemetry``, which makes a span of each request; None where the site does not use
    OpenTelemetry."""


def answer(frame: Frame, site: Site) -> Awaitable[bytes]:
    """The response to the request on ``frame``; only errors that end its task are raised.

    Changes of the session by the handler are committed before the response is returned.
    ``frame.exchange`` has the error in it, if it is one, and how the call has ended.
    """
    answer_next: RequestStep = _answer
    signal = site.signals.get(frame.message.method)
    if signal is not None and call_records.is_wanted(signal):
        answer_next = partial(call_records.logged, signal, answer_next)
    if site.process or not frame.server.is_running:
        answer_next = partial(_prepared, answer_next)
    if site.single_use and request_state.of(frame) is not None:
        answer_next = partial(_once, answer_next)
    if site.telemetry is not None:
        answer_next = partial(site.telemetry.traced, answer_next)
    return answer_next(frame, site)


async def _answer(frame: Frame, site: Site) -> bytes:
    """Pass the request through the middleware to its method; commit, and encode the result.

    If the handler returns, even an error, its changes of the session are committed. If it raises,
    they are dropped.
    """
    exchange = frame.exchange
    token = answering.set(exchange)
    try:
        name = (frame.message.method, frame.revision.version)
        step = frame.server.plans.get(name) or dispatcher.first_step(frame)
        result, after = await step(frame)
        body = encode_result(frame, result)
        if after is not frame:
            await _keep(frame, after, site)
        return body
    except BaseException as raised:
        return encode_raised(frame, raised)
    finally:
        exchange.has_ended = True
        answering.reset(token)


async def _keep(frame: Frame, after: Frame, site: Site) -> None:
    """Commit and publish the handler's changes of its session; raises McpError."""
    session_id = frame.get_mcp_session_id()
    if session_id is None:
        frame.exchange.opened = after if frame.message.method == "initialize" else None
        session_id = after.get_mcp_session_id()
    if not after.changes or session_id is None:
        return
    try:
        session = await site.commit(session_id, frame.principal.key, after.changes)
        if session is not None:  # Otherwise it was deleted meanwhile.
            await site.publish(server_of(frame), session_id, after.changes)
    except ServerBusy:
        raise
    except Exception as error:
        frame.server.report("What a handler changed in its session could not be committed", error)
        raise InternalError from error


async def _prepared(answer_next: RequestStep, frame: Frame, site: Site) -> bytes:
    token = answering.set(frame.exchange)
    try:
        prepared = await prepare(frame, site)
    except asyncio.CancelledError as raised:
        return encode_raised(frame, raised)
    except Exception as error:
        frame.server.report(NOT_PREPARED, error)
        return encode_error(frame, InternalError())
    finally:
        answering.reset(token)
    return await answer_next(prepared, site)


async def prepare(frame: Frame, site: Site) -> Frame:
    """Start the server, and run the frame processors: the Frame with their assigns."""
    try:
        if not frame.server.is_running:
            await site.start(server_of(frame))
        return await site.process(frame) if site.process else frame
    except BaseException as raised:
        raise_outcome(raised, frame)


async def _once(answer_next: RequestStep, frame: Frame, site: Site) -> bytes:
    """Answer a call that brings a request state which may be used once.

    The state is used up when the answer is kept: a call that failed or was cancelled leaves it.
    """
    state = request_state.of(frame)
    single_use = site.single_use
    assert state is not None
    assert single_use is not None
    run = frame.exchange.run_hook
    try:
        if not await run(single_use.claim, state):
            return encode_error(frame, InvalidParams("params.requestState was used before"))
        is_kept = False
        try:
            body = await answer_next(frame, site)
            is_kept = frame.exchange.error is None
        finally:
            await run(single_use.keep if is_kept else single_use.release, state)
        return body
    except asyncio.CancelledError as raised:
        return encode_raised(frame, raised)


# From a result, or an exception, to bytes.


def encode_raised(frame: Frame, raised: BaseException) -> bytes:
    """The response for an exception; to be called from within ``except``.

    A cancellation that the server does not know of is raised again: the client, which needs no
    response, or the end of the process.
    """
    exchange = frame.exchange
    try:
        try:
            # Middleware may raise an exception group, for instance with an InputRequired in it.
            raise_outcome(raised, frame)
        except InputRequired as required:
            return encode_result(frame, input_required(frame, required))
        except UrlElicitationRequired as error:
            return encode_result(frame, error)
        except ToolError as error:
            # Middleware raised it: the model reads it as if the tool had.
            if frame.message.method != dispatcher.TOOL_CALL:
                raise
            return encode_result(frame, tools.error_result(str(error)))
    except McpError as error:
        return encode_error(frame, error)
    except asyncio.CancelledError:
        if exchange.requested:
            logger.info("%r was cancelled: %s", frame, quoted(exchange.reason or ""))
        exchange.outcome = "cancelled"
        if exchange.ended_by is None:
            raise
        if exchange.task is not None:
            exchange.task.uncancel()
        exchange.error = exchange.cancelled()
        return jsonrpc.encode(jsonrpc.error(frame.message.id, frame.revision.error(exchange.error)))
    except Exception as error:
        frame.server.report(f"{quoted(frame.message.method)} failed", error)
        failures.observe_unexpected(frame, error)
        return encode_error(frame, InternalError())


def encode_result(frame: Frame, result: Result) -> bytes:
    """The response with a result, as the revision of the client has it, or with an error."""
    kind = type(result)
    if kind is PreEncodedResult or kind is PreEncodedList:
        member = "structuredContent" if kind is PreEncodedResult else result.member
        request = frame.message
        tail = frame.server.plans.get((TAIL, request.method, frame.revision.version))
        if tail is None:
            tail = _make_tail(frame, member)
        if tail is not None:
            return preencoded.encode_whole(request.id, result, tail)
        result = {member: result}
    if isinstance(result, UrlElicitationRequired):
        result = require_urls(frame, result)
        if isinstance(result, McpError) and tools.is_for_model(result, frame):
            result = tools.error_result(tools.needs_capability(result))
    if isinstance(result, McpError):
        return encode_error(frame, result)
    server = frame.server
    revision = frame.revision
    finished = revision.serialize_result(
        frame.message.method,
        result,
        server_info=server.get_server_info(revision),
        cache=server.cache_members,
    )
    exchange = frame.exchange
    exchange.outcome = _outcome_of(finished)
    if exchange.outcome == "error":
        exchange.error_text = _text_of(finished)
    message = jsonrpc.result(frame.request_id, finished)
    is_encoded = preencoded.has_encoded(finished)
    try:
        return preencoded.encode(message) if is_encoded else jsonrpc.encode(message)
    except ValueError as error:
        return _encode_unsendable(frame, error)


TAIL = "tail"


def _make_tail(frame: Frame, member: str) -> bytes | None:
    """The members after the encoded one in results of a server, method and revision, as JSON.

    None where it is not always the same: a text is translated, or the revision has no structure.
    """
    server = frame.server
    revision = frame.revision
    plans = server.plans
    if not server.has_constant_info(revision):
        return None
    method = frame.message.method
    made = revision.serialize_result(
        method,
        {member: PreEncodedResult(b"{}", b"{}")},
        server_info=server.get_server_info(revision),
        cache=server.cache_members,
    )
    if member not in made:
        return None
    tail = preencoded.tail_of(made, member)
    plans[TAIL, method, revision.version] = tail
    return tail


def encode_error(frame: Frame, error: McpError) -> bytes:
    """The response with ``error``; an error that the client returned becomes an internal one."""
    if isinstance(error, ClientError):
        error = InternalError(error.description)
    exchange = frame.exchange
    exchange.error = error
    if isinstance(error, InternalError):
        exchange.outcome = "server_error"
    elif isinstance(error, AuthenticationRequired):
        exchange.outcome = "challenged"  # A client logs in, or obtains a scope, and calls again.
    else:
        exchange.outcome = "client_error"
    try:
        return jsonrpc.encode(jsonrpc.error(frame.message.id, frame.revision.error(error)))
    except ValueError as unsendable:  # Of a message or data that a handler has written.
        return _encode_unsendable(frame, unsendable)


def _encode_unsendable(frame: Frame, error: ValueError) -> bytes:
    """The response in the place of one that is not JSON; to be called from within ``except``."""
    remedy = NO_CHARACTER if "surrogate" in str(error) else NOT_JSON
    asked = described(frame.message)
    error.__suppress_context__ = True  # The error before it has the text, which no log may take.
    logger.exception("The response to %s cannot be sent as JSON. %s", asked, remedy)
    return encode_error(frame, InternalError())


def _outcome_of(result: Mapping[str, Any]) -> str:
    """How a call has ended that has a result; see ``Exchange.outcome``."""
    kind = result.get("resultType")
    if kind == "input_required":
        return "input_required"
    if kind == "task" or "task" in result:
        return "task"
    return "error" if result.get("isError") else "ok"


def _text_of(result: Mapping[str, Any]) -> str:
    """The first text of a tool's result."""
    texts = (block.get("text") for block in result.get("content", ()))
    return next((text for text in texts if isinstance(text, str)), "")


NO_CHARACTER = (
    "A string in it has a lone surrogate, which is no character: os.fsdecode() makes such strings "
    'of file names that are not UTF-8. Replace it where the string is read: text.encode("utf-8", '
    '"surrogateescape").decode("utf-8", "replace").'
)
NOT_JSON = "Return values that JSON has: strings, numbers, booleans, None, lists and dicts."


def described(request: RequestInfo) -> str:
    """The method of a request, and the name in it, for the log."""
    params = request.params or {}
    name = params.get("name", params.get("uri"))
    return f"{request.method} of {quoted(name)}" if isinstance(name, str) else request.method


def require_urls(frame: Frame, error: UrlElicitationRequired) -> dict[str, Any] | McpError:
    """The answer to a client whose user has to visit a page first.

    Only clients that declared URL elicitation are sent the error itself (ELIC-20).
    """
    declared = frame.client.capabilities.get("elicitation")
    is_declared = isinstance(declared, dict) and "url" in declared
    has_pages = frame.revision.has(Feature.URL_ELICITATION) or frame.client.shows_urls
    if not is_declared or not has_pages:
        return MissingClientCapability.of({"elicitation": {"url": {}}})
    if isinstance(frame.client, MultiRoundTripClient):
        return input_required(frame, frame.client.require_urls(error.elicitations))
    return error


def input_required(frame: Frame, required: InputRequired) -> dict[str, Any]:
    """The result which requests input from the client (MRTR-01)."""
    request = frame.message
    if request.method not in frame.revision.input_request_methods:
        raise RuntimeError(f"{request.method} may not request input from the client")
    return request_state.result(frame, required)
