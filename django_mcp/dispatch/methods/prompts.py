"""prompts/list and prompts/get."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import InvalidArguments, LargeArguments
from django_mcp.components.prompt import PromptComponent
from django_mcp.dispatch import invocation, result_size, visibility
from django_mcp.protocol.errors import InternalError, InvalidParams, McpError
from django_mcp.protocol.limits import cut
from django_mcp.server import failures

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.frame.frame import Frame


async def get(frame: Frame) -> Answer:
    name = invocation.string_param(frame.message.params, "name")
    arguments = invocation.object_param(frame.message.params, "arguments")
    prompt = await visibility.find(frame, PromptComponent.kind, name)
    if not isinstance(prompt, PromptComponent):
        raise InvalidParams(f"Unknown prompt: {cut(name)}")
    try:
        try:
            validated = prompt.validate_input(arguments)
        except LargeArguments:
            validated = await invocation.validate_large(prompt.input, arguments)
    except InvalidArguments as error:
        raise InvalidParams(f"Invalid arguments: {error}") from error
    try:
        read = partial(_result, prompt)
        handler = invocation.handler_of(prompt, frame.server.handle_prompt_get, name)
        return await invocation.run(handler, frame, validated, read=read)
    except McpError:
        raise
    except Exception as error:
        failures.report_unexpected(frame, error, "The prompt %s failed", name)
        details = failures.debug_details(frame, error)
        raise InternalError(f"The prompt failed{details}") from error


def _result(prompt: PromptComponent, frame: Frame, value: Any) -> dict[str, Any]:
    result = results.prompt_result(prompt, value)
    return result_size.checked(frame, prompt, result)
