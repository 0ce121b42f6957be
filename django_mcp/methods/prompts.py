"""prompts/list and prompts/get."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django_mcp.components import results
from django_mcp.components.base import ArgumentsInvalid
from django_mcp.components.prompt import PromptComponent
from django_mcp.components.results import UnfitResult
from django_mcp.methods import listing, running
from django_mcp.protocol.errors import InternalError, InvalidParams, McpError

if TYPE_CHECKING:
    from django_mcp.frame import Frame
    from django_mcp.methods import Answer

logger = logging.getLogger("django_mcp")


async def list_(frame: Frame) -> Answer:
    """One page of the prompts this caller may use."""
    return await listing.page(frame, PromptComponent.kind, "prompts")


async def get(frame: Frame) -> Answer:
    """The messages of a prompt, filled in with its arguments."""
    name = running.string_param(frame, "name")
    arguments = running.object_param(frame, "arguments")
    prompt = await listing.find(frame, PromptComponent.kind, name)
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {name}")
    try:
        clean = prompt.validate_input(arguments)
    except ArgumentsInvalid as error:
        raise InvalidParams(f"The arguments do not fit: {error}") from error
    try:
        value, after = await running.run(prompt, frame, clean)
    except McpError:
        raise
    except Exception as error:
        logger.error("The prompt %s failed", name, exc_info=error)
        raise InternalError("The prompt failed") from error
    return _result(prompt, value), after


def _result(prompt: Any, value: Any) -> dict[str, Any] | McpError:
    if isinstance(value, McpError):
        return value
    try:
        return results.prompt_result(prompt, value)
    except UnfitResult as error:
        logger.error("What the prompt %s returned does not fit: %s", prompt.name, error)
        raise InternalError("The prompt returned something unfit") from error
