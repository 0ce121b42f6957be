"""Which components a caller may see, in lists and in calls; any other is treated as unknown."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING

from django_mcp.components.base import Component
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.protocol.errors import ResourceNotFound

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame


def components(frame: Frame, kind: str) -> Sequence[Component]:
    """Return the server's components of ``kind``, overridden by those of the session."""
    declared = frame.server.components.of_kind(kind)
    if not frame.private.get("components"):
        return declared
    own = {item.key: item for item in frame.get_components() if item.kind == kind}
    kept = [item for item in declared if item.key not in own]
    return sorted([*kept, *own.values()], key=lambda component: component.sort_key)


async def find(frame: Frame, kind: str, key: str) -> Component | None:
    """Return the component with this key, or None where the caller may see none."""
    component = frame.server.components.find(kind, key)
    if f"{kind}:{key}" in (frame.private.get("components") or ()):
        component = next(c for c in frame.get_components() if c.kind == kind and c.key == key)
    if component is None or component.is_public or await is_visible(frame, component):
        return component
    return None


def matching_templates(frame: Frame, uri: str) -> list[TemplateComponent]:
    """Return the templates that match ``uri``, the most specific first."""
    templates = components(frame, TemplateComponent.kind)
    found = [t for t in templates if isinstance(t, TemplateComponent) and t.match(uri) is not None]
    return sorted(found, key=lambda template: (template.specificity, template.name))


async def is_readable(frame: Frame, uri: str) -> bool:
    """Return whether ``uri`` belongs to a resource or a template which the caller may see."""
    if await find(frame, ResourceComponent.kind, uri) is not None:
        return True
    for template in matching_templates(frame, uri):
        try:
            template.validate_input({"uri": uri, **(template.match(uri) or {})})
        except ResourceNotFound:
            continue
        if await is_visible(frame, template):
            return True
    return False


async def is_visible(frame: Frame, component: Component) -> bool:
    if component.is_public:
        return True
    if component.scopes and not (frame.auth and component.scopes <= frame.auth.scopes):
        return False
    permission = component.permission
    if permission is None:
        return True
    if isinstance(permission, str):
        return bool(frame.user is not None and await frame.user.ahas_perm(permission))
    allowed = await frame.exchange.run(permission, frame)
    return bool(await allowed if isawaitable(allowed) else allowed)
