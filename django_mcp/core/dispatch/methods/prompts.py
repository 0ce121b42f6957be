"""prompts/list and prompts/get."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from django_mcp.core.components import results
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.dispatch import invocation, plan, result_size
from django_mcp.core.dispatch.invocation import Invocation
from django_mcp.core.dispatch.plan import Plan
from django_mcp.core.protocol.errors import InternalError, InvalidParams, McpError
from django_mcp.core.protocol.limits import cut
from django_mcp.core.server import failures
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

PROMPT = PromptComponent.kind


async def get(frame: Frame) -> Answer:
    """Return the messages of any prompt, by the steps of its plan."""
    name = invocation.string_param(frame.message.params, "name")
    arguments = invocation.object_param(frame.message.params, "arguments")
    prompt_plan = plan.kept(frame, PROMPT, name) or await plan.find(frame, PROMPT, name, make_plan)
    if prompt_plan is None:
        raise unknown(name)
    return await prompt_plan.call(frame, arguments)


def make_plan(server: Server, prompt: PromptComponent, revision: Revision) -> Plan:
    """Decide which steps the requests of a prompt take; see ``dispatch.plan``."""
    handler = invocation.handler_of(prompt, server.handle_prompt_get, prompt.name)
    read = plan.AFTER_RESULT.after(partial(_result, prompt), prompt, revision)
    return Plan(
        component=prompt,
        unknown=unknown,
        before_arguments=plan.BEFORE_ARGUMENTS.of(prompt, revision),
        validate=prompt.validate_input,
        invalid=_invalid,
        before_handler=INSTALLED.steps("before_handler", prompt, revision),
        invocation=Invocation.of(server, handler, read=read, failed=partial(_failed, prompt)),
    )


def unknown(name: str) -> InvalidParams:
    """The error for a name which the caller knows no prompt by."""
    return InvalidParams(f"Unknown prompt: {cut(name)}")


async def _invalid(
    frame: Frame, prompt_plan: Plan, arguments: dict[str, Any], error: InvalidArguments
) -> NoReturn:
    raise InvalidParams(f"Invalid arguments: {error}") from error


def _failed(prompt: PromptComponent, frame: Frame, error: Exception) -> NoReturn:
    if isinstance(error, McpError):
        raise error
    failures.report_unexpected(frame, error, "The prompt %s failed", prompt.name)
    details = failures.debug_details(frame, error)
    raise InternalError(f"The prompt failed{details}") from error


def _result(prompt: PromptComponent, frame: Frame, value: Any) -> dict[str, Any]:
    result = results.prompt_result(prompt, value)
    return result_size.checked(frame, prompt, result)
