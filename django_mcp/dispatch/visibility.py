"""What every …/list has in common: who may see what, in which order, page by page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from django_mcp.components.base import Component
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.dispatch.invocation import params_of
from django_mcp.protocol import cursors
from django_mcp.protocol.errors import ResourceNotFound

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame


async def page(frame: Frame, kind: str, member: str) -> tuple[dict[str, Any], Frame]:
    """One page of the components of ``kind`` which the caller may see, as ``member``."""
    listed = catalogue(frame, kind)
    start = _start(frame, kind, listed)
    limit = _limit(frame)
    shown: list[Component] = []
    for component in listed[start:] if start else listed:
        if not component.is_public and not await visible(frame, component):
            continue
        if len(shown) == limit:
            return _result(frame, kind, member, shown, more=True), frame
        shown.append(component)
    return _result(frame, kind, member, shown, more=False), frame


def _result(
    frame: Frame, kind: str, member: str, shown: Sequence[Component], *, more: bool
) -> dict[str, Any]:
    server, revision = frame.server, frame.revision
    result: dict[str, Any] = {member: [server.descriptor(revision, item) for item in shown]}
    if more:
        result["nextCursor"] = cursors.encode(kind, shown[-1].sort_key, server.sign)
    return result


def _start(frame: Frame, kind: str, listed: Sequence[Component]) -> int:
    params = params_of(frame)
    if "cursor" not in params:
        return 0
    last = cursors.decode(kind, params["cursor"], frame.server.unsign)
    return bisect_right(listed, last, key=lambda component: component.sort_key)


def _limit(frame: Frame) -> int:
    limit = frame.private.get("pagination_limit") or frame.server.page_size
    return frame.server.limits.page_size if limit is None else limit


def catalogue(frame: Frame, kind: str) -> Sequence[Component]:
    """The components of ``kind``: declared ones, and this session's own, which shadow them."""
    declared = frame.server.components(kind)
    if not frame.private.get("components"):
        return declared
    own = {item.key: item for item in frame.get_components() if item.kind == kind}
    kept = [item for item in declared if item.key not in own]
    return sorted([*kept, *own.values()], key=lambda component: component.sort_key)


async def find(frame: Frame, kind: str, key: str) -> Component | None:
    """The component which the caller names, or None when there is none that she may see."""
    component = _own(frame, kind, key) or frame.server.find(kind, key)
    if component is None or component.is_public or await visible(frame, component):
        return component
    return None


def matching(frame: Frame, uri: str) -> list[TemplateComponent]:
    """The templates that match ``uri``, the most specific first."""
    templates = catalogue(frame, TemplateComponent.kind)
    found = [t for t in templates if isinstance(t, TemplateComponent) and t.match(uri) is not None]
    return sorted(found, key=lambda template: (template.specificity, template.name))


async def readable(frame: Frame, uri: str) -> bool:
    """Whether ``uri`` belongs to a resource or a template which the caller may see."""
    if await find(frame, ResourceComponent.kind, uri) is not None:
        return True
    for template in matching(frame, uri):
        if _fits(template, uri) and await visible(frame, template):
            return True
    return False


def _fits(template: TemplateComponent, uri: str) -> bool:
    """Whether the parts of ``uri`` are arguments which the template's handler takes."""
    try:
        template.validate_input({"uri": uri, **(template.match(uri) or {})})
    except ResourceNotFound:
        return False
    return True


def _own(frame: Frame, kind: str, key: str) -> Component | None:
    registered = frame.private.get("components")
    if not registered or f"{kind}:{key}" not in registered:
        return None
    return next(c for c in frame.get_components() if c.kind == kind and c.key == key)


async def visible(frame: Frame, component: Component) -> bool:
    """Whether the caller may see and use ``component``; what is hidden does not exist for her."""
    if component.is_public:
        return True
    if component.scopes and not (frame.auth and component.scopes <= frame.auth.scopes):
        return False
    return await _permitted(frame, component.permission)


async def _permitted(frame: Frame, permission: str | Callable[..., Any] | None) -> bool:
    if permission is None:
        return True
    if isinstance(permission, str):
        return bool(frame.user is not None and await frame.user.ahas_perm(permission))
    allowed = await frame.exchange.run(permission, frame)
    return bool(await allowed if isawaitable(allowed) else allowed)
