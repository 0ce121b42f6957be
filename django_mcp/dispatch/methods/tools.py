"""tools/list and tools/call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import (
    InvalidArguments,
    InvalidOutput,
    LargeArguments,
    UnserializableResult,
)
from django_mcp.components.serializers import SCALARS
from django_mcp.components.tool import ToolComponent
from django_mcp.components.views import FRAGMENT
from django_mcp.dispatch import approval, invocation, result_size, task_calls, visibility
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
from django_mcp.server import failures

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.revisions import Revision

FAILED = "The tool failed unexpectedly. The failure has been logged."


async def call(frame: Frame) -> Answer:
    """Call a tool: look it up, then check task policy, arguments and approval, then run it."""
    params = frame.message.params
    name = invocation.string_param(params, "name")
    arguments = invocation.object_param(params, "arguments")
    tool = visibility.find_public(frame, ToolComponent.kind, name)
    if tool is None:
        tool = await visibility.find(frame, ToolComponent.kind, name)
    if not isinstance(tool, ToolComponent) or (tool.app_only and frame.private.get("is_indirect")):
        # Hosts hide a tool of views from the model, which must not reach it through another tool.
        raise InvalidParams(f"Unknown tool: {cut(name)}")
    if tool.param_headers:
        _check_headers(frame, tool, arguments)
    task_plan = None
    if tool.task_support != "forbidden" or "task" in params:
        task_plan = task_calls.plan(frame, tool)
        if task_plan is not None and tool.approval is None:
            return await task_calls.answer(frame, task_plan, call)
    try:
        try:
            validated = tool.input.validate(arguments)
        except LargeArguments:
            validated = await invocation.validate_large(tool.input, arguments)
    except InvalidArguments as error:
        if task_plan is not None:
            # The client has requested a task, so the task is what fails.
            return await task_calls.answer(frame, task_plan, call)
        return error_result(f"Invalid arguments: {error}"), frame
    if tool.approval is not None:
        proceed = partial(_run_approved, tool, validated)
        held = await approval.hold(frame, tool, arguments, validated, task_plan, proceed)
        if held is not None:
            return held
        # The call needs no approval, or was approved.
        if task_plan is not None:
            return await task_calls.answer(frame, task_plan, call)
    return await _run(tool, validated, frame)


def _check_headers(frame: Frame, tool: ToolComponent, arguments: dict[str, Any]) -> None:
    """Raise HeaderMismatch unless the client repeats these arguments in headers.

    A client that calls a tool through another tool sends the headers of the other one.
    """
    sent = frame.exchange.request_headers
    if sent is not None and not frame.private.get("is_indirect"):
        headers.check_params(tool.param_headers, arguments, sent.collected())


async def _run_approved(tool: ToolComponent, validated: Any, frame: Frame) -> Answer:
    """Run a tool after a person approved the call, if the caller may still use the tool."""
    if await visibility.find(frame, ToolComponent.kind, tool.key) is not tool:
        raise InvalidParams(f"Unknown tool: {cut(tool.name)}")
    return await _run(tool, validated, frame)


async def _run(tool: ToolComponent, validated: Any, frame: Frame) -> Answer:
    """Run the handler of a tool; errors that the model can act on become results."""
    server = frame.server
    name = tool.name
    try:
        # The structure is encoded on the handler's thread if nothing reads it before it is sent.
        encodes_early = frame.exchange.encodes and not server.middleware
        read_function = _read_encoded if encodes_early else _read
        read_value = partial(read_function, frame.revision, tool)
        if tool.view is not None and tool.view.has_fragment:
            read_value = partial(_read_with_fragment, frame, tool)
        read = result_size.bounded(frame, tool, read_value)
        handler = invocation.handler_of(tool, server.handle_tool_call, name)
        return await invocation.run(handler, frame, validated, read=read)
    except ToolError as error:
        return error_result(str(error)), frame
    except ClientError as error:
        return error_result(error.description), frame
    except McpError:
        raise
    except (InvalidOutput, UnserializableResult) as error:
        failures.report_unexpected(frame, error, "The tool %s returned an invalid result", name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The tool returned an invalid result{details}") from error
    except Exception as error:
        failures.report_unexpected(frame, error, "The tool %s failed", name)
        return error_result(f"{FAILED}{failures.debug_details(frame, error)}"), frame


def error_result(text: str) -> dict[str, Any]:
    """The result of a failed call, which the model reads."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _read_encoded(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result of ``_read`` with its structure already encoded as JSON."""
    if type(value) in SCALARS:  # Encoding it early would save nothing.
        return _revised(revision, tool, results.of_value(tool, value))
    json = None
    if revision.structured is not Structured.NOTHING:
        json = results.encode_structure(tool, value)
    if json is None:
        return _read(revision, tool, value)
    content = revision.encoded_structured_content(json, tool.output_schema)
    return {"structuredContent": PreEncodedResult(json, content)}


def _read_with_fragment(frame: Frame, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result of ``_read`` with the fragment that the view of the tool shows.

    It is in ``_meta``: hosts hand that to the view, and keep it from the model.
    """
    result = _read(frame.revision, tool, value)
    meta = result.get("_meta") or {}
    if tool.view is None or result.get("isError") or FRAGMENT in meta:
        return result
    html = tool.view.fragment_of(value, frame.message.params.get("arguments") or {})
    return {**result, "_meta": {**meta, FRAGMENT: html}}


def _read(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result of a tool for what its handler returned."""
    return _revised(revision, tool, results.tool_result(tool, value))


def _revised(revision: Revision, tool: ToolComponent, result: dict[str, Any]) -> dict[str, Any]:
    """A result with its structured content as the revision has it."""
    if revision.structured is Structured.OBJECT and "structuredContent" in result:
        structured = result["structuredContent"]
        result["structuredContent"] = revision.structured_content(structured, tool.output_schema)
    return result
