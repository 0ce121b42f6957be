"""Deleting an object in two steps: what would go, what protects it, and then the deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import router, transaction
from django.utils.datastructures import MultiValueDict

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin import previews, values
from django_mcp.modeladmin.calls import Call
from django_mcp.modeladmin.changes import lock
from django_mcp.modeladmin.models import AnyModelAdmin
from django_mcp.modeladmin.previews import Preview
from django_mcp.modeladmin.requests import plain_text

MAX_LISTED = 50
"""Objects that a preview lists; all are counted."""


def delete(call: Call, label: str, pk: str, confirm: str | None, may_ask: bool) -> dict[str, Any]:
    """Return a preview, or delete an object whose preview is confirmed."""
    model_admin = call.find_to_write(label)
    preview = _preview(call, model_admin, pk)
    answer = previews.confirmed(call, preview, confirm, may_ask=may_ask)
    if answer is not None:
        return answer
    call = call.refreshed()
    using = router.db_for_write(model_admin.model)
    with transaction.atomic(using=using):
        lock(model_admin, [pk], using)
        previews.check_unchanged(preview, _preview(call, model_admin, pk))
        visit = call.visit(model_admin, "delete_view", pk, data=MultiValueDict({"post": ["yes"]}))
        if getattr(visit.response, "status_code", 0) != 302:
            raise ToolError("The admin did not delete the object.")
        return {"done": True, **_counted(preview), "messages": visit.messages}


def _preview(call: Call, model_admin: AnyModelAdmin, pk: str) -> Preview:
    """Return what would be deleted; raises ToolError for what the admin would not delete."""
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
        question=f"Delete {obj}? " + question(counts),
    )


def raise_refused(perms_lacking: Any, protected: Sequence[Any]) -> None:
    """Raise ToolError for what the caller may not delete, and for what protects the objects."""
    if perms_lacking:
        names = ", ".join(sorted(map(str, perms_lacking)))
        raise ToolError(f"This would also delete what you may not delete: {names}.")
    if protected:
        names = "; ".join(plain_text(each) for each in [*protected][:MAX_LISTED])
        raise ToolError(f"Other objects protect it from being deleted: {names}")


def consequences(deleted: Sequence[Any], counts: dict[Any, int]) -> dict[str, Any]:
    """Return what would be deleted, as text, and how much of each model."""
    texts = [*_lines(deleted)]
    listed = texts[:MAX_LISTED]
    if len(texts) > MAX_LISTED:
        listed.append(f"and {len(texts) - MAX_LISTED} more")
    return {"deleted": listed, "counts": _names(counts)}


def question(counts: dict[Any, int]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in _names(counts).items())
    return f"This deletes {listed}."


def _counted(preview: Preview) -> dict[str, Any]:
    return {"deleted": preview.shown["counts"]}


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
