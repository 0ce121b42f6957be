"""tools/list and tools/call."""

from __future__ import annotations

from collections.abc import Sequence
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
from django_mcp.components.views import FRAGMENT
from django_mcp.dispatch import approval, invocation, result_size, task_calls, visibility
from django_mcp.dispatch.plan import AfterResult, Plan, Steps
from django_mcp.protocol import headers
from django_mcp.protocol.errors import (
    ClientError,
    InternalError,
    InvalidParams,
    McpError,
    MissingClientCapability,
    ToolError,
)
from django_mcp.protocol.limits import MAX_IDENTIFIER, cut
from django_mcp.protocol.preencoded import PreEncodedResult
from django_mcp.protocol.revisions import Feature, Structured
from django_mcp.server import failures

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer, Result
    from django_mcp.frame.frame import Frame
    from django_mcp.frame.frame_server import FrameServer
    from django_mcp.protocol.revisions import Revision

TOOL = ToolComponent.kind
NO_ARGUMENTS: dict[str, Any] = {}
FAILED = "The tool failed unexpectedly. The failure has been logged."


async def call(frame: Frame) -> Answer:
    """Call any tool, by the steps of its plan."""
    params = frame.message.params
    name = params.get("name")
    arguments = params.get("arguments", NO_ARGUMENTS)
    if type(name) is not str or len(name) > MAX_IDENTIFIER:
        name = invocation.string_param(params, "name")  # Raises.
    if type(arguments) is not dict:
        arguments = invocation.object_param(params, "arguments")  # Raises.
    plan = frame.server.plans.get((TOOL, name, frame.revision.version))
    if plan is None or frame.private.get("components") or (frame.auth and frame.auth.selection):
        plan = await _plan_for(frame, name)
    tool = plan.tool
    for step in plan.before_arguments:
        answer = await step(frame, tool, arguments)
        if answer is not None:
            return answer
    try:
        try:
            validated = plan.validate(arguments)
        except LargeArguments:
            validated = await invocation.validate_large(tool.input, arguments)
    except InvalidArguments as error:
        return await _invalid(frame, tool, error)
    for prepare in plan.before_handler:
        answer = await prepare(frame, tool, arguments, validated)
        if answer is not None:
            return answer
    return await invocation.run(plan.handler, frame, validated, read=plan.read, failed=plan.failed)


async def _plan_for(frame: Frame, name: str) -> Plan:
    """The plan of the tool that the caller knows by this name; raises InvalidParams for none.

    That of a tool of the server is kept, unless the connection selects its tools.
    """
    server = frame.server
    plans = server.plans  # Before the tool is looked up: a change of the components replaces it.
    own = frame.private.get("components")
    is_kept = not own and not (frame.auth and frame.auth.selection)
    declared = server.components.find(TOOL, name) if is_kept else None
    tool = declared or await visibility.find(frame, TOOL, name)
    if not isinstance(tool, ToolComponent):
        raise unknown(name)
    plan = make_plan(server, tool, frame.revision)
    if declared is not None:
        plans[TOOL, name, frame.revision.version] = plan
        return plan
    others = [step for step in plan.before_arguments if step is not _check_permission]
    return plan._replace(before_arguments=others)


def make_plan(server: FrameServer, tool: ToolComponent, revision: Revision) -> Plan:
    """Decide which steps the calls of a tool take; see ``dispatch.plan``."""
    handler: invocation.Handler = tool
    if tool.invoke is None:
        handler = invocation.handler_of(tool, server.handle_tool_call, tool.name)
    after_result = AFTER_RESULT.of(tool, revision)
    return Plan(
        tool=tool,
        validate=tool.input.validate,
        before_arguments=BEFORE_ARGUMENTS.of(tool, revision),
        before_handler=BEFORE_HANDLER.of(tool, revision),
        handler=handler,
        read=partial(_read, tool, after_result),
        failed=partial(_failed, tool),
    )


def unknown(name: str) -> InvalidParams:
    """The error for a name which the caller knows no tool by."""
    return InvalidParams(f"Unknown tool: {cut(name)}")


async def _check_permission(frame: Frame, tool: ToolComponent, arguments: Any) -> None:
    if await visibility.find(frame, TOOL, tool.key) is not tool:
        raise unknown(tool.name)


async def _check_direct(frame: Frame, tool: ToolComponent, arguments: Any) -> None:
    """Reject what a model calls through another tool: hosts hide tools of views from the model."""
    if frame.private.get("is_indirect"):
        raise unknown(tool.name)


async def _check_headers(frame: Frame, tool: ToolComponent, arguments: dict[str, Any]) -> None:
    """Raise HeaderMismatch unless the client repeats these arguments in headers.

    A client that calls a tool through another tool sends the headers of the other one.
    """
    sent = frame.exchange.request_headers
    if sent is not None and not frame.private.get("is_indirect"):
        headers.check_params(tool.param_headers, arguments, sent.collected())


async def _start_task(frame: Frame, tool: ToolComponent, arguments: Any) -> Answer | None:
    """Answer with a task if the call becomes one; a call that waits for an approval goes on."""
    how = task_calls.plan(frame, tool)
    if how is None or tool.approval is not None:
        return None
    return await task_calls.answer(frame, how, call)


