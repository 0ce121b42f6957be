"""prompts/list and prompts/get."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from django_mcp.components import results
from django_mcp.components.base import InvalidArguments
from django_mcp.components.prompt import PromptComponent
from django_mcp.dispatch import invocation, pagination, visibility
from django_mcp.protocol.errors import InternalError, InvalidParams, McpError

if TYPE_CHECKING:
    from django_mcp.dispatch.invocation import Answer
    from django_mcp.frame.frame import Frame

logger = logging.getLogger("django_mcp")


async def list_(frame: Frame) -> Answer:
    """Return one page of the prompts which the caller may use."""
    return await pagination.page(frame, PromptComponent.kind, "prompts")


async def get(frame: Frame) -> Answer:
    """Return the messages of a prompt for its arguments."""
    name = invocation.string_param(frame, "name")
    arguments = invocation.object_param(frame, "arguments")
    prompt = await visibility.find(frame, PromptComponent.kind, name)
    if not isinstance(prompt, PromptComponent):
        raise InvalidParams(f"Unknown prompt: {name}")
    try:
        validated = prompt.validate_input(arguments)
    except InvalidArguments as error:
        raise InvalidParams(f"The arguments do not fit: {error}") from error
    try:
        read = partial(results.prompt_result, prompt)
        return await invocation.run(_handler(frame, prompt), frame, validated, read=read)
    except McpError:
        raise
    except Exception as error:
        logger.exception("The prompt %s failed", name)
        raise InternalError("The prompt failed") from error


def _handler(frame: Frame, prompt: PromptComponent) -> invocation.Handler:
    if prompt.invoke is not None:
        return prompt
    hook = frame.server.handle_prompt_get
    return invocation.HookHandler(hook, partial(hook, prompt.name), prompt.requests_input)
