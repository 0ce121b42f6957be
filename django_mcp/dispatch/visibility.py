"""Which components a caller may use, and which are listed.

What a caller may not use is *hidden*, as if it did not exist, or *challenged*: it is listed, and
using it is answered with a challenge, where logging in, or more scopes, would help. An unknown
component costs a permission check as well: its time must not tell it from a hidden one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mcp.auth import scopes
from django_mcp.components.base import Component, Permission, WhenDenied
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.protocol.errors import (
    AuthenticationRequired,
    InsufficientScope,
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


def find_public(frame: Frame, kind: str, key: str) -> Component | None:
    """Return the component with this key, if everybody may use it; else ``find`` decides.

    For tools, which most calls use: a coroutine takes 1 % of a call.
    """
    component = _find(frame, kind, key)
    return component if component is not None and component.is_public else None


async def find(frame: Frame, kind: str, key: str) -> Component | None:
    """Return the component with this key, or None where it is unknown or hidden.

    Raises AuthenticationRequired or InsufficientScope for one that is challenged.
    """
    component = _find(frame, kind, key)
    if component is not None and (component.is_public or await may_use(frame, component)):
        return component
    if component is None or component.permission is None:
        await _check_any(frame, kind)
    return None


def _find(frame: Frame, kind: str, key: str) -> Component | None:
    own = frame.private.get("components")
    if own and f"{kind}:{key}" in own:
        return next(c for c in frame.get_components() if c.kind == kind and c.key == key)
    return frame.server.components.find(kind, key)


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


async def usable_templates(frame: Frame, uri: str) -> AsyncIterator[TemplateComponent]:
    """Yield the templates that match ``uri`` and are not hidden, the most specific first.

    Raises AuthenticationRequired or InsufficientScope at one that is challenged.
    """
    found = _matching_templates(frame, uri)
    if not found:
        await _check_any(frame, TemplateComponent.kind)
    for template in found:
        if await may_use(frame, template):
            yield template


def _matching_templates(frame: Frame, uri: str) -> list[TemplateComponent]:
    templates = components(frame, TemplateComponent.kind)
    found = [t for t in templates if isinstance(t, TemplateComponent) and t.match(uri) is not None]
    return sorted(found, key=lambda template: (template.specificity, template.name))


async def is_readable(frame: Frame, uri: str) -> bool:
    """Return whether ``uri`` belongs to a resource or a template which the caller may use."""
    return (await access_to(frame, uri)).is_permitted


async def access_to(frame: Frame, uri: str) -> Access:
    """Return the access to what ``resources/read`` would use first: a resource or a template."""
    resource = _find(frame, ResourceComponent.kind, uri)
    if resource is not None and (access := await find_access(frame, resource)) != HIDDEN:
        return access
    for template in _matching_templates(frame, uri):
        access = await find_access(frame, template)
        if access.challenge is not None:
            return access
        if access.is_permitted:
            with suppress(ResourceNotFound):
                template.validate_input({"uri": uri, **(template.match(uri) or {})})
                return access
    return HIDDEN


class Access(NamedTuple):
    """Whether a caller may use a component, and what it is answered otherwise."""

    is_permitted: bool
    challenge: AuthenticationRequired | None = None
    """None: the component is hidden."""


PERMITTED, HIDDEN = Access(True), Access(False)


async def find_access(frame: Frame, component: Component) -> Access:
    if component.is_public:
        return PERMITTED
    server, principal = frame.server, frame.principal
    has_permission = await _is_allowed(frame, component)
    hierarchy = server.options.scope_hierarchy
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


async def _check_any(frame: Frame, kind: str) -> None:
    """Check the permission of any component of ``kind``, for its time alone."""
    if (component := next(iter(frame.server.components.guarded(kind)), None)) is not None:
        await _is_allowed(frame, component)


async def _is_allowed(frame: Frame, component: Component) -> bool:
    """Return whether the caller has the permission; one that raises is refused."""
    if component.permission is None:
        return True
    try:
        return await _has_permission(frame, component.permission)
    except Exception as error:
        kind, name = component.kind.replace("_", " "), component.name
        frame.server.report(f"The permission of the {kind} {name!r} failed: it is hidden", error)
        return False


def _is_logged_in(user: Any) -> bool:
    return bool(user.is_authenticated and user.is_active)


USER_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "login_required": _is_logged_in,
    "staff_member": lambda user: _is_logged_in(user) and bool(user.is_staff),
    "superuser": lambda user: _is_logged_in(user) and bool(user.is_superuser),
}
"""The short words for permissions; components.base names them."""


async def _has_permission(frame: Frame, permission: Permission) -> bool:
    if isinstance(permission, str):
        if (check := USER_CHECKS.get(permission)) is not None:
            return frame.user is not None and check(frame.user)
        return bool(frame.user is not None and await frame.user.ahas_perm(permission))
    allowed = await frame.exchange.run_hook(permission, frame)
    return bool(await allowed if isawaitable(allowed) else allowed)
