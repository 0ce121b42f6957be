"""``approval_status``: a tool for models that look at a call of their user again."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from django_mcp.contrib.approvals import holding
from django_mcp.contrib.approvals.answers import STATUS_TOOL
from django_mcp.core.components.base import Component
from django_mcp.core.components.responses import ToolResponse
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.server.server import Server
from django_mcp.tasks.call_status import StoredResult

ID = re.compile(r"[\w-]{22}", re.ASCII)
"""Sixteen random bytes, in base64."""


async def approval_status(
    id: Annotated[str, Field(description="The id from the result of the call that waits")],
    frame: Frame,
) -> ToolResponse:
    """Look at a call that waits for the approval of a person.

    Returns the result of the call once it was approved and carried out. Until then, and if it was
    declined or has expired, returns its status.
    """
    row = await holding.find_own(frame, id) if ID.fullmatch(id) else None
    if row is None:
        raise ToolError("There is no call of yours with this id that waits, or has waited.")
    return StoredResult(result=await holding.outcome(frame, row))


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
