"""Changes in the admin: the history of an object, and the caller's own last actions."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.admin.utils import quote
from django.contrib.contenttypes.models import ContentType

from django_mcp.modeladmin.calls import Call

ACTIONS = {ADDITION: "added", CHANGE: "changed", DELETION: "deleted"}
MAX_ENTRIES = 100
"""Entries of a page of the history, as the admin has them."""


def of_object(call: Call, label: str, pk: str, page: int) -> dict[str, Any]:
    """Return a page of the history of an object, the oldest entry first."""
    model_admin = call.find(label)
    visit = call.visit(model_admin, "history_view", pk, query={"p": str(page)})
    entries = visit.context.get("action_list")
    if entries is None and getattr(visit.response, "status_code", 0) != 200:
        visit.required("action_list")
    if entries is None or not all(isinstance(entry, LogEntry) for entry in entries):
        # The view, which asks for permissions, shows versions of its own.
        kind = ContentType.objects.get_for_model(model_admin.model, for_concrete_model=False)
        logged = LogEntry.objects.filter(object_id=pk, content_type=kind).select_related("user")
        entries = logged.order_by("action_time")[:MAX_ENTRIES]
    return {"entries": [_entry(entry) for entry in entries]}


def recent(call: Call, limit: int) -> dict[str, Any]:
    """Return the last actions of the caller, the newest first, as the index page lists them."""
    entries = LogEntry.objects.filter(user_id=call.user.pk)
    shown = []
    for entry in entries.select_related("content_type", "user").order_by("-action_time")[:limit]:
        kind = None if entry.content_type is None else entry.content_type.model_class()
        model_admin = None if kind is None else call.models.of_model(kind)
        if model_admin is None:
            continue
        path = None
        if entry.action_flag != DELETION and entry.object_id:
            path = call.url_of(model_admin, "change", quote(entry.object_id))
        url = None if path is None else call.request.build_absolute_uri(path)
        shown.append(
            {
                "model": model_admin.opts.label,
                "pk": entry.object_id,
                "label": entry.object_repr,
                **_entry(entry),
                "admin_url": url,
            }
        )
    return {"entries": shown}


def _entry(entry: LogEntry) -> dict[str, Any]:
    described = {
        "time": entry.action_time,
        "user": entry.user.get_username(),
        "action": ACTIONS.get(entry.action_flag, str(entry.action_flag)),
        "message": entry.get_change_message() if entry.change_message else "",
        "program": _program(entry.change_message),
    }
    return {name: value for name, value in described.items() if value}


def _program(message: str) -> str:
    """Return the program that made a change, if it was made by a tool."""
    try:
        parts = json.loads(message) if message.startswith("[") else []
    except ValueError:
        return ""
    programs = [
        part["mcp"]["program"] for part in parts if isinstance(part, dict) and "mcp" in part
    ]
    return str(programs[0]) if programs else ""
