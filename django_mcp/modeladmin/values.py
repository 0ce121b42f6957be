"""The values of an object that the pages of the admin show, as JSON.

A value that only a person may see, such as the hash of a password, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.contrib.admin.utils import lookup_field
from django.contrib.auth.forms import ReadOnlyPasswordHashWidget
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import FileField, ForeignKey, ManyToManyRel, Model
from django.db.models.constants import LOOKUP_SEP
from django.db.models.fields.files import FieldFile

from django_mcp.forms.tool import initial_value
from django_mcp.modeladmin.models import AnyModelAdmin
from django_mcp.modeladmin.requests import plain_text
from django_mcp.runtime.django_types.field_types import FieldType, of_model_field
from django_mcp.runtime.django_types.fields import is_password
from django_mcp.runtime.django_types.values import file_url

MAX_RELATED = 200
"""Related objects that are listed of one field."""
PLAIN = (str, int, float, bool, type(None))


class Secret(Exception):
    """The value must not leave the site."""


def key_of(obj: Model) -> Any:
    """Return the primary key of an object, as callers give it."""
    return as_key(obj.pk)


def as_key(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


def reference(obj: Model) -> dict[str, Any]:
    """Return an object as key and label."""
    return {"key": key_of(obj), "label": str(obj)}


def identity(obj: Model) -> dict[str, Any]:
    """Return the primary key and the label of an object that a page is about."""
    return {"pk": key_of(obj), "label": str(obj)}


def is_secret(name: str, field: forms.Field, form: Any) -> bool:
    """Whether a field of a form, or of its class, shows or takes a password."""
    shows_hash = isinstance(field.widget, ReadOnlyPasswordHashWidget)
    return shows_hash or is_password(name, field, form)


def displayed(
    name: Any, obj: Any, model_admin: Any, form: Any = None, longest: int | None = None
) -> Any:
    """Return the value of a column of a list, or of a read-only field; raises Secret."""
    if form is not None and name in form.fields and is_secret(name, form.fields[name], form):
        raise Secret
    try:
        if isinstance(name, str) and _is_hash(name, obj):
            raise Secret
        field, attribute, value = lookup_field(name, obj, model_admin)
    except (AttributeError, ValueError, ObjectDoesNotExist):
        return None
    if field is not None:
        return _cut(of_field(field, obj, value), longest)
    if getattr(attribute, "boolean", False):
        return None if value is None else bool(value)
    if value is None:
        return getattr(attribute, "empty_value_display", None)
    if hasattr(value, "__html__"):
        return _cut(plain_text(value), longest)
    return _cut(value if isinstance(value, PLAIN) else str(value), longest)


def _is_hash(name: str, obj: Any) -> bool:
    """Whether a column is the hash of a password, also that of a related user."""
    *path, last = name.split(LOOKUP_SEP)
    for part in path:
        obj = getattr(obj, part, None)
    return last == "password" and isinstance(obj, AbstractBaseUser)


def of_field(field: Any, obj: Any, value: Any) -> Any:
    """Return the value of a field of a model."""
    if isinstance(getattr(field, "remote_field", None), ManyToManyRel):
        return None if value is None else [reference(each) for each in value.all()[:MAX_RELATED]]
    if isinstance(value, Model) and isinstance(field, ForeignKey):
        # Its ``to_field`` is the key that forms and filters take.
        return {"key": as_key(getattr(value, field.target_field.attname)), "label": str(value)}
    if isinstance(value, Model):
        return reference(value)
    if isinstance(field, FileField):
        return file_url(value)
    of_type = of_model_field(field)
    if isinstance(of_type, FieldType) and of_type.write is not None:
        return of_type.write(value)
    return value


def of_bound_field(form: Any, name: str) -> Any:
    """Return the value of a field that can be changed, as its page shows it; raises Secret."""
    field = form.fields[name]
    if is_secret(name, field, form):
        raise Secret
    if isinstance(field, forms.FileField):
        initial = form.get_initial_for_field(field, name)
        return file_url(initial) if isinstance(initial, FieldFile) else None
    value = initial_value(form, name)
    if isinstance(field, forms.ModelMultipleChoiceField):
        labels = _labels(field, value or [])
        return [{"key": as_key(each), "label": labels.get(str(each))} for each in value or []]
    if isinstance(field, forms.ModelChoiceField):
        if value in (None, ""):
            return None
        return {"key": as_key(value), "label": _labels(field, [value]).get(str(value))}
    if isinstance(field, forms.JSONField):
        return form.get_initial_for_field(field, name)
    options = getattr(getattr(form, "instance", None), "_meta", None)
    model_fields: list[Any] = [] if options is None else options.get_fields()
    model_field = next((each for each in model_fields if each.name == name), None)
    return value if model_field is None else of_field(model_field, form.instance, value)


def shown_fields(adminform: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names of the fields that a form of the admin shows, each with its field."""
    for fieldset in adminform:
        for line in fieldset:
            for field in line:
                if field.is_readonly:
                    yield str(field.field["name"]), field
                else:
                    yield field.field.name, field


def of_form(adminform: Any) -> dict[str, Any]:
    """Return the values that a form of the admin shows, without secrets."""
    values: dict[str, Any] = {}
    form = adminform.form
    for name, field in shown_fields(adminform):
        try:
            if field.is_readonly:
                readonly = field.field["field"]
                values[name] = displayed(readonly, form.instance, field.model_admin, form)
            elif not form.fields[name].widget.is_hidden:
                values[name] = of_bound_field(form, name)
        except Secret:
            continue
    return values


def column_name(column: Any) -> str:
    """Return the name of a column of a list, or of a read-only field."""
    return column if isinstance(column, str) else str(getattr(column, "__name__", column))


def row(obj: Any, columns: list[Any], model_admin: AnyModelAdmin, longest: int) -> dict[str, Any]:
    """Return the columns of a list for one object."""
    values: dict[str, Any] = {}
    for column in columns:
        try:
            values[column_name(column)] = displayed(column, obj, model_admin, longest=longest)
        except Secret:
            continue
    return values


def _labels(field: Any, keys: list[Any]) -> dict[str, str]:
    """Return the labels of related objects that the field offers, by key."""
    if not keys:
        return {}
    name = field.to_field_name or "pk"
    rows = field.queryset.filter(**{f"{name}__in": keys[:MAX_RELATED]})
    return {str(field.prepare_value(each)): field.label_from_instance(each) for each in rows}


def _cut(value: Any, longest: int | None) -> Any:
    if longest is None or not isinstance(value, str) or len(value) <= longest:
        return value
    return value[:longest] + "…"
