"""Adding and changing objects: what a browser does that opens a page, fills it in and sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections, router, transaction

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin import values
from django_mcp.modeladmin.calls import NOT_FOUND, Call, Visit
from django_mcp.modeladmin.models import AnyModelAdmin
from django_mcp.modeladmin.pages import ObjectPage, Sent
from django_mcp.runtime.django_types.saving import KEY_CHANGED, key_names

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def get(call: Call, label: str, pk: str) -> dict[str, Any]:
    """Return what the page of an object shows."""
    model_admin = call.find(label)
    visit = call.visit(model_admin, "change_view", pk)
    page = ObjectPage(visit)
    obj = page.form.instance
    return {**values.identity(obj), "admin_url": call.link(obj), **page.shown()}


def add(call: Call, label: str, given: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Add an object."""
    model_admin = call.find_to_write(label)
    using = router.db_for_write(model_admin.model)
    with transaction.atomic(using=using):
        return _save(call, model_admin, "add_view", None, given, rows)


def change(call: Call, label: str, pk: str, given: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Change an object: what is not given keeps its value."""
    model_admin = call.find_to_write(label)
    if not given and not rows:
        raise ToolError("Nothing to change: give at least one value.")
    for name in key_names(model_admin.model):
        if name in given:
            # A browser would save the object as another one, over whatever has this key.
            raise ToolError(f"{name}: {KEY_CHANGED}")
    using = router.db_for_write(model_admin.model)
    with transaction.atomic(using=using):
        lock(model_admin, [pk], using)
        return _save(call, model_admin, "change_view", pk, given, rows)


def lock(model_admin: AnyModelAdmin, pks: Sequence[Any], using: str) -> None:
    """Lock rows until the end of the transaction, where the database can."""
    if not connections[using].features.has_select_for_update:
        return
    rows = model_admin.model._base_manager.using(using).filter(pk__in=pks)
    try:
        [*rows.select_for_update().order_by("pk").values_list("pk")]
    except (ValueError, TypeError) as error:
        raise ToolError(NOT_FOUND) from error


def _save(
    call: Call,
    model_admin: AnyModelAdmin,
    view: str,
    pk: str | None,
    given: Mapping[str, Any],
    rows: Rows,
) -> dict[str, Any]:
    page = ObjectPage(call.visit(model_admin, view, pk))
    sent = page.sent(call, given, rows)
    visit = call.visit(model_admin, view, pk, data=sent.data, files=sent.files)
    if visit.saved is None:
        raise _refusal(visit, sent)
    result = {**values.identity(visit.saved), "admin_url": call.link(visit.saved)}
    return {**result, "messages": visit.messages}


def _refusal(visit: Visit, sent: Sent) -> ToolError:
    if "adminform" in visit.context:
        return ObjectPage(visit).problems(sent)
    text = " ".join(visit.messages) or "The admin did not save the object."
    return ToolError(text)
