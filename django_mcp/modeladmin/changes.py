"""Adding, changing and deleting objects by their pages, as a browser does.

A page is opened, filled in and sent. A deletion has two steps: a preview of all objects that would
go, and the deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections, transaction
from django.utils.datastructures import MultiValueDict

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin import previews, values
from django_mcp.modeladmin.calls import NOT_FOUND, Call
from django_mcp.modeladmin.models import AnyModelAdmin
from django_mcp.modeladmin.pages import ObjectPage
from django_mcp.modeladmin.previews import Preview
from django_mcp.modeladmin.requests import plain_text
from django_mcp.runtime.django_types.saving import KEY_CHANGED, key_names

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

MAX_LISTED = 50
"""Objects that a preview lists; all are counted."""


def get(call: Call, label: str, pk: str) -> dict[str, Any]:
    """Return the values that the page of an object shows."""
    model_admin = call.find(label)
    visit = call.visit(model_admin, "change_view", pk)
    page = ObjectPage(call.models, visit)
    obj = page.form.instance
    return {**values.identity(obj), "admin_url": call.link(obj), **page.shown()}


def add(call: Call, label: str, given: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Add an object."""
    model_admin = call.find_to_write(label)
    with transaction.atomic(using=database_of(call, model_admin)):
        return _save(call, model_admin, "add_view", None, given, rows)


def change(call: Call, label: str, pk: str, given: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Change an object: fields that are left out keep their values."""
    model_admin = call.find_to_write(label)
    if not given and not rows:
        raise ToolError("Nothing to change: give at least one value.")
    for name in key_names(model_admin.model):
        if name in given:
            # A browser would save the object as another one, over whatever has this key.
            raise ToolError(f"{name}: {KEY_CHANGED}")
    using = database_of(call, model_admin)
    with transaction.atomic(using=using):
        lock(model_admin, [pk], using)
        return _save(call, model_admin, "change_view", pk, given, rows)


def database_of(call: Call, model_admin: AnyModelAdmin) -> str:
    """Return the database that an admin writes to: that of its query set, else of the router."""
    return model_admin.get_queryset(call.request).select_for_update().db


def lock(model_admin: AnyModelAdmin, pks: Sequence[Any], using: str) -> None:
    """Lock rows until the end of the transaction, where the database can."""
    if not connections[using].features.has_select_for_update:
        return
    try:
        rows = model_admin.model._base_manager.using(using).filter(pk__in=pks)
        [*rows.select_for_update().order_by("pk").values_list("pk")]
    except (ValueError, TypeError, ValidationError) as error:
        raise ToolError(NOT_FOUND) from error


def _save(
    call: Call,
    model_admin: AnyModelAdmin,
    view: str,
    pk: str | None,
    given: Mapping[str, Any],
    rows: Rows,
) -> dict[str, Any]:
    page = ObjectPage(call.models, call.visit(model_admin, view, pk))
    sent = page.sent(call, given, rows)
    visit = call.visit(model_admin, view, pk, data=sent.data, files=sent.files)
    if visit.saved is None:
        if "adminform" in visit.context:
            raise ObjectPage(call.models, visit).problems(sent)
        raise ToolError(" ".join(visit.messages) or "The admin did not save the object.")
    result = {**values.identity(visit.saved), "admin_url": call.link(visit.saved)}
    return {**result, "messages": visit.messages}


def delete(call: Call, label: str, pk: str, confirm: str | None, may_ask: bool) -> dict[str, Any]:
    """Return a preview, or delete an object after its preview is confirmed."""
    model_admin = call.find_to_write(label)
    preview = _deletion_preview(call, model_admin, pk)
    answer = previews.confirmed(call, preview, confirm, may_ask=may_ask)
    if answer is not None:
        return answer
    call = call.refreshed()
    using = database_of(call, model_admin)
    with transaction.atomic(using=using):
        lock(model_admin, [pk], using)
        previews.check_unchanged(preview, _deletion_preview(call, model_admin, pk))
        visit = call.visit(model_admin, "delete_view", pk, data=MultiValueDict({"post": ["yes"]}))
        if getattr(visit.response, "status_code", 0) != 302:
            raise ToolError("The admin did not delete the object.")
        return {"done": True, "deleted": preview.shown["counts"], "messages": visit.messages}


def _deletion_preview(call: Call, model_admin: AnyModelAdmin, pk: str) -> Preview:
    """Return the objects that would be deleted; raises ToolError if the admin refuses it."""
    visit = call.visit(model_admin, "delete_view", pk)
    context = visit.context
    obj = visit.required("object")
    raise_refused(context["perms_lacking"], context["protected"])
    deleted = [*context["deleted_objects"]]
    counts = dict(context["model_count"])
    shown = {"object": values.identity(obj), **consequences(deleted, counts)}
    return Preview(
        subject=("delete", model_admin.opts.label, str(obj.pk)),
        shown=shown,
        state=previews.digest([obj], _texts(deleted), _names(counts)),
        question=f"Delete {obj}? " + deletion_question(counts),
    )


def raise_refused(perms_lacking: Any, protected: Sequence[Any]) -> None:
    """Raise ToolError if the caller may not delete all of it, or if other objects protect it."""
    if perms_lacking:
        names = ", ".join(sorted(map(str, perms_lacking)))
        raise ToolError(f"This would also delete what you may not delete: {names}.")
    if protected:
        names = "; ".join(plain_text(each) for each in [*protected][:MAX_LISTED])
        raise ToolError(f"Other objects protect it from being deleted: {names}")


def consequences(deleted: Sequence[Any], counts: dict[Any, int]) -> dict[str, Any]:
    """Return the objects that would be deleted, as text, and their number for each model."""
    texts = [*_lines(deleted)]
    listed = texts[:MAX_LISTED]
    if len(texts) > MAX_LISTED:
        listed.append(f"and {len(texts) - MAX_LISTED} more")
    return {"deleted": listed, "counts": _names(counts)}


def deletion_question(counts: dict[Any, int]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in _names(counts).items())
    return f"This deletes {listed}."


def _names(counts: dict[Any, int]) -> dict[str, int]:
    return {str(name): count for name, count in counts.items()}


def _lines(deleted: Any) -> Iterator[str]:
    for each in deleted:
        if isinstance(each, list | tuple):
            yield from _lines(each)
        else:
            yield plain_text(each)


def _texts(deleted: Any) -> Any:
    """Return the nested list with its links, which have the keys of the objects."""
    return [_texts(each) if isinstance(each, list | tuple) else str(each) for each in deleted]
