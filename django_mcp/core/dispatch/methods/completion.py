"""completion/complete: suggestions for the value of an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.core.components import results
from django_mcp.core.components.base import Component
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.components.signature import is_async
from django_mcp.core.dispatch import invocation, visibility
from django_mcp.core.dispatch.invocation import Invocation
from django_mcp.core.protocol.errors import InvalidParams
from django_mcp.core.protocol.limits import MAX_URI
from django_mcp.core.protocol.revisions import Feature

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame


async def complete(frame: Frame) -> Answer:
    ref = invocation.object_param(frame.message.params, "ref")
    component = await _find(frame, ref)
    argument = invocation.object_param(frame.message.params, "argument")
    name = argument.get("name")
    value = argument.get("value")
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidParams("params.argument needs a name and a value, both strings")
    context = _context(frame)
    completer = component.complete.get(name)
    if completer is not None:
        return await Invocation.of(frame.server, completer, read=_read).run(frame, value, context)
    if not frame.server.has_hook("handle_completion"):
        return results.completion_result([]), frame
    hook = frame.server.handle_completion
    handler = invocation.HookHandler(hook, is_async(hook))
    completion = Invocation.of(frame.server, handler, read=_read)
    return await completion.run(frame, ref, {"name": name, "value": value})


def _read(frame: Frame, value: Any) -> dict[str, Any]:
    return results.completion_result(value)


async def _find(frame: Frame, ref: dict[str, Any]) -> Component:
    component: Component | None = None
    if ref.get("type") == "ref/prompt" and isinstance(ref.get("name"), str):
        component = await visibility.find(frame, PromptComponent.kind, ref["name"])
    elif ref.get("type") == "ref/resource" and isinstance(ref.get("uri"), str):
        component = await _resource(frame, ref["uri"])
    if component is None:
        raise InvalidParams("params.ref names no prompt and no resource of this server")
    return component


async def _resource(frame: Frame, uri: str) -> Component | None:
    if len(uri) > MAX_URI:
        return None
    template = await visibility.find(frame, TemplateComponent.kind, uri)
    if template is not None:
        return template
    resource = await visibility.find(frame, ResourceComponent.kind, uri)
    if resource is not None:
        return resource
    matches = await visibility.matching_templates(frame, uri)
    return next((match.template for match in matches if match.access.is_usable()), None)


def _context(frame: Frame) -> dict[str, str]:
    """Return the arguments which already have a value, where the revision sends them."""
    if not frame.revision.has(Feature.COMPLETION_CONTEXT):
        return {}
    arguments = invocation.object_param(frame.message.params, "context").get("arguments", {})
    if not isinstance(arguments, dict):
        raise InvalidParams("params.context.arguments must be an object")
    return {name: value for name, value in arguments.items() if isinstance(value, str)}
