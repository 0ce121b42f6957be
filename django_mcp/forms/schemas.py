"""The JSON Schemas of form fields, as arguments of tools.

They may be any JSON Schema, unlike those of elicitation (``runtime.django_types.forms``). Nothing
here reads the database: a form is declared before its tables exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.choices import CallableChoiceIterator, flatten_choices

from django_mcp.components.base import ConfigurationError
from django_mcp.forms import files
from django_mcp.protocol.schema.regex import search
from django_mcp.runtime.django_types import forms as django_forms
from django_mcp.runtime.django_types.fields import FieldKind, entry_of

Schema = dict[str, Any]

MAX_CHOICES = 200
"""More choices are not listed; the form validates the value."""


def field_schema(name: str, field: forms.Field) -> Schema:
    """Return the schema of a field; raises ConfigurationError for one without any."""
    if getattr(field.widget, "input_type", None) == "password":
        raise ConfigurationError(
            f"The field {name!r} is a password, which a model must not read or write: leave it out"
        )
    entry = entry_of(field, SCHEMAS)
    if entry is None:
        raise ConfigurationError(
            f"The field {name!r} is a {type(field).__name__}, which has no JSON Schema: give the "
            "class one with register_field_kind, or leave the field out"
        )
    schema = entry.schema if isinstance(entry, FieldKind) else entry(field)
    members = {
        "title": str(field.label) if field.label else None,
        "default": default(field),
        **schema,
        "description": " ".join(filter(None, (str(field.help_text), schema.get("description")))),
    }
    return {key: value for key, value in members.items() if value not in (None, "")}


def default(field: forms.Field) -> Any:
    """Return the initial value, if it is JSON and is not computed for each form."""
    initial = field.initial
    return initial if isinstance(initial, str | int | float | bool) else None


def key_schema(model: type[models.Model], name: str = "pk") -> Schema:
    """Return the schema of a field that identifies objects of ``model``."""
    try:
        field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
    except FieldDoesNotExist:
        return {"type": "string"}
    while getattr(field, "remote_field", None) is not None:
        field = field.target_field
    if isinstance(field, models.IntegerField):
        return {"type": "integer"}
    if isinstance(field, models.UUIDField):
        return {"type": "string", "format": "uuid"}
    return {"type": "string"}


def choices_schema(choices: Iterable[Any]) -> Schema:
    """Return the schema of one of the choices, which are listed where they are few."""
    pairs: list[tuple[Any, Any]] = list(flatten_choices(choices))
    listed = [(str(value), str(label)) for value, label in pairs if value not in (None, "")]
    if not listed or len(listed) > MAX_CHOICES:
        return {"type": "string"}
    schema: Schema = {"type": "string", "enum": [value for value, _ in listed]}
    if any(value.casefold() != label.casefold() for value, label in listed):
        schema["description"] = "; ".join(f"{value}: {label}" for value, label in listed)
    return schema


def _choice(field: Any) -> Schema:
    # Choices that a function returns may be rows, and differ between calls.
    is_computed = isinstance(field.choices, CallableChoiceIterator)
    return {"type": "string"} if is_computed else choices_schema(field.choices)


def _model_choice(field: Any) -> Schema:
    if field.queryset is None:
        return {"type": "string"}
    return key_schema(field.queryset.model, field.to_field_name or "pk")


def _many(item: Callable[[Any], Schema]) -> Callable[[Any], Schema]:
    return lambda field: {"type": "array", "items": item(field), "uniqueItems": True}


def _regex(field: Any) -> Schema:
    schema = django_forms.SCHEMAS[forms.CharField](field)
    try:
        search(field.regex.pattern)
    except ValueError:
        return schema  # The form validates what only Python's patterns can express.
    return {**schema, "pattern": field.regex.pattern}


SCHEMAS: Mapping[type[forms.Field], Callable[[Any], Schema]] = {
    **django_forms.SCHEMAS,
    forms.ModelChoiceField: _model_choice,
    forms.ModelMultipleChoiceField: _many(_model_choice),
    forms.MultipleChoiceField: _many(_choice),
    forms.ChoiceField: _choice,
    forms.NullBooleanField: lambda field: {"type": ["boolean", "null"]},
    forms.RegexField: _regex,
    forms.UUIDField: lambda field: {"type": "string", "format": "uuid"},
    forms.DurationField: lambda field: {
        "type": "string",
        "description": "A duration such as 2 03:30:00 or P2DT3H30M",
    },
    forms.JSONField: lambda field: {},
    forms.SplitDateTimeField: lambda field: {"type": "string", "format": "date-time"},
    forms.FileField: lambda field: files.schema(field.max_length),
}
"""The schema of each class of fields; a subclass has that of its nearest base."""
