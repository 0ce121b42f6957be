"""The schemas of the tools of one model: its fields, filters, columns and actions.

They are made once, for all callers. So hooks of the ModelAdmin are called with a request that has
no user and no attributes of middleware: a hook that reads one leaves its argument as it is in the
tool for all models. Each call still decides by its caller.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from django import forms
from django.contrib.admin.utils import flatten_fieldsets, get_fields_from_path
from django.db.models import DateField
from django.http import HttpRequest

from django_mcp.core.components.base import ConfigurationError
from django_mcp.forms.fields import field_argument
from django_mcp.forms.tool import is_filled_in, is_required
from django_mcp.modeladmin import lists, values
from django_mcp.modeladmin.html_forms import FILE
from django_mcp.modeladmin.models import AnyModelAdmin, Models
from django_mcp.runtime.django_types.fields import is_hash

Schema = dict[str, Any]

KEY: Schema = {"type": ["integer", "string"]}


def of_tool(name: str, schema: Schema, models: Models, model_admin: AnyModelAdmin) -> Schema:
    """Return the schema of a tool with the fields, filters, columns or actions of a model."""
    properties = dict(schema["properties"])
    for argument, describe in KNOWN.get(name, {}).items():
        # A hook may read its caller. The check of the forms reports errors that it raises for one.
        with suppress(Exception):
            properties[argument] = {**properties[argument], **describe(model_admin)}
    with suppress(Exception):
        inlines = model_admin.get_inlines(HttpRequest(), None)
        if not any(models.shows_rows(inline.model) for inline in inlines):
            properties.pop("inlines", None)
    return {**schema, "properties": properties}


def _with_plain_relations(model_admin: AnyModelAdmin) -> Any:
    """Return a copy of a ModelAdmin that asks no hook for the fields of relations.

    Those hooks choose rows for each caller, and a schema lists none.
    """
    copied: Any = copy.copy(model_admin)
    make_field = copied.formfield_for_dbfield

    def formfield_for_dbfield(db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.is_relation:
            return db_field.formfield()
        return make_field(db_field, request, **kwargs)

    copied.formfield_for_dbfield = formfield_for_dbfield
    return copied


def _new_values(model_admin: Any) -> Schema:
    """The fields of the form of a new object, with those that it needs."""
    model_admin = _with_plain_relations(model_admin)
    form = model_admin.get_form(HttpRequest(), None, change=False)
    fields = _fields(model_admin, form, None)
    properties = {name: _field(name, it) for name, it in fields.items()}
    described: Schema = {"properties": properties, "additionalProperties": False}
    # Either may fill in a field that a caller leaves out.
    initial = [model_admin.get_changeform_initial_data, form.__init__]
    if all(function.__module__.startswith("django.") for function in initial):
        filled_in = model_admin.get_prepopulated_fields(HttpRequest(), None)
        required = [n for n, it in fields.items() if is_required(it) and n not in filled_in]
        described |= {"required": required} if required else {}
    return described


def _changed_values(model_admin: Any) -> Schema:
    """The fields of the form of an object. None is required, since all others stay."""
    model_admin = _with_plain_relations(model_admin)
    obj = model_admin.model()
    form = model_admin.get_form(HttpRequest(), obj, change=True)
    fields = _fields(model_admin, form, obj)
    return {"properties": {name: _field(name, it, "default") for name, it in fields.items()}}


def _fields(model_admin: Any, form: Any, obj: Any) -> dict[str, forms.Field]:
    """Return the fields that somebody fills in, but for passwords."""
    names = flatten_fieldsets(model_admin.get_fieldsets(HttpRequest(), obj))
    read_only = model_admin.get_readonly_fields(HttpRequest(), obj)
    shown = {name: form.base_fields[name] for name in names if name in form.base_fields}
    return {
        name: field
        for name, field in shown.items()
        if name not in read_only and is_filled_in(field) and not values.is_secret(name, field, form)
    }


def _field(name: str, field: Any, *left_out: str) -> Schema:
    """Return the schema of a field; a relation takes keys and labels."""
    try:
        schema: Schema = {**field_argument(name, field).schema}
    except ConfigurationError:
        return {"title": field.label}
    if isinstance(field, forms.FileField):
        schema = {**FILE, "title": field.label}
    elif isinstance(field, forms.ModelMultipleChoiceField):
        schema["items"] = KEY
    elif isinstance(field, forms.ModelChoiceField):
        schema.pop("anyOf", None)
        schema |= KEY if field.required else {"type": [*KEY["type"], "null"]}
    return {member: value for member, value in schema.items() if member not in left_out}


def _filters(model_admin: Any) -> Schema:
    """The filters beside the list, by the names of their parameters."""
    properties: dict[str, Schema] = {}
    for declared in model_admin.get_list_filter(HttpRequest()):
        properties |= _filter(model_admin.model, declared)
    return {"properties": properties}


def _filter(model: Any, declared: Any) -> dict[str, Schema]:
    if isinstance(declared, type):
        # A filter of the site: its choices are made for each caller.
        name = getattr(declared, "parameter_name", None)
        return {name: {"title": getattr(declared, "title", name)}} if name else {}
    path = declared if isinstance(declared, str) else declared[0]
    field: Any = get_fields_from_path(model, path)[-1]
    if is_hash(field):
        return {}
    if field.is_relation:
        return {path: KEY}
    form_field = field.formfield()
    schema = {} if form_field is None else _field(path, form_field, "default", "description")
    lookups = [f"{path}__gte", f"{path}__lt"] if isinstance(field, DateField) else [path]
    return dict.fromkeys(lookups, schema)


def _ordering(model_admin: Any) -> Schema:
    names = lists.sortable(HttpRequest(), model_admin)
    return {"items": {"enum": [*names, *(f"-{name}" for name in names)]}} if names else {}


def _action(model_admin: Any) -> Schema:
    """The actions of all who see the tool: a copy grants the permissions that they need."""
    granting = copy.copy(model_admin)
    for name in dir(granting):
        if name.startswith("has_") and name.endswith("_permission"):
            setattr(granting, name, lambda *_: True)
    names = [*granting.get_actions(HttpRequest())]
    return {"enum": names} if names else {}


KNOWN: Mapping[str, Mapping[str, Callable[[Any], Schema]]] = {
    "search": {"filters": _filters, "ordering": _ordering},
    "add": {"values": _new_values},
    "change": {"values": _changed_values},
    "run_action": {"action": _action, "filters": _filters},
}
"""The arguments with a schema of their own for each model, by tool."""


def with_models(schema: Schema, labels: Iterable[str]) -> Schema:
    """Return the schema of a tool with the labels that its argument ``model`` can have."""
    properties = dict(schema["properties"])
    if "model" in properties:
        properties["model"] = {**properties["model"], "enum": [*labels]}
    return {**schema, "properties": properties}
