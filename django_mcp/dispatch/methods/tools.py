"""tools/list and tools/call."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import InvalidArguments, InvalidOutput, UnserializableResult
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
from django_mcp.protocol.preencoded import PreEncodedResult
from django_mcp.protocol.revisions import Structured

if TYPE_CHECKING:
    from django_mcp.dispatch.methods import Answer
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.revisions import Revision

logger = logging.getLogger("django_mcp")

BLAND = "The tool failed unexpectedly. The failure has been logged."


async def list_(frame: Frame) -> Answer:
    """One page of the tools this caller may use."""
    return await visibility.page(frame, ToolComponent.kind, "tools")


async def call(frame: Frame) -> Answer:
    """Look the tool up, check its arguments, run it, and say what came out."""
    name = invocation.string_param(frame, "name")
    arguments = invocation.object_param(frame, "arguments")
    tool = await visibility.find(frame, ToolComponent.kind, name)
    if not isinstance(tool, ToolComponent):
        raise InvalidParams(f"Unknown tool: {name}")
    if tool.param_headers:
        _check_headers(frame, tool, arguments)
    try:
        clean = tool.input.validate(arguments)
    except InvalidArguments as error:
        return failed(f"The arguments do not fit: {error}"), frame
    try:
        read = partial(_encoded if _may_be_encoded(frame) else _read, frame.revision, tool)
        return await invocation.run(_handler(frame, tool), frame, clean, read=read)
    except ToolError as error:
        return failed(str(error)), frame
    except ClientError as error:
        return failed(error.told), frame
    except McpError:
        raise
    except (InvalidOutput, UnserializableResult) as error:
        logger.error("What the tool %s returned does not fit: %s", name, error)
        raise InternalError("The tool returned something unfit") from error
    except Exception as error:
        logger.exception("The tool %s failed", name)
        return failed(_explanation(frame, error)), frame


def _handler(frame: Frame, tool: ToolComponent) -> invocation.Handler:
    if tool.invoke is not None:
        return tool
    hook = frame.server.handle_tool_call
    return invocation.HookHandler(hook, partial(hook, tool.name))


def failed(text: str) -> dict[str, Any]:
    """A result by which the model learns that the tool failed, and why."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _check_headers(frame: Frame, tool: ToolComponent, arguments: dict[str, Any]) -> None:
    if frame.exchange.request_headers is not None:
        headers.check_params(
            tool.param_headers, arguments, frame.exchange.request_headers.collected()
        )


def _explanation(frame: Frame, error: Exception) -> str:
    """What the model is told of a failure that nobody foresaw: next to nothing, but under DEBUG."""
    if frame.server.limits.debug:
        return f"{BLAND} (DEBUG: {type(error).__name__}: {error})"
    return BLAND


def _may_be_encoded(frame: Frame) -> bool:
    """Whether nobody looks at the result before it leaves as bytes."""
    return frame.exchange.encodes and not frame.server.middleware


def _encoded(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """``_read``, with a structure which is JSON already."""
    # What is tiny is not worth it, and a text is no structure.
    if type(value) in TINY or revision.structured is Structured.NOTHING:
        return _read(revision, tool, value)
    json = results.encode_structure(tool, value)
    if json is None:
        return _read(revision, tool, value)
    return {
        "structuredContent": PreEncodedResult(
            json, revision.encoded_structured_content(json, tool.output_schema)
        )
    }


TINY = frozenset({type(None), bool, int, float, str})


def _read(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """The result which a value stands for, its structure as the revision has it."""
    result = results.tool_result(tool, value)
    if "structuredContent" in result:
        structured = result["structuredContent"]
        result["structuredContent"] = revision.structured_content(structured, tool.output_schema)
    return result
