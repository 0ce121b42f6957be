"""The plan of a component: the steps of its calls, decided once for each revision.

It is made at the first call, and dropped with ``Server.plans`` when one of its sources changes: a
component, a hook, the middleware, the settings, the description of the server.

================ ================= ============================================================
list             step              is there for
================ ================= ============================================================
BEFORE_ARGUMENTS check_permission  components with a permission or scopes
                 check_headers     tools with ``x-mcp-header`` in their schema
AROUND_HANDLER   transactions      handlers, if a database has ATOMIC_REQUESTS
                 ``around_call``   handlers of a server with this hook
``Invocation``   rollback          handlers with ``requests_input``
                 thread            handlers that are synchronous
every place      those of          components that use an extension (``server.extensions``), after
                 extensions        the others
================ ================= ============================================================

A plan calls functions that are stored in it. Those of a tool are made at its registration, except
for the last one:

=================== ==============================================================================
``validate``        ``schemas._Validation.in_loop``, or what a declared JSON Schema has instead
``invoke``          a function of ``signature._invoke``: the handler, with its keywords
``read``            ``methods.tools._make_result``, and steps of extensions after it
=================== ==============================================================================

AROUND_HANDLER is in ``invocation``, and ``runtime`` adds its steps. The other lists are here, with
the condition of each step; all steps of AFTER_RESULT are those of extensions. A step before the
handler returns the answer to the call, or None where the call goes on; one after the result returns
the result. The middleware of a server is a chain in its plans as well (``dispatcher``);
``handle.answer`` adds the steps around every request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from django_mcp.core.components.base import Component
from django_mcp.core.components.invalid_arguments import InvalidArguments, LargeArguments
from django_mcp.core.components.resource import TemplateComponent
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.dispatch import invocation, visibility
from django_mcp.core.dispatch.invocation import Invocation
from django_mcp.core.protocol import headers
from django_mcp.core.protocol.preencoded import PreEncodedResult
from django_mcp.core.server import extensions

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer, Read, Result
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import McpError
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.extensions import AfterResult, BeforeArguments, BeforeHandler
    from django_mcp.core.server.server import Server

Arguments = dict[str, Any]


async def _raise(
    frame: Frame, plan: Plan, arguments: Arguments, error: InvalidArguments
) -> NoReturn:
    raise error


@dataclass(frozen=True, slots=True)
class Plan:
    """How a component is called in a revision."""

    component: Any
    """A Component, of the kind that its method makes plans for."""
    unknown: Callable[[str], McpError]
    """The error for a key that the caller knows no component by."""
    before_arguments: Sequence[BeforeArguments]
    validate: Callable[[Arguments], Any]
    before_handler: Sequence[BeforeHandler]
    invocation: Invocation
    """Runs the handler with the contexts around it, and makes its result."""
    invalid: Callable[[Frame, Plan, Arguments, InvalidArguments], Awaitable[Answer]] = _raise
    """Answers a call with invalid arguments, or raises."""

    async def call(self, frame: Frame, arguments: Arguments) -> Answer:
        """Answer a call with these arguments, by the steps of the plan."""
        for step in self.before_arguments:
            answer = await step(frame, self, arguments)
            if answer is not None:
                return answer
        validate = self.validate
        try:
            try:
                validated = validate(arguments)
            except LargeArguments:
                validated = await invocation.validate_large(self.component.input, arguments)
        except InvalidArguments as error:
            return await self.invalid(frame, self, arguments, error)
        for prepare in self.before_handler:
            answer = await prepare(frame, self, arguments, validated)
            if answer is not None:
                return answer
        return await self.invocation.run(frame, validated)

    async def accepts(self, arguments: Arguments) -> bool:
        """Whether the arguments are valid."""
        try:
            await invocation.validate_large(self.component.input, arguments)
        except InvalidArguments:
            return False
        return True

    async def run_handler(self, frame: Frame, validated: Any) -> Answer:
        """Run the handler without further steps, if the caller may still use the component."""
        await check_permission(frame, self)
        return await self.invocation.run(frame, validated)


Make = Callable[["Server", Any, "Revision"], Plan]
"""Makes the plan of a component. Each method has its own."""


def kept(frame: Frame, kind: str, key: str) -> Plan | None:
    """The plan of a component of the server; None if there is none yet: see ``find``.

    None as well where the connection selects its components, or has some of its own.
    """
    plan: Plan | None = frame.server.plans.get((kind, key, frame.revision.version))
    if plan is None or frame.private.get("components") or (frame.auth and frame.auth.selection):
        return None
    return plan


async def find(frame: Frame, kind: str, key: str, make: Make) -> Plan | None:
    """The plan of a component by its key, if there is one that the caller may know.

    Where the server declares it, ``check_permission`` decides as a step of the plan. Otherwise
    ``visibility.find`` has decided, and the plan is without this step. Raises its errors.
    """
    has_own = frame.private.get("components") or (frame.auth and frame.auth.selection)
    declared = None if has_own else frame.server.components.find(kind, key)
    component = declared or await visibility.find(frame, kind, key)
    if component is None:
        return None
    plan = kept_or_made(frame, component, make)
    if declared is not None:
        return plan
    # It is decided already, and the step would not find a component of the connection.
    others = [step for step in plan.before_arguments if step is not check_permission]
    return replace(plan, before_arguments=others)


def kept_or_made(frame: Frame, component: Component, make: Make) -> Plan:
    """The plan of a component. It is kept if the component is declared by the server."""
    server = frame.server
    plans = server.plans  # Before it is looked up: a change of the components replaces them.
    name = (component.kind, component.key, frame.revision.version)
    plan: Plan | None = plans.get(name)
    if plan is None or plan.component is not component:
        plan = make(server, component, frame.revision)
        if server.components.find(component.kind, component.key) is component:
            plans[name] = plan
    return plan


# Before the arguments are validated.


async def check_permission(frame: Frame, plan: Plan, arguments: Arguments | None = None) -> None:
    component = plan.component
    if await visibility.find(frame, component.kind, component.key) is not component:
        raise plan.unknown(component.key)


async def check_headers(frame: Frame, plan: Plan, arguments: Arguments) -> None:
    """Raise HeaderMismatch unless the client repeats these arguments in headers.

    A client that calls a tool through another tool sends the headers of the other one.
    """
    sent = frame.exchange.request_headers
    if sent is not None and not frame.private.get("is_indirect"):
        headers.check_params(plan.component.param_headers, arguments, sent.collected())


# Which steps a plan has.


def _is_guarded(component: Component, revision: Revision) -> bool:
    # The templates that match a URI are asked for together, before one of them is called.
    return not component.is_public and not isinstance(component, TemplateComponent)


def _has_headers(component: Component, revision: Revision) -> bool:
    return isinstance(component, ToolComponent) and bool(component.param_headers)


class Steps(NamedTuple):
    """The steps at a place, each with a condition on components and revisions."""

    place: str
    steps: Sequence[tuple[Callable[[Component, Revision], bool], Callable[..., Any]]]

    def of(self, component: Component, revision: Revision) -> tuple[Callable[..., Any], ...]:
        own = [step for is_there, step in self.steps if is_there(component, revision)]
        return (*own, *extensions.INSTALLED.steps(self.place, component, revision))

    def after(self, read: Read, component: Component, revision: Revision) -> Read:
        """Return ``read``, which makes the result of a component, with the steps after it."""
        steps = self.of(component, revision)
        return partial(_read_through, read, steps, component) if steps else read


def _read_through(
    read: Read, steps: Sequence[AfterResult], component: Component, frame: Frame, value: Any
) -> Result:
    result = read(frame, value)
    if type(result) is PreEncodedResult:
        result = {"structuredContent": result}
    for step in steps:
        result = step(frame, component, value, result)
    return result


BEFORE_ARGUMENTS = Steps(
    "before_arguments",
    (
        (_is_guarded, check_permission),
        (_has_headers, check_headers),
    ),
)
AFTER_RESULT = Steps("after_result", ())
