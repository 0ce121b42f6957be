"""Which components a caller may see, in lists and in calls; any other is treated as unknown.

An unknown component costs a permission check as well: its time must not tell it from a hidden one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING

from django_mcp.components.base import Component, Permission
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
    if component is not None and (component.is_public or await is_visible(frame, component)):
        return component
    if component is None or component.permission is None or not _has_scopes(frame, component):
        await _check_any(frame, kind)
    return None


async def visible_templates(frame: Frame, uri: str) -> AsyncIterator[TemplateComponent]:
    """Yield the templates that match ``uri`` and which the caller may see, most specific first."""
    templates = components(frame, TemplateComponent.kind)
    found = [t for t in templates if isinstance(t, TemplateComponent) and t.match(uri) is not None]
    if not found:
        await _check_any(frame, TemplateComponent.kind)
    for template in sorted(found, key=lambda template: (template.specificity, template.name)):
        if await is_visible(frame, template):
            yield template


async def is_readable(frame: Frame, uri: str) -> bool:
    """Return whether ``uri`` belongs to a resource or a template which the caller may see."""
    if await find(frame, ResourceComponent.kind, uri) is not None:
        return True
    async for template in visible_templates(frame, uri):
        with suppress(ResourceNotFound):
            template.validate_input({"uri": uri, **(template.match(uri) or {})})
            return True
    return False


async def is_visible(frame: Frame, component: Component) -> bool:
    """Return whether the caller has the scopes and the permission; one that raises is refused."""
    if not _has_scopes(frame, component):
        return False
    if component.permission is None:
        return True
    try:
        return await _has_permission(frame, component.permission)
    except Exception as error:
        kind, name = component.kind.replace("_", " "), component.name
        frame.server.report(f"The permission of the {kind} {name!r} failed: it is hidden", error)
        return False


def _has_scopes(frame: Frame, component: Component) -> bool:
    return not component.scopes or bool(frame.auth and component.scopes <= frame.auth.scopes)


async def _check_any(frame: Frame, kind: str) -> None:
    """Check the permission of any component of ``kind``, for its time alone."""
    guarded = (c for c in frame.server.components.guarded(kind) if _has_scopes(frame, c))
    if (component := next(guarded, None)) is not None:
        await is_visible(frame, component)


async def _has_permission(frame: Frame, permission: Permission) -> bool:
    if isinstance(permission, str):
        return bool(frame.user is not None and await frame.user.ahas_perm(permission))
    allowed = await frame.exchange.run_hook(permission, frame)
    return bool(await allowed if isawaitable(allowed) else allowed)
