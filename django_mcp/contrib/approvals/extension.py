"""Approvals as an extension: the option ``approval`` of tools, the step that requests approvals,
and the tool ``approval_status``, with which a model reads the status of a call of its user.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from django_mcp.contrib.approvals import step
from django_mcp.contrib.approvals.answers import STATUS_TOOL
from django_mcp.contrib.approvals.models import EXTENSION
from django_mcp.contrib.approvals.models import Approval as Row
from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.responses import ToolResponse
from django_mcp.core.components.signature import check_call, remedy_in_class
from django_mcp.core.components.tool import Approval, ToolComponent, tool_component
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.server.server import Server
from django_mcp.extensions import Extension, Option, Step
from django_mcp.tasks.call_status import StoredResult


def read(value: Any, where: str) -> Approval:
    approval = value if isinstance(value, Approval) else Approval(value)
    permission = approval.permission
    subject = approval.subject
    what = f"The approval of {where}"
    remedy = 'write "app_label.codename", or a function that takes the arguments and the Frame'
    if isinstance(permission, str) and "." not in permission:
        raise ConfigurationError(f"{what} is {permission!r}: {remedy}")
    if not isinstance(permission, str):
        remedy += remedy_in_class("approval", permission)
        check_call(permission, what, "the arguments", "the Frame", remedy=remedy)
    if subject is not None:
        remedy = "let it take the arguments alone, and return the object or None"
        what = f"The subject of the approval of {where}"
        check_call(subject, what, "the arguments alone", remedy=remedy, must_be_sync=True)
    return approval


async def approval_status(
    id: Annotated[str, Field(description="The id from the result of the call that waits")],
    frame: Frame,
) -> ToolResponse:
    """Look at a call that waits for the approval of a person.

    Returns the result of the call once it was approved and carried out. Until then, and if it was
    declined or has expired, returns its status.
    """
    row = await step.find_own(frame, id)
    if row is None:
        raise ToolError("There is no call of yours with this id that waits, or has waited.")
    return StoredResult(result=await step.outcome(frame, row))


def is_known(frame: Frame) -> bool:
    """Only callers who are known can have calls that wait."""
    return not frame.principal.is_anonymous


def add(server: Server, component: Component) -> None:
    """Add the tool to a server which was given a tool with an approval."""
    if not isinstance(component, ToolComponent) or "approval" not in component.options:
        return
    # Without building components that are deferred: apps may be getting ready.
    present = [item for item in server.components.registered() if item.key == STATUS_TOOL]
    if not any(item.handler is approval_status for item in present):
        tool = tool_component(approval_status, title="Status of an approval", permission=is_known)
        # Whatever a connection selects or a server lists, its calls may wait.
        server.components.add(replace(tool, is_in_every_selection=True, always_load=True))


def always_waits(component: Component) -> bool:
    approval = component.options.get("approval")
    return approval is not None and isinstance(approval.permission, str)


def prune() -> str:
    return f"Deleted {Row.objects.all().prune()} approvals."


APPROVALS = Extension(
    name=EXTENSION,
    options=[
        Option(
            name="approval",
            read=read,
            only_on_server="the session may be over when its call is approved",
            answers_with_text=True,
        )
    ],
    before_handler=[Step(step.request_approval, decides=True, defers=always_waits)],
    add_to=add,
    grant=step.grant,
    prune=prune,
)
