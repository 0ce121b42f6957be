"""tools/list and tools/call."""

from __future__ import annotations

from collections.abc import Awaitable
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

NO_ARGUMENTS: dict[str, Any] = {}
FAILED = "The tool failed unexpectedly. The failure has been logged."


def call_plain(frame: Frame) -> Awaitable[Answer] | None:
    """Call a tool of which an earlier call has found that only its arguments are to be checked.

    Return None for any other, and for what ``call`` answers with an error.
    """
    params = frame.message.params
    name = params.get("name")
    arguments = params.get("arguments", NO_ARGUMENTS)
    if type(name) is not str or type(arguments) is not dict or "task" in params:
        return None
    tool = frame.server.components.plain_tools.get(name)
    if tool is None or frame.private.get("components") or (frame.auth and frame.auth.selection):
        return None
    try:
        return _run(tool, tool.input.validate(arguments), frame)
    except InvalidArguments:
        return None


async def call(frame: Frame) -> Answer:
    """Call any tool: permission, headers, task policy, arguments, approval, handler."""
    params = frame.message.params
    name = invocation.string_param(params, "name")
    arguments = invocation.object_param(params, "arguments")
    components = frame.server.components
    # Before the tool is looked up: a change of the components replaces it.
    plain_tools = components.plain_tools
    tool = await visibility.find(frame, ToolComponent.kind, name)
    is_indirect = frame.private.get("is_indirect")
    if not isinstance(tool, ToolComponent) or (tool.app_only and is_indirect):
        # Hosts hide a tool of views from the model, which must not reach it through another tool.
        raise InvalidParams(f"Unknown tool: {cut(name)}")
    if tool.is_plain and tool.is_public and components.find(ToolComponent.kind, name) is tool:
        plain_tools[name] = tool
    if tool.param_headers:
        _check_headers(frame, tool, arguments)
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


def _run(tool: ToolComponent, validated: Any, frame: Frame) -> Awaitable[Answer]:
    """Run the handler of a tool; errors that the model can act on become results."""
    handler: invocation.Handler = tool
    if tool.invoke is None:
        handler = invocation.handler_of(tool, frame.server.handle_tool_call, tool.name)
    shows_fragment = tool.view is not None and tool.view.has_fragment
    read = partial(_read_with_fragment if shows_fragment else _read, frame, tool)
    return invocation.run(handler, frame, validated, read=read, failed=partial(_failed, tool))


def _failed(tool: ToolComponent, frame: Frame, error: Exception) -> dict[str, Any]:
    """The result for an error that the model can act on; others are raised."""
    name = tool.name
    try:
        raise error
    except ToolError:
        return error_result(str(error))
    except ClientError as client_error:
        return error_result(client_error.description)
    except McpError:
        raise
    except (InvalidOutput, UnserializableResult):
        failures.report_unexpected(frame, error, "The tool %s returned an invalid result", name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The tool returned an invalid result{details}") from error
    except Exception:
        failures.report_unexpected(frame, error, "The tool %s failed", name)
        return error_result(f"{FAILED}{failures.debug_details(frame, error)}")


def error_result(text: str) -> dict[str, Any]:
    """The result of a failed call, which the model reads."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _read(frame: Frame, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result of a tool for what its handler returned; raises ToolError if too large."""
    revision = frame.revision
    result = None
    if type(value) in SCALARS:
        return _read_scalar(frame, tool, value)
    if frame.exchange.encodes and not frame.server.middleware:
        result = _encoded(revision, tool, value)
    if result is None:
        result = results.tool_result(tool, value)
    if revision.structured is Structured.OBJECT and "structuredContent" in result:
        _revise(revision, tool, result)
    return result_size.checked(frame, tool, result)


def _read_scalar(frame: Frame, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result for a value that holds no others; to encode it early would save nothing."""
    result = results.of_value(tool, value)
    if frame.revision.structured is Structured.OBJECT and "structuredContent" in result:
        _revise(frame.revision, tool, result)
    # Only a text can be long. To look at each result takes 3 % of a call.
    return result_size.checked(frame, tool, result) if type(value) is str else result


def _encoded(revision: Revision, tool: ToolComponent, value: Any) -> dict[str, Any] | None:
    """Return a result with its structure already encoded as JSON, or None.

    It is encoded on the handler's thread, where nothing reads it before it is sent.
    """
    json = None
    if revision.structured is not Structured.NOTHING:
        json = results.encode_structure(tool, value)
    if json is None:
        return None
    content = revision.encoded_structured_content(json, tool.output_schema)
    return {"structuredContent": PreEncodedResult(json, content)}


def _read_with_fragment(frame: Frame, tool: ToolComponent, value: Any) -> dict[str, Any]:
    """Return the result of ``_read`` with the fragment that the view of the tool shows.

    It is in ``_meta``: hosts hand that to the view, and keep it from the model.
    """
    result = _read(frame, tool, value)
    meta = result.get("_meta") or {}
    if tool.view is None or result.get("isError") or FRAGMENT in meta:
        return result
    html = tool.view.fragment_of(value, frame.message.params.get("arguments") or {})
    result_size.check_fragment(frame, tool, html)
    return {**result, "_meta": {**meta, FRAGMENT: html}}


def _revise(revision: Revision, tool: ToolComponent, result: dict[str, Any]) -> None:
    """Wrap structured content which is no object, for a revision that needs one."""
    structured = result["structuredContent"]
    if type(structured) is not PreEncodedResult:
        result["structuredContent"] = revision.structured_content(structured, tool.output_schema)
