"""Calls that need the approval of a person: the interface to the app that stores them.

A call that needs an approval is stored as a task that waits for its start. Once a person has
approved it, its run makes the same call again, with a grant that lets it pass.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.signature import is_async
from django_mcp.core.dispatch import task_calls
from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import AuthenticationRequired, InternalError, Json
from django_mcp.core.server import failures

if TYPE_CHECKING:
    from django_mcp.core.components.tool import ToolComponent
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.dispatch.plan import Plan
    from django_mcp.core.dispatch.task_calls import TaskTerms
    from django_mcp.core.frame.frame import Frame

WAITS = "waits until a person has approved it"
"""The words that tell the caller that a call is held."""
STATUS_TOOL = "approval_status"
"""The tool that says what became of a held call."""
_ID = re.compile(rf'{STATUS_TOOL} with id="([\w-]+)"')


@dataclass(slots=True)
class Grant:
    """The right to make one approved call, in the run of the task ``task_id``."""

    task_id: str
    server: str
    tool: str
    arguments: Json
    is_used: bool = False

    def take(self, server: str, tool: str, arguments: Json) -> bool:
        """Use the right for this call; False if it is another one, or the right was used."""
        is_same = (self.server, self.tool, self.arguments) == (server, tool, arguments)
        if self.is_used or not is_same:
            return False
        self.is_used = True
        return True


granted: ContextVar[Grant | None] = ContextVar("django_mcp.granted", default=None)
"""The right of the task that runs in this context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCall:
    """A call that somebody with ``permission`` has to approve."""

    frame: Frame
    tool: ToolComponent
    arguments: Json
    permission: str
    terms: TaskTerms | None
    """How the call becomes a task for its client; None for a plain call."""
    proceed: Callable[[Frame], Awaitable[Answer]]
    """Runs the tool, for a call that is approved while its client waits."""


def id_in(text: str) -> str | None:
    """Return the id for the status tool in the text of a result, or None."""
    match = _ID.search(text)
    return None if match is None else match[1]


class Approvals(Protocol):
    """Stores calls until they are approved."""

    async def hold(self, call: HeldCall, /) -> Answer:
        """Return the answer to the call: its result, its task, or a text that it waits."""

    async def verify(self, task_id: str, /) -> None:
        """Raise ValueError unless the stored call was approved, and is as it was then."""


APPROVALS: Port[Approvals] = Port(
    "stores calls that wait", filled_by="django_mcp.contrib.approvals"
)


async def hold(
    frame: Frame, plan: Plan, arguments: dict[str, Any], validated: Any
) -> Answer | None:
    """Return the answer to a call that has to be approved, or None for one that may run now.

    It is a step of a plan. A call that cannot be held does not run: raises InternalError without
    the app, or where the author's function fails, and AuthenticationRequired for an anonymous
    caller.
    """
    tool = plan.component
    terms = task_calls.terms_of(frame, tool)
    approvals = port(frame, tool)
    permission = await _needed_permission(frame, tool, arguments, validated)
    if permission is None:
        if terms is None:
            return None
        return await task_calls.answer(frame, terms, plan, arguments)
    if frame.principal.is_anonymous:
        raise AuthenticationRequired(scopes=tool.scopes | frame.server.scopes)

    def proceed(inner: Frame) -> Awaitable[Answer]:
        return plan.run_approved(inner, validated)

    return await approvals.hold(
        HeldCall(
            frame=frame,
            tool=tool,
            arguments=arguments,
            permission=permission,
            terms=terms,
            proceed=proceed,
        )
    )


async def _needed_permission(
    frame: Frame, tool: ToolComponent, arguments: dict[str, Any], validated: Any
) -> str | None:
    """The permission that an approver needs; None for a call that may run now."""
    grant = granted.get()
    if grant is not None and grant.take(frame.server.name, tool.name, arguments):
        return None
    try:
        return await _permission(frame, tool, validated)
    except Exception as error:
        frame.server.report(f"The approval of the tool {tool.name!r} failed", error)
        raise InternalError from error


def port(frame: Frame, tool: ToolComponent) -> Approvals:
    """Return the app that stores calls; raises InternalError without it."""
    if not APPROVALS.is_filled:
        error = ConfigurationError(f"The tool {tool.name!r} has an approval: {NOT_INSTALLED}")
        failures.report_unexpected(frame, error, "The tool %s cannot wait for approval", tool.name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The site has nowhere to store a call that waits{details}")
    return APPROVALS.get()


NOT_INSTALLED = 'Add "django_mcp.contrib.approvals" to INSTALLED_APPS'


async def verify(task_id: str) -> None:
    """Raise ValueError unless the stored call was approved, and is as it was then."""
    if not APPROVALS.is_filled:
        raise ValueError(f"A call that was approved cannot be verified: {NOT_INSTALLED}")
    await APPROVALS.get().verify(task_id)


async def _permission(frame: Frame, tool: ToolComponent, validated: Any) -> str | None:
    """The permission that an approver needs; raises TypeError for any other value."""
    declared = None if tool.approval is None else tool.approval.permission
    if declared is None or isinstance(declared, str):
        return declared
    if is_async(declared):
        returned: Any = declared(validated, frame)
    else:
        returned = await frame.exchange.run_hook(declared, validated, frame)
    if isawaitable(returned):
        returned = await returned
    if returned is None or returned is False:
        return None
    if isinstance(returned, str) and "." in returned:
        return returned
    raise TypeError(f'{returned!r} is no permission: return "app_label.codename", None or False')
