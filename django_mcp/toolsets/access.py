"""Who may see which rows: permissions of models, and the limits of related rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_permission_codename
from django.db.models import Model, QuerySet

from django_mcp.core.auth import permissions
from django_mcp.core.server.server import server_of
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.queries.paths import Path
from django_mcp.toolsets.queries.references import (
    VisibleRows,
    is_everything,
    keys,
    prefixes,
    related_rows,
    visible,
)

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server

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


class _Toolsets(list[BaseToolset]):
    """The toolsets of a server."""


def add(server: Server, toolset: BaseToolset) -> None:
    server.state(_Toolsets).append(toolset)


def of_server(server: Server) -> Sequence[BaseToolset]:
    """Return the toolsets of a server."""
    return server.state(_Toolsets)


def of_model(server: Server, model: type[Model]) -> list[BaseToolset]:
    """Return the toolsets of ``model`` on a server."""
    return [toolset for toolset in of_server(server) if _is_of(toolset, model)]


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
        return permissions.has(frame.user, permission)
    allowed: Any = permission(frame)
    return bool(frame.exchange.wait_for(allowed) if iscoroutine(allowed) else allowed)


def may_use(frame: Frame, toolset: BaseToolset, operation: str) -> bool:
    """Return whether the caller has the permission and the scopes of an operation."""
    options = toolset.options.get(operation, {})
    needed = options.get("scopes") or ()
    names = frozenset(needed.split() if isinstance(needed, str) else needed)
    if names:
        hierarchy = frame.server.options.scope_hierarchy
        if not permissions.grants_scopes(frame.principal.scopes, names, hierarchy):
            return False
    return may(frame, permission_of(toolset, operation))


def toolsets_on_server(frame: Frame, model: type[Model]) -> list[BaseToolset]:
    """Return the toolsets of ``model`` on the server of a call; a Frame for a test has none."""
    server = frame.private.get("server")
    return [] if server is None else of_model(server_of(frame), model)


def related_queryset(toolset: BaseToolset, frame: Frame, model: type[Model]) -> QuerySet[Any]:
    """Return the rows of a related model that the caller may see; see ``ModelToolset``."""
    rows: QuerySet[Any] = model._base_manager.all()
    others = toolsets_on_server(frame, model)
    if not others:
        return rows if may(frame, model_permission(model, "view")) else rows.none()
    for other in others:
        if not may_use(frame, other, "get"):
            return rows.none()
        rows = limit_rows(rows, other.get_queryset(frame))
    return rows


def limit_rows(rows: QuerySet[Any], limit: QuerySet[Any]) -> QuerySet[Any]:
    """Return the rows that are also in ``limit``."""
    if is_everything(limit.query):
        return rows
    return rows.filter(pk__in=keys(limit))


def may_write(
    toolset: BaseToolset,
    frame: Frame,
    operation: str,
    model: type[Model],
    rows: Sequence[Model],
    using: str,
) -> bool:
    """Return whether the caller may "update" or "delete" rows that a deletion takes along.

    The rows are of any model, also of the toolset's own. All toolsets of the model have to permit
    the operation, to show the rows, and to agree to each of them.
    """
    toolsets = toolsets_on_server(frame, model)
    if _is_of(toolset, model) and toolset not in toolsets:
        toolsets.append(toolset)
    offering = [other for other in toolsets if operation in other.operations]
    if not all(may_use(frame, other, operation) for other in offering):
        return False
    if not offering and not may(frame, model_permission(model, ACTIONS[operation])):
        return False
    return _shows(toolset, frame, model, rows, using) and all(
        other.has_object_permission(frame, row, asked)
        for other in toolsets
        for row in rows
        for asked in ("get", operation)
    )


def _shows(
    toolset: BaseToolset, frame: Frame, model: type[Model], rows: Sequence[Model], using: str
) -> bool:
    """Whether the caller sees all of these rows."""
    primary_keys = {row.pk for row in rows}
    where = f"{type(toolset).__qualname__}.get_related_queryset"
    seen = visible(toolset.get_related_queryset(frame, model), model, where)
    if _is_of(toolset, model):
        seen = limit_rows(seen, toolset.get_queryset(frame))
    return seen.using(using).filter(pk__in=primary_keys).count() == len(primary_keys)


def _is_of(toolset: BaseToolset, model: type[Model]) -> bool:
    return toolset.model._meta.concrete_model is model._meta.concrete_model


def visible_rows_of(
    toolset: BaseToolset, frame: Frame, paths: Iterable[Path] = (), *, using: str | None = None
) -> VisibleRows:
    """Return the rows of the model that the caller may see, and the related ones over ``paths``.

    They are read from the database ``using``, by default from the one of ``get_queryset``.
    """
    where = f"{type(toolset).__qualname__}.get_queryset"
    rows = visible(toolset.get_queryset(frame), toolset.model, where, using=using)
    visible_rows = VisibleRows(rows)
    using = visible_rows.queryset.db
    for relations, model in prefixes(paths).items():
        queryset = toolset.get_related_queryset(frame, model)
        where = f"{type(toolset).__qualname__}.get_related_queryset"
        visible(queryset, model, where)
        if not is_everything(queryset.query):
            visible_rows.limits[relations] = related_rows(queryset, using)
    return visible_rows
