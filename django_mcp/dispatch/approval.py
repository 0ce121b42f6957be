"""Calls that need the approval of a person: the port to the app which stores them."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.components.base import ConfigurationError
from django_mcp.components.signature import is_async
from django_mcp.protocol.errors import AuthenticationRequired, InternalError
from django_mcp.server import failures

if TYPE_CHECKING:
    from django_mcp.components.tool import ToolComponent
    from django_mcp.frame.frame import Frame


class Approvals(Protocol):
    """Stores calls until they are approved, and runs them then."""

    def is_approved(self, frame: Frame, tool: ToolComponent, arguments: dict[str, Any]) -> bool:
        """Return whether this call is the run of one that was approved; True only once."""

    async def hold(
        self, frame: Frame, tool: ToolComponent, arguments: dict[str, Any], permission: str
    ) -> dict[str, Any]:
        """Return the result of a call that somebody with this permission has to approve."""


APPROVALS: list[Approvals] = []
"""Port: the app ``django_mcp.approvals`` puts its implementation here."""


async def hold(
    frame: Frame, tool: ToolComponent, arguments: dict[str, Any], validated: Any
) -> dict[str, Any] | None:
    """Return the result of a call that has to be approved, or None for one that may run now.

    A call that cannot be held does not run: raises InternalError without the app, or where the
    author's function fails, and AuthenticationRequired for an anonymous caller.
    """
    if not APPROVALS:
        error = ConfigurationError(f"The tool {tool.name!r} has an approval: {NOT_INSTALLED}")
        failures.report_unexpected(frame, error, "The tool %s cannot wait for approval", tool.name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The site has nowhere to store a call that waits{details}")
    (approvals,) = APPROVALS
    if approvals.is_approved(frame, tool, arguments):
        return None
    try:
        permission = await _permission(frame, tool, validated)
    except Exception as error:
        frame.server.report(f"The approval of the tool {tool.name!r} failed", error)
        raise InternalError from error
    if permission is None:
        return None
    if frame.principal.is_anonymous:
        raise AuthenticationRequired(scopes=tool.scopes | frame.server.scopes)
    return await approvals.hold(frame, tool, arguments, permission)


NOT_INSTALLED = 'Add "django_mcp.approvals" to INSTALLED_APPS'


async def _permission(frame: Frame, tool: ToolComponent, validated: Any) -> str | None:
    """The permission that an approver needs; raises TypeError for what is none."""
    declared = tool.approval
    if declared is None or isinstance(declared, str):
        return declared
    if is_async(declared):
        permission: Any = declared(validated, frame)
    else:
        permission = await frame.exchange.run_hook(declared, validated, frame)
    permission = await permission if isawaitable(permission) else permission
    if permission is None or permission is False:
        return None
    if isinstance(permission, str) and "." in permission:
        return permission
    raise TypeError(f'{permission!r} is no permission: return "app_label.codename", None or False')
