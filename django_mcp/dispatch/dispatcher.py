"""Finding the method of a request and calling it, through the middleware.

Each step calls the next one:

================= ==========================================================================
step              what it adds
================= ==========================================================================
``call``          the middleware of the server
``call_declared`` an error for a method of a capability that is not declared
``call_method``   the method, by its name
================= ==========================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from django_mcp.dispatch.methods import CAPABILITIES, METHODS, WITHOUT_COMPONENTS
from django_mcp.protocol.errors import (
    MethodNotFound,
)
from django_mcp.protocol.limits import cut

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.dispatch.methods import Method
    from django_mcp.frame.frame import Frame
    from django_mcp.server.server import CallNext, Middleware

logger = logging.getLogger("django_mcp")

TOOL_CALL = "tools/call"


def run(frame: Frame) -> Awaitable[Answer]:
    """The result of a request, and the Frame to keep: from the middleware to its method."""
    server = frame.server
    if server.middleware:
        return call(frame, call_declared)
    method = server.plans.get((frame.message.method, frame.revision.version))
    return (method or call_declared)(frame)


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
    server = frame.server
    plans = server.plans  # Before anything is looked up: a change replaces it.
    capability = CAPABILITIES.get(method)
    if capability is None or server.capabilities.has(capability):
        is_known = method in METHODS and method in frame.revision.requests
        if is_known and not server.components.has_deferred:
            plans[method, frame.revision.version] = METHODS[method]
        return call_method(frame)
    if frame.private.get("components"):
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
