"""Who may see which rows: permissions of models, and the limits of related rows."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.contrib.auth import get_permission_codename
from django.db.models import Model, QuerySet

from django_mcp.auth import scopes
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.queries.paths import Path
from django_mcp.toolsets.queries.scope import Scope, is_everything, prefixes, related_rows, visible

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.server.server import Server

ACTIONS = {
    "list": "view",
    "get": "view",
    "count": "view",
    "aggregate": "view",
    "create": "add",
    "update": "change",
    "delete": "delete",
}
"""The permission of Django for each operation."""

_toolsets: WeakKeyDictionary[Server, list[BaseToolset]] = WeakKeyDictionary()


def add(server: Server, toolset: BaseToolset) -> None:
    _toolsets.setdefault(server, []).append(toolset)


def of_model(server: Server, model: type[Model]) -> list[BaseToolset]:
    """Return the toolsets of ``model`` on a server."""
    found = _toolsets.get(server, ())
    wanted = model._meta.concrete_model
    return [each for each in found if each.model._meta.concrete_model is wanted]


def permission_of(toolset: BaseToolset, operation: str) -> Any:
    """Return the permission for an operation: a name, a function of the Frame, or None."""
    if toolset.permissions is None:
        return None
    if operation in toolset.permissions:
        return toolset.permissions[operation]
    return model_permission(toolset.model, ACTIONS[operation])


def model_permission(model: type[Model], action: str) -> str:
    return f"{model._meta.app_label}.{get_permission_codename(action, model._meta)}"


def may(frame: Frame, permission: Any) -> bool:
    """Return whether the caller has a permission, in a synchronous handler."""
    if permission is None:
        return True
    if isinstance(permission, str):
        return frame.user is not None and bool(frame.user.has_perm(permission))
    allowed: Any = permission(frame)
    return bool(frame.exchange.wait(allowed) if iscoroutine(allowed) else allowed)


def may_view(frame: Frame, toolset: BaseToolset) -> bool:
    """Return whether the caller may get rows of a toolset."""
    options = toolset.options.get("get", {})
    needed = options.get("scopes") or ()
    names = frozenset(needed.split() if isinstance(needed, str) else needed)
    if names:
        hierarchy = frame.server.options.scope_hierarchy
        if not scopes.grants(frame.principal.scopes, names, hierarchy):
            return False
    return may(frame, permission_of(toolset, "get"))


def related_queryset(toolset: BaseToolset, frame: Frame, model: type[Model]) -> QuerySet[Any]:
    """Return the rows of a related model that the caller may see; see ``ModelToolset``."""
    rows: QuerySet[Any] = model._base_manager.all()
    server = frame.private.get("server")
    others = [] if server is None else of_model(server, model)
    if not others:
        is_open = toolset.permissions is None
        return rows if is_open or may(frame, model_permission(model, "view")) else rows.none()
    for other in others:
        if not may_view(frame, other):
            return rows.none()
        limited = other.get_queryset(frame)
        if not is_everything(limited.query):
            rows = rows.filter(pk__in=limited.order_by().values("pk"))
    return rows


def scope_of(toolset: BaseToolset, frame: Frame, paths: Iterable[Path] = ()) -> Scope:
    """Return what the caller may see: rows of the model, and those related over ``paths``."""
    where = f"{type(toolset).__qualname__}.get_queryset"
    scope = Scope(visible(toolset.get_queryset(frame), toolset.model, where))
    using = scope.queryset.db
    for relations, model in prefixes(paths).items():
        queryset = toolset.get_related_queryset(frame, model)
        where = f"{type(toolset).__qualname__}.get_related_queryset"
        visible(queryset, model, where)
        if not is_everything(queryset.query):
            scope.limits[relations] = related_rows(queryset, using)
    return scope
