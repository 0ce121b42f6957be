"""tools/list and tools/call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import ArgumentsInvalid, Component, OutputInvalid
from django_mcp.components.results import UnfitResult
from django_mcp.components.tool import ToolComponent
from django_mcp.methods import listing, running
from django_mcp.protocol import headers
from django_mcp.protocol.errors import InternalError, InvalidParams, McpError, ToolError

if TYPE_CHECKING:
    from django_mcp.frame import Frame
    from django_mcp.methods import Answer

logger = logging.getLogger("django_mcp")

BLAND = "The tool failed unexpectedly. The failure has been logged."


async def list_(frame: Frame) -> Answer:
    """One page of the tools this caller may use."""
    return await listing.page(frame, ToolComponent.kind, "tools")


async def call(frame: Frame) -> Answer:
    """Look the tool up, check its arguments, run it, and say what came out."""
    name = running.string_param(frame, "name")
    arguments = running.object_param(frame, "arguments")
    tool = await listing.find(frame, ToolComponent.kind, name)
    if not isinstance(tool, ToolComponent):
        raise InvalidParams(f"Unknown tool: {name}")
    _check_headers(frame, tool, arguments)
    try:
        clean = tool.validate_input(arguments)
    except ArgumentsInvalid as error:
        return failed(f"The arguments do not fit: {error}"), frame
    try:
        value, after = await running.run(tool, frame, clean)
    except ToolError as error:
        return failed(str(error)), frame
    except McpError:
        raise
    except Exception as error:
        return _failed_unexpectedly(frame, tool, error), frame
    return _result(tool, value), after


def failed(text: str) -> dict[str, Any]:
    """A result by which the model learns that the tool failed, and why."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _check_headers(frame: Frame, tool: ToolComponent, arguments: dict[str, Any]) -> None:
    assert frame.exchange is not None
    if tool.param_headers and frame.exchange.mirrored is not None:
        headers.check_params(tool.param_headers, arguments, frame.exchange.mirrored.collected())


def _failed_unexpectedly(frame: Frame, tool: Component, error: Exception) -> dict[str, Any]:
    logger.error("The tool %s failed", tool.name, exc_info=error)
    if frame.server.limits.debug:
        return failed(f"{BLAND} (DEBUG: {type(error).__name__}: {error})")
    return failed(BLAND)


def _result(tool: ToolComponent, value: Any) -> dict[str, Any] | McpError:
    if isinstance(value, McpError):
        return value
    try:
        return results.tool_result(tool, value)
    except (OutputInvalid, UnfitResult) as error:
        logger.error("What the tool %s returned does not fit: %s", tool.name, error)
        raise InternalError("The tool returned something unfit") from error
