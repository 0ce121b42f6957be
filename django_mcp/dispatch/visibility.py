"""Which components a caller may use, and which are listed.

What a caller may not use is *hidden*, as if it did not exist, or *challenged*: it is listed, and
using it is answered with a challenge, where logging in, or more scopes, would help.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple

from django_mcp.auth import scopes
from django_mcp.components.base import Component, WhenDenied
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.protocol.errors import (
    AuthenticationRequired,
    InsufficientScope,
    McpError,
    ResourceNotFound,
)

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.server.server import Server


def components(frame: Frame, kind: str) -> Sequence[Component]:
    """Return the server's components of ``kind``, overridden by those of the session."""
    declared = frame.server.components.of_kind(kind)
    if not frame.private.get("components"):
        return declared
    own = {item.key: item for item in frame.get_components() if item.kind == kind}
    kept = [item for item in declared if item.key not in own]
    return sorted([*kept, *own.values()], key=lambda component: component.sort_key)


async def find(frame: Frame, kind: str, key: str) -> Component | None:
    """Return the component with this key, or None where the caller may see none.

    Raises AuthenticationRequired or InsufficientScope for one that is challenged.
    """
    component = frame.server.components.find(kind, key)
    if f"{kind}:{key}" in (frame.private.get("components") or ()):
        component = next(c for c in frame.get_components() if c.kind == kind and c.key == key)
    if component is None or component.is_public or await may_use(frame, component):
        return component
    return None


async def may_use(frame: Frame, component: Component) -> bool:
    """Return whether the caller may use ``component``; False if it is hidden.

    Raises AuthenticationRequired or InsufficientScope if it is challenged.
    """
    access = await find_access(frame, component)
    if access.challenge is not None:
        raise access.challenge
    return access.is_permitted


async def is_listed(frame: Frame, component: Component) -> bool:
    """Return whether ``component`` is in the caller's lists."""
    access = await find_access(frame, component)
    return access.is_permitted or access.challenge is not None


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
    """Return whether the caller may use ``component``, without a challenge."""
    return component.is_public or (await find_access(frame, component)).is_permitted


class Access(NamedTuple):
    """Whether a caller may use a component, and what it is answered otherwise."""

    is_permitted: bool
    challenge: McpError | None = None
    """None: the component is hidden."""


PERMITTED, HIDDEN = Access(True), Access(False)


async def find_access(frame: Frame, component: Component) -> Access:
    server, principal = frame.server, frame.principal
    hierarchy = server.options.scope_hierarchy
    has_permission = await _has_permission(frame, component)
    has_scopes = scopes.grants(principal.scopes, component.scopes, hierarchy)
    if has_permission and has_scopes:
        return PERMITTED
    if policy_of(component, server) == "hidden":
        return HIDDEN
    needed = component.scopes | server.scopes
    if principal.is_anonymous:
        return Access(False, AuthenticationRequired(scopes=needed))
    # More scopes do not help whoever lacks the permission.
    return Access(False, InsufficientScope(scopes=needed)) if has_permission else HIDDEN


def policy_of(component: Component, server: Server) -> WhenDenied:
    """Return its own policy, else the server's, else "challenged" for a component with scopes."""
    default: WhenDenied = "challenged" if component.scopes else "hidden"
    return component.when_denied or server.when_denied or default


async def _has_permission(frame: Frame, component: Component) -> bool:
    permission = component.permission
    if permission is None:
        return True
    if isinstance(permission, str):
        return bool(frame.user is not None and await frame.user.ahas_perm(permission))
    allowed = await frame.exchange.run(permission, frame)
    return bool(await allowed if isawaitable(allowed) else allowed)
