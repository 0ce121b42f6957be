"""tools/list and tools/call."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import (
    InvalidArguments,
    InvalidOutput,
    LargeArguments,
    UnserializableResult,
)
from django_mcp.components.tool import ToolComponent
from django_mcp.dispatch import invocation, visibility
from django_mcp.protocol import headers
from django_mcp.protocol.errors import (
    ClientError,
    InternalError,
    InvalidParams,
    McpError,
    ToolError,
)
from django_mcp.protocol.limits import cut
from django_mcp.protocol.preencoded import PreEncodedResult
from django_mcp.protocol.revisions import Structured

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.revisions import Revision

logger = logging.getLogger("django_mcp")

FAILED = "The tool failed unexpectedly. The failure has been logged."


async def call(frame: Frame) -> Answer:
    name = invocation.string_param(frame, "name")
    arguments = invocation.object_param(frame, "arguments")
    tool = await visibility.find(frame, ToolComponent.kind, name)
    if not isinstance(tool, ToolComponent):
        raise InvalidParams(f"Unknown tool: {cut(name)}")
    if tool.param_headers and frame.exchange.request_headers is not None:
        collected = frame.exchange.request_headers.collected()
        headers.check_params(tool.param_headers, arguments, collected)
    try:
        try:
            validated = tool.input.validate(arguments)
        except LargeArguments:
            validated = await invocation.validate_large(tool.input, arguments)
    except InvalidArguments as error:
        return _error_result(f"The arguments do not fit: {error}"), frame
    try:
        # Where nothing reads the result before it is sent, its structure is encoded early.
        encodes = frame.exchange.encodes and not frame.server.middleware
        read = partial(_read_encoded if encodes else _read, frame.revision, tool)
        handler = invocation.handler_of(tool, frame.server.handle_tool_call, name)
        return await invocation.run(handler, frame, validated, read=read)
    except ToolError as error:
        return _error_result(str(error)), frame
    except ClientError as error:
        return _error_result(error.description), frame
    except McpError:
        raise
    except (InvalidOutput, UnserializableResult) as error:
        logger.error("The tool %s returned an invalid result: %s", name, error)
        raise InternalError("The tool returned something unfit") from error
    except Exception as error:
        logger.exception("The tool %s failed", name)
        details = f" (DEBUG: {type(error).__name__}: {error})" if frame.server.options.debug else ""
        return _error_result(f"{FAILED}{details}"), frame


def _error_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _read_encoded(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result of ``_read`` with its structure already encoded as JSON."""
    json = None
    if type(value) not in TINY and revision.structured is not Structured.NOTHING:
        json = results.encode_structure(tool, value)
    if json is None:
        return _read(revision, tool, value)
    content = revision.encoded_structured_content(json, tool.output_schema)
    return {"structuredContent": PreEncodedResult(json, content)}


TINY = frozenset({type(None), bool, int, float, str})
"""Types whose values gain nothing from being encoded early."""


def _read(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any]:
    result = results.tool_result(tool, value)
    if "structuredContent" in result:
        structured = result["structuredContent"]
        result["structuredContent"] = revision.structured_content(structured, tool.output_schema)
    return result
