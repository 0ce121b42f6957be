"""Finding the method of a request and calling it, through the middleware.

Each step calls the next one. The first one for a method is kept in ``Server.plans``: the middleware
of the server, or without any the method itself.

================= ==========================================================================
step              what it adds
================= ==========================================================================
middleware        what each middleware of the server does
``call_declared`` an error for a method of a capability that is not declared
``call_method``   the method, by its name
================= ==========================================================================
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from django_mcp.core.dispatch import extension_methods
from django_mcp.core.dispatch.methods import CAPABILITIES, METHODS, WITHOUT_COMPONENTS
from django_mcp.core.protocol.errors import MethodNotFound
from django_mcp.core.protocol.limits import cut

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.dispatch.methods import Method
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import CallNext, Middleware

TOOL_CALL = "tools/call"


def first_step(frame: Frame) -> CallNext:
    """Return the first step of a request, from the middleware to its method."""
    server = frame.server
    plans = server.plans  # Before anything is looked up: a change replaces it.
    name = frame.message.method
    method = _find(frame)
    step: CallNext
    if server.middleware:
        step = _within_middleware(server.middleware, call_declared)
    elif method is not None and _is_declared(frame) and not server.components.has_deferred:
        step = method
    else:
        return call_declared
    if method is not None:  # Clients may invent methods without bound.
        plans[name, frame.revision.version] = step
    return step


def call(frame: Frame) -> Awaitable[Answer]:
    """Pass a request of the site itself through the middleware to its method."""
    return _within_middleware(frame.server.middleware, call_method)(frame)


def _within_middleware(middleware: Sequence[Middleware], step: CallNext) -> CallNext:
    for outer in reversed(middleware):
        step = _around(outer, step)
    return step


def _around(middleware: Middleware, call_next: CallNext) -> CallNext:
    """The step that calls a middleware with the next step."""
    runs_in_tasks = getattr(middleware, "runs_in_tasks", False)

    def step(frame: Frame) -> Awaitable[Answer]:
        if frame.exchange.is_task_run and not runs_in_tasks:
            return call_next(frame)  # The middleware has run when the client made the call.
        return middleware(frame, call_next)

    return step


def call_declared(frame: Frame) -> Awaitable[Answer]:
    """``call_method`` for clients: methods of undeclared capabilities are not found.

    Components of the session itself are served without the server's declaration.
    """
    if _is_declared(frame) or frame.private.get("components"):
        return call_method(frame)
    method = frame.message.method
    raise MethodNotFound(
        f"Method not found: {cut(method)}, since there are no {CAPABILITIES.get(method)}"
    )


def _is_declared(frame: Frame) -> bool:
    capability = CAPABILITIES.get(frame.message.method)
    # The method of an extension checks itself whether it is declared.
    return capability is None or frame.server.capabilities.has(capability)


def call_method(frame: Frame) -> Awaitable[Answer]:
    """Call the method which the request names; raises MethodNotFound."""
    method = frame.message.method
    function = _find(frame)
    if function is None:
        raise MethodNotFound(f"Method not found: {cut(method)}")
    if frame.server.components.has_deferred and method not in WITHOUT_COMPONENTS:
        return _call_when_built(function, frame)
    return function(frame)


def _find(frame: Frame) -> Method | None:
    """The function of the method, which the protocol or an extension has in this revision."""
    name = frame.message.method
    if name not in frame.revision.requests:
        return None
    return METHODS.get(name) or extension_methods.find(name)


async def _call_when_built(function: Method, frame: Frame) -> Answer:
    await frame.server.components.build()
    return await function(frame)
