"""tools/list and tools/call."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.core.components import results
from django_mcp.core.components.base import InvalidOutput, UnserializableResult
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.dispatch import invocation, plan, result_size
from django_mcp.core.dispatch.invocation import Invocation
from django_mcp.core.dispatch.plan import Plan
from django_mcp.core.protocol.errors import (
    ClientError,
    InternalError,
    InvalidParams,
    McpError,
    MissingClientCapability,
    ToolError,
)
from django_mcp.core.protocol.jsonrpc import new_tuple
from django_mcp.core.protocol.limits import MAX_IDENTIFIER, cut
from django_mcp.core.protocol.preencoded import PreEncodedResult
from django_mcp.core.protocol.revisions import Structured
from django_mcp.core.server import failures
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer, Result
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

TOOL = ToolComponent.kind
NO_ARGUMENTS: dict[str, Any] = {}
FAILED = "The tool failed unexpectedly. The failure has been logged."


def call(frame: Frame) -> Awaitable[Answer]:
    """Call any tool, by the steps of its plan."""
    params = frame.message.params
    name = params.get("name")
    arguments = params.get("arguments", NO_ARGUMENTS)
    if type(name) is not str or len(name) > MAX_IDENTIFIER:
        name = invocation.string_param(params, "name")  # Raises.
    if type(arguments) is not dict:
        arguments = invocation.object_param(params, "arguments")  # Raises.
    tool_plan = plan.kept(frame, TOOL, name)
    if tool_plan is None:
        return _call_first(frame, name, arguments)
    return tool_plan.call(frame, arguments)


async def _call_first(frame: Frame, name: str, arguments: dict[str, Any]) -> Answer:
    tool_plan = await plan.find(frame, TOOL, name, make_plan)
    if tool_plan is None:
        raise unknown(name)
    return await tool_plan.call(frame, arguments)


def make_plan(server: Server, tool: ToolComponent, revision: Revision) -> Plan:
    """Decide which steps the calls of a tool take; see ``dispatch.plan``."""
    handler = invocation.handler_of(tool, server.handle_tool_call, tool.name)
    structured = revision.structured
    # Middleware reads results before they are encoded.
    may_encode = structured is not Structured.NOTHING and not server.middleware
    largest = server.options.max_result_size
    read_value = partial(_make_result, tool, may_encode, structured is Structured.OBJECT, largest)
    read = plan.AFTER_RESULT.after(read_value, tool, revision)
    return Plan(
        component=tool,
        unknown=unknown,
        before_arguments=plan.BEFORE_ARGUMENTS.of(tool, revision),
        validate=tool.input.validate,
        invalid=_invalid,
        before_handler=INSTALLED.steps("before_handler", tool, revision),
        invocation=Invocation.of(server, handler, read=read, failed=partial(_failed, tool)),
    )


def unknown(name: str) -> InvalidParams:
    """The error for a name which the caller knows no tool by."""
    return InvalidParams(f"Unknown tool: {cut(name)}")


async def _invalid(
    frame: Frame, tool_plan: Plan, arguments: dict[str, Any], error: InvalidArguments
) -> Answer:
    return error_result(f"Invalid arguments: {error}"), frame


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


def _make_result(
    tool: ToolComponent, may_encode: bool, is_object: bool, largest: int, frame: Frame, value: Any
) -> Result:
    """The result for a handler's return value; raises ToolError if it is too large.

    ``may_encode`` means that structure is encoded here, on the handler's thread, because nothing
    reads it before it is sent; ``is_object``, that the revision has objects alone as structure;
    ``largest`` are the bytes of the largest structure.
    """
    result: Result | None = None
    if may_encode and frame.exchange.encodes:
        json = results.encode_structure(tool, value)
        if json is not None:
            content = json
            if is_object:
                content = frame.revision.encoded_structured_content(json, tool.output_schema)
            result = new_tuple(PreEncodedResult, (json, content))
            if len(json) > largest:
                result_size.checked(frame, tool, {"structuredContent": result})
    if result is None:
        result = results.tool_result(tool, value)
        if is_object and "structuredContent" in result:
            result["structuredContent"] = frame.revision.structured_content(
                result["structuredContent"], tool.output_schema
            )
        result_size.checked(frame, tool, result)
    return result
