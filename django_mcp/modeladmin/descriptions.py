"""Descriptions of an admin: its models, their pages and actions, and the caller's permissions."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import Http404

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin import lists
from django_mcp.modeladmin.calls import Call
from django_mcp.modeladmin.models import AnyModelAdmin
from django_mcp.modeladmin.pages import ObjectPage

STANDARD = ("changelist", "add", "history", "delete", "change")
"""The pages that every ModelAdmin has."""
VIEWS = ("changelist_view", "add_view", "change_view", "delete_view", "history_view")


def models(call: Call) -> dict[str, Any]:
    """Return the models of the index page, by app, with the permissions of the caller."""
    entries = [
        {
            "model": label,
            "name": str(entry["name"]),
            "may": call.models.may(call.find(label), entry["perms"]),
        }
        for label, entry in call.models.visible(call.request)
    ]
    return {"models": entries}


def model(call: Call, label: str, pk: str | None, facets: bool) -> dict[str, Any]:
    """Return the description of a model: its list, its form, its inlines and its actions."""
    model_admin = call.find(label)
    if pk is None and not call.models.is_visible(call.request, model_admin):
        raise PermissionDenied
    options = model_admin.opts
    perms = model_admin.get_model_perms(call.request)
    described: dict[str, Any] = {
        "model": options.label,
        "name": str(options.verbose_name),
        "may": call.models.may(model_admin, perms),
    }
    if model_admin.has_view_or_change_permission(call.request):
        described["list"] = lists.described(call, model_admin, facets)
        described["actions"] = actions(call, model_admin)
    return {**described, **_form(call, model_admin, pk), **_own_pages(call, model_admin)}


def actions(call: Call, model_admin: AnyModelAdmin) -> list[dict[str, Any]]:
    """Return the actions that the caller may run."""
    if call.models.is_read_only(model_admin):
        return []
    options = model_admin.opts
    names = {
        "verbose_name": str(options.verbose_name),
        "verbose_name_plural": str(options.verbose_name_plural),
    }
    described = []
    listed: dict[str, Any] = model_admin.get_actions(call.request)
    for name, action in listed.items():
        # Before Django 6.1 it is a tuple.
        description = action[2] if isinstance(action, tuple) else action.description
        described.append({"name": name, "description": str(description) % names})
    return described


def _form(call: Call, model_admin: AnyModelAdmin, pk: str | None) -> dict[str, Any]:
    """The form of one object, or of a new one."""
    reads_only = call.models.is_read_only(model_admin)
    if pk is None and (reads_only or not model_admin.has_add_permission(call.request)):
        return {"form": "You may add none. Give pk to see the form of an object."}
    try:
        visit = call.visit(model_admin, "add_view" if pk is None else "change_view", pk)
        return {"form": ObjectPage(call.models, visit).described(reads_only)}
    except (PermissionDenied, Http404, ToolError) as error:
        if pk is not None:
            raise
        return {"form": str(error) or "The page of a new object is not for you."}


def _own_pages(call: Call, model_admin: AnyModelAdmin) -> dict[str, Any]:
    """Pages that only a browser can show: other URLs, and views that the site overrides."""
    options = model_admin.opts
    standard = {f"{options.app_label}_{options.model_name}_{name}" for name in STANDARD}
    own = [
        str(pattern.pattern)
        for pattern in model_admin.get_urls()
        if (name := getattr(pattern, "name", None)) and name not in standard
    ]
    kind: Any = type(model_admin)
    overridden = [name for name in VIEWS if getattr(kind, name) is not getattr(ModelAdmin, name)]
    pages = {"pages": own, "overridden_views": overridden}
    return {name: listed for name, listed in pages.items() if listed}
