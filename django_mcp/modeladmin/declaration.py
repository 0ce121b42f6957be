"""admin_tools: the admin of the site as tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from django.contrib import admin
from django.contrib.admin import AdminSite

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import Approval, ToolComponent, ToolOptions, tool_component
from django_mcp.core.protocol import texts
from django_mcp.core.server.server import Server
from django_mcp.modeladmin.models import Models, checked_names
from django_mcp.modeladmin.tools import (
    IN_TWO_STEPS,
    READS,
    TOOLS,
    AdminTools,
    HasAdminPermission,
    handler,
)

_declared: WeakKeyDictionary[Server, list[Models]] = WeakKeyDictionary()


def admin_tools(
    site: AdminSite | None = None,
    *,
    server: Server | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    prefix: str = "admin_",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register the tools of an admin, by default of ``django.contrib.admin.site``.

    They do what a browser does: the views, forms and hooks of each ModelAdmin run for the caller,
    with its permissions. Callers whom the admin does not let in do not see the tools. ``include``
    and ``exclude`` are app labels and labels of models, such as ``["shop", "auth.User"]``; with
    ``read_only=True``, nothing can be changed. ``prefix`` comes before the names of the tools.

    ``options`` has the options of each tool by its name without the prefix; further keywords are
    options of all tools, and ``approval`` is one of those that delete or run an action: the call
    that confirms waits for it. Raises ConfigurationError for unknown names.
    """
    models = Models(
        admin.site if site is None else site,
        include=checked_names("include", include),
        exclude=checked_names("exclude", exclude),
    )
    shared: dict[str, Any] = {**common}
    reads_only = shared.pop("read_only", None) is True
    names = [name for name, hints in TOOLS.items() if hints is READS or not reads_only]
    own = options or {}
    for name in own:
        if name not in names:
            remedy = texts.did_you_mean(name, names, f"write one of {', '.join(names)}")
            raise ConfigurationError(f"options has {name!r}, which is none of the tools: {remedy}")
    server = registry.default if server is None else server
    for component in _components(models, names, prefix, own, shared):
        server.components.add(component)
    _declared.setdefault(server, []).append(models)


def of_server(server: Server) -> Sequence[Models]:
    """Return the admins whose tools a server has."""
    return _declared.get(server, ())


def _components(
    models: Models,
    names: Sequence[str],
    prefix: str,
    own: Mapping[str, Mapping[str, Any]],
    common: Mapping[str, Any],
) -> Iterator[ToolComponent]:
    for name in names:
        hints = TOOLS[name]
        given = {**common, **own.get(name, {})}
        approval = given.pop("approval", None)
        tools = AdminTools(models, asks=approval is None)
        if approval is not None and hints is IN_TWO_STEPS:
            given["approval"] = _of_second_step(approval)
        elif approval is not None and "approval" in own.get(name, {}):
            given["approval"] = approval
        declared: dict[str, Any] = {
            "name": f"{prefix}{name}",
            "permission": HasAdminPermission(models),
            "group": "admin",
            **hints,
            **given,
        }
        component = tool_component(handler(tools, name), **declared)
        yield replace(component, module=type(models.site).__module__)


def _of_second_step(declared: Any) -> Approval:
    """Return the approval of the call that confirms: a preview needs none."""
    approval = declared if isinstance(declared, Approval) else Approval(declared)

    async def approvers(arguments: Any, frame: Any) -> Any:
        if arguments.get("confirm") is None:
            return None
        permission = approval.permission
        if not callable(permission):
            return permission
        chosen = permission(arguments, frame)
        return await chosen if isawaitable(chosen) else chosen

    return Approval(approvers, four_eyes=approval.four_eyes)
