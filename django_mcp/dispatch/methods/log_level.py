"""logging/setLevel: the least severe log message that a session is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.dispatch.invocation import string_param
from django_mcp.frame.client.log_levels import LEVELS
from django_mcp.frame.session import Change
from django_mcp.protocol.errors import InvalidParams

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame


async def set_level(frame: Frame) -> tuple[dict[str, Any], Frame]:
    """Set the log level of the session; raises InvalidParams for an unknown one."""
    level = string_param(frame, "level")
    if level not in LEVELS:
        raise InvalidParams(f"params.level must be one of {', '.join(LEVELS)}")
    return {}, frame.put_private(log_level=level).record(Change("log_level", "set", value=level))