async def _invalid(frame: Frame, tool: ToolComponent, error: InvalidArguments) -> Answer:
    how = task_calls.plan(frame, tool) if tool.approval is not None else None
    if how is not None:
        # The client has requested a task, so the task is what fails.
        return await task_calls.answer(frame, how, call)
    return error_result(f"Invalid arguments: {error}"), frame


async def _hold(
    frame: Frame, tool: ToolComponent, arguments: dict[str, Any], validated: Any
) -> Answer | None:
    """Answer that the call waits for an approval; None if it needs none, or was approved."""
    how = task_calls.plan(frame, tool)
    proceed = partial(_run_approved, tool, validated)
    held = await approval.hold(frame, tool, arguments, validated, how, proceed)
    if held is None and how is not None:
        return await task_calls.answer(frame, how, call)
    return held


async def _run_approved(tool: ToolComponent, validated: Any, frame: Frame) -> Answer:
    """Run a tool after a person approved the call, if the caller may still use the tool."""
    await _check_permission(frame, tool, None)
    plan = make_plan(frame.server, tool, frame.revision)
    return await invocation.run(plan.handler, frame, validated, read=plan.read, failed=plan.failed)


def _failed(tool: ToolComponent, frame: Frame, error: Exception) -> dict[str, Any]:
    """The result for an error that the model can act on; others are raised."""
    name = tool.name
    try:
        raise error
    except ToolError:
        return error_result(str(error))
    except ClientError as client_error:
        return error_result(client_error.description)
    except MissingClientCapability as missing:
        if not is_for_model(missing, frame):
            raise
        return error_result(needs_capability(missing))
    except McpError:
        raise
    except (InvalidOutput, UnserializableResult):
        failures.report_unexpected(frame, error, "The tool %s returned an invalid result", name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The tool returned an invalid result{details}") from error
    except Exception:
        failures.report_unexpected(frame, error, "The tool %s failed", name)
        return error_result(f"{FAILED}{failures.debug_details(frame, error)}")


def is_for_model(error: McpError, frame: Frame) -> bool:
    """Whether the model of a client is told that the client lacks a capability, by a result.

    Revisions without sessions have an error for it, which says what the client has to declare.
    """
    return (
        isinstance(error, MissingClientCapability)
        and frame.message.method == "tools/call"
        and frame.get_mcp_session_id() is not None
        and not frame.exchange.is_task_run
    )


def needs_capability(error: McpError) -> str:
    return f"{error}. The tool cannot go on with this client: tell the user so."


def error_result(text: str) -> dict[str, Any]:
    """The result of a failed call, which the model reads."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _read(
    tool: ToolComponent, after_result: Sequence[AfterResult], frame: Frame, value: Any
) -> Result:
    """The result of a tool for what its handler returned; raises ToolError if it is too large.

    Structure is encoded on the handler's thread, where nothing reads it before it is sent.
    """
    revision = frame.revision
    structured = revision.structured
    result: Result | None = None
    if (
        frame.exchange.encodes
        and structured is not Structured.NOTHING
        and not frame.server.middleware
    ):
        json = results.encode_structure(tool, value)
        if json is not None:
            content = json
            if structured is Structured.OBJECT:
                content = revision.encoded_structured_content(json, tool.output_schema)
            result = PreEncodedResult(json, content)
            if len(json) > frame.server.options.max_result_size:
                result_size.checked(frame, tool, {"structuredContent": result})
    if result is None:
        result = results.tool_result(tool, value)
        if structured is Structured.OBJECT and "structuredContent" in result:
            result["structuredContent"] = revision.structured_content(
                result["structuredContent"], tool.output_schema
            )
        result_size.checked(frame, tool, result)
    for step in after_result:
        result = step(frame, tool, value, result)
    return result


def _add_fragment(frame: Frame, tool: ToolComponent, value: Any, result: Result) -> Result:
    """Add the fragment that the view of the tool shows.

    It is in ``_meta``: hosts hand that to the view, and keep it from the model.
    """
    if type(result) is PreEncodedResult:
        result = {"structuredContent": result}
    meta = result.get("_meta") or {}
    if tool.view is None or result.get("isError") or FRAGMENT in meta:
        return result
    html = tool.view.fragment_of(value, frame.message.params.get("arguments") or {})
    result_size.check_fragment(frame, tool, html)
    return {**result, "_meta": {**meta, FRAGMENT: html}}


def _may_be_task(tool: ToolComponent, revision: Revision) -> bool:
    # Where clients request tasks themselves, they may request one of any tool.
    is_supported = tool.task_support != "forbidden"
    return revision.has(Feature.TASKS) or (is_supported and revision.has(Feature.TASKS_EXTENSION))


def _has_fragment(tool: ToolComponent, revision: Revision) -> bool:
    return tool.view is not None and tool.view.has_fragment


BEFORE_ARGUMENTS = Steps(
    (
        (lambda tool, revision: not tool.is_public, _check_permission),
        (lambda tool, revision: tool.app_only, _check_direct),
        (lambda tool, revision: bool(tool.param_headers), _check_headers),
        (_may_be_task, _start_task),
    )
)
BEFORE_HANDLER = Steps(((lambda tool, revision: tool.approval is not None, _hold),))
AFTER_RESULT = Steps(((_has_fragment, _add_fragment),))
