"""The options of a field of a form: keys and labels of the rows that the page offers.

A field with autocompletion, or with a list of the other model that a browser opens, offers the rows
that the caller may see there; other fields offer the rows of their page.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.contrib.admin.widgets import AutocompleteMixin, ForeignKeyRawIdWidget
from django.core.exceptions import ValidationError
from django.utils.choices import flatten_choices

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin.calls import Call
from django_mcp.modeladmin.models import AnyModelAdmin, without_hashes
from django_mcp.modeladmin.values import as_key

MAX_SCANNED = 5_000
"""Rows of a plain field that are searched: a page with more of them is not usable."""

Option = tuple[Any, str]


def matching(call: Call, field: Any, text: str, page: int = 1) -> Iterator[Option]:
    """Yield the options of a field that match a text; raises ToolError for a field without any."""
    if "\0" in text:
        return iter(())  # PostgreSQL refuses to look for it.
    widget = getattr(field.widget, "widget", field.widget)
    if isinstance(widget, AutocompleteMixin):
        return _autocompleted(call, widget, text, page)
    if isinstance(field, forms.ModelChoiceField):
        if isinstance(widget, ForeignKeyRawIdWidget):
            return _of_changelist(call, field, text)
        rows = field.queryset[:MAX_SCANNED] if field.queryset is not None else ()
        return _with_text(((key(field, row), field.label_from_instance(row)) for row in rows), text)
    if isinstance(field, forms.ChoiceField):
        choices: Any = field.choices
        pairs: Any = flatten_choices(choices)
        return _with_text(((k, str(label)) for k, label in pairs), text)
    raise ToolError("This field has no options: give it a value.")


def key(field: Any, row: Any) -> Any:
    """Return the key of a row in a field."""
    return as_key(field.prepare_value(row))


def _with_text(options: Any, text: str) -> Iterator[Option]:
    wanted = text.casefold()
    return (option for option in options if wanted in option[1].casefold())


def _autocompleted(call: Call, widget: Any, text: str, page: int) -> Iterator[Option]:
    """The answer of the view that a browser asks while a person types."""
    path = call.url("autocomplete") or "/"
    source = widget.field.model._meta
    query = {
        "term": text,
        "page": str(page),
        "app_label": source.app_label,
        "model_name": source.model_name,
        "field_name": widget.field.name,
    }
    site = _without_hashes(call.models.site)
    response = site.autocomplete_view(call.request_to(path, query=query))
    for row in json.loads(response.content)["results"]:
        yield row["id"], row["text"]


def _without_hashes(site: AdminSite) -> AdminSite:
    """Return a copy of an admin whose models search no hashes of passwords."""
    limited: Any = copy.copy(site)
    registered = limited.get_model_admin

    def get_model_admin(model: Any) -> AnyModelAdmin:
        return without_hashes(registered(model))

    limited.get_model_admin = get_model_admin
    return limited  # type: ignore[no-any-return]


def _of_changelist(call: Call, field: Any, text: str) -> Iterator[Option]:
    """The rows that the list of the other model shows to the caller."""
    model_admin = call.models.of_model(field.queryset.model)
    if model_admin is None or not model_admin.has_view_or_change_permission(call.request):
        raise ToolError("You may not list the rows of this field: give the key of one.")
    rows = model_admin.get_queryset(call.request)
    rows = rows.filter(pk__in=field.queryset.order_by().values("pk"))
    if text:
        searched = without_hashes(model_admin)
        rows, may_have_duplicates = searched.get_search_results(call.request, rows, text)
        if may_have_duplicates:
            rows = rows.distinct()
    return ((key(field, row), field.label_from_instance(row)) for row in rows[:MAX_SCANNED])


def resolved(call: Call, path: str, field: Any, value: Any) -> Any:
    """Return the key, or the keys, for an argument: a key, a label, or both as they are shown."""
    if value is None:
        return None
    if isinstance(field, forms.ModelMultipleChoiceField):
        if not isinstance(value, list):
            raise ToolError(f"{path}: give a list of keys.")
        return [_resolved(call, f"{path}[{n}]", field, one) for n, one in enumerate(value)]
    return _resolved(call, path, field, value)


def _resolved(call: Call, path: str, field: Any, value: Any) -> Any:
    if isinstance(value, dict):
        value = value.get("key")
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise ToolError(f"{path}: give a key, or the label of an object.")
    if not isinstance(value, str) or _is_key(field, value):
        return value
    labelled = [k for k, label in islice(matching(call, field, value), 100) if label == value]
    if len(labelled) == 1:
        return labelled[0]
    problem = "several objects have" if labelled else "no object has"
    raise ToolError(f"{path}: {problem} the label {value[:80]!r}: give the key of one.")


def _is_key(field: Any, value: str) -> bool:
    if value == "" or "\0" in value:
        return value == ""
    name = field.to_field_name or "pk"
    try:
        return bool(field.queryset.filter(**{name: value}).exists())
    except (ValueError, TypeError, OverflowError, ValidationError):
        return False


def as_json(options: Iterator[Option], limit: int) -> list[dict[str, Any]]:
    return [{"key": k, "label": label} for k, label in islice(options, limit)]
