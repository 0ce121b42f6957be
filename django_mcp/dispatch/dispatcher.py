"""Finding the method of a request and calling it, through the middleware: Frame in, Reply out.

Each step calls the next one:

================= ==========================================================================
step              what it adds
================= ==========================================================================
``answer``        the JSON-RPC reply, also for an error, an exception, and a handler that
                  requests input
``call``          the middleware of the server
``call_declared`` an error for a method of a capability that is not declared
``call_method``   the method, by its name
================= ==========================================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from django_mcp.dispatch.invocation import raise_outcome
from django_mcp.dispatch.methods import CAPABILITIES, METHODS, WITHOUT_COMPONENTS, tools
from django_mcp.dispatch.reply import Reply, error_reply
from django_mcp.frame.client import request_state
from django_mcp.frame.client.base import current
from django_mcp.frame.client.multi_round_trip import InputRequired, MultiRoundTripClient
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import (
    InternalError,
    McpError,
    MethodNotFound,
    MissingClientCapability,
    ToolError,
    UrlElicitationRequired,
)
from django_mcp.protocol.limits import cut, quoted
from django_mcp.protocol.revisions import Feature
from django_mcp.server import failures

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.dispatch.methods import Method
    from django_mcp.frame.frame import Frame
    from django_mcp.server.server import CallNext, Middleware

logger = logging.getLogger("django_mcp")

TOOL_CALL = "tools/call"


async def answer(frame: Frame) -> Reply:
    """The reply to the request on ``frame``; only cancellation is raised.

    Changes of the Frame are kept on a value and on a returned error, not on a raised one.
    """
    # Within another call, the client belongs to the outer one.
    is_outermost = current.get() is None
    try:
        try:
            result, after = await _answering(frame)
        except BaseException as raised:
            result = _outcome(frame, raised)
            after = frame
        # Inside ``try``, because a result that middleware made may lack members.
        return _reply(frame, result, after)
    except McpError as error:
        return error_reply(frame, error)
    except asyncio.CancelledError:
        if frame.cancellation.requested:
            reason = quoted(frame.cancellation.reason or "")
            logger.info("%r was cancelled: %s", frame, reason)
        raise
    except Exception as error:
        frame.server.report(f"{quoted(frame.message.method)} failed", error)
        failures.observe_unexpected(frame, error)
        return error_reply(frame, InternalError())
    finally:
        if is_outermost:
            frame.client.close()


def _answering(frame: Frame) -> Awaitable[Answer]:
    """The steps from the middleware to the method, or the handler of a tool without them."""
    if frame.server.middleware:
        return call(frame, call_declared)
    if frame.message.method == TOOL_CALL:
        return tools.call_plain(frame) or call_declared(frame)
    return call_declared(frame)


def _reply(frame: Frame, result: dict[str, Any] | McpError, after: Frame) -> Reply:
    """The reply with a result, as the revision of the client has it, and the Frame to keep."""
    if after is not frame:
        after = _in_its_session(after, frame)
    if isinstance(result, UrlElicitationRequired):
        result = require_urls(frame, result)
    if isinstance(result, McpError):
        return error_reply(frame, result)._replace(frame=after)
    server = frame.server
    revision = frame.revision
    finished = revision.serialize_result(
        frame.message.method,
        result,
        server_info=server.get_server_info(revision),
        cache=server.cache_members,
    )
    return Reply(jsonrpc.result(frame.request_id, finished), after)


def _in_its_session(after: Frame, before: Frame) -> Frame:
    """The Frame which a handler returned, in its session even if the handler cleared that."""
    session_id = before.get_mcp_session_id()
    if session_id is None or after.get_mcp_session_id() == session_id:
        return after
    return after.put_private(session_id=session_id, server=before.server, revision=before.revision)


def _outcome(frame: Frame, raised: BaseException) -> dict[str, Any] | McpError:
    """The result for an exception, such as one that requests input; others are raised.

    To be called from within ``except``.
    """
    try:
        # Middleware may raise an exception group, for instance with an InputRequired in it.
        raise_outcome(raised, frame)
    except InputRequired as required:
        return input_required(frame, required)
    except UrlElicitationRequired as error:
        return error
    except ToolError as error:
        # Middleware raised it: the model reads it as if the tool had.
        if frame.message.method != TOOL_CALL:
            raise
        return tools.error_result(str(error))


def require_urls(frame: Frame, error: UrlElicitationRequired) -> dict[str, Any] | McpError:
    """The answer to a client whose user has to visit a page first.

    Only clients that declared URL elicitation are sent the error itself (ELIC-20).
    """
    declared = frame.client.capabilities.get("elicitation")
    is_declared = isinstance(declared, dict) and "url" in declared
    if not is_declared or not frame.revision.has(Feature.URL_ELICITATION):
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


def call(frame: Frame, step: CallNext | None = None) -> Awaitable[Answer]:
    """Pass the request through the server's middleware to its method, or to ``step``."""
    step = step or call_method
    for middleware in reversed(frame.server.middleware):
        step = _around(middleware, step)
    return step(frame)


def _around(middleware: Middleware, call_next: CallNext) -> CallNext:
    """The step that calls a middleware with the next step."""

    def step(frame: Frame) -> Awaitable[Answer]:
        if frame.exchange.is_task_run and not getattr(middleware, "runs_in_tasks", False):
            return call_next(frame)  # The middleware has run when the client made the call.
        return middleware(frame, call_next)

    return step


def call_declared(frame: Frame) -> Awaitable[Answer]:
    """``call_method`` for clients: methods of undeclared capabilities are not found.

    Components of the session itself are served without the server's declaration.
    """
    method = frame.message.method
    capability = CAPABILITIES.get(method)
    if (
        capability is None
        or frame.server.capabilities.has(capability)
        or frame.private.get("components")
    ):
        return call_method(frame)
    raise MethodNotFound(f"Method not found: {cut(method)}, since there are no {capability}")


def call_method(frame: Frame) -> Awaitable[Answer]:
    """Call the method which the request names; raises MethodNotFound."""
    method = frame.message.method
    function = METHODS.get(method) if method in frame.revision.requests else None
    if function is None:
        raise MethodNotFound(f"Method not found: {cut(method)}")
    if frame.server.components.has_deferred and method not in WITHOUT_COMPONENTS:
        return _call_when_built(function, frame)
    return function(frame)


async def _call_when_built(function: Method, frame: Frame) -> Answer:
    await frame.server.components.build()
    return await function(frame)
