"""Django forms as elicitation schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.choices import flatten_choices

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.protocol.schema.shapes import Choices
from django_mcp.runtime.django_types import dates
from django_mcp.runtime.django_types.field_types import bound
from django_mcp.runtime.django_types.fields import FieldKind, entry_of, is_password

Schema = dict[str, Any]

MAX_CHOICES = 100
"""More choices do not fit into the user interface of a client."""


def reader_of(declared: Any) -> Callable[[], InputSchema] | None:
    """Return ``input_schema_of`` a form class, which may block; None for anything else."""
    if isinstance(declared, type) and issubclass(declared, forms.BaseForm):
        return partial(input_schema_of, declared)
    return None


def input_schema_of(declared: type[forms.BaseForm]) -> InputSchema:
    """Return the schema and the validation of a form class. Both may query the database."""
    fields = declared().fields
    schema = {
        "type": "object",
        "properties": {name: _field_schema(name, it, declared) for name, it in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
    }

    def clean(content: dict[str, Any]) -> dict[str, Any]:
        data = dict(content)
        for name, value in content.items():
            if isinstance(fields.get(name), forms.DateTimeField):
                data[name] = dates.for_form(value)
        form = declared(data=data)
        if form.is_valid():
            return dict(form.cleaned_data)
        messages: list[str] = []
        for name, errors in form.errors.items():
            prefix = "" if name == NON_FIELD_ERRORS else f"{name}: "
            messages += [f"{prefix}{error}" for error in errors]
        raise InvalidArguments("; ".join(messages))

    return InputSchema(schema, clean)


def _field_schema(name: str, field: forms.Field, form: type[forms.BaseForm]) -> Schema:
    if is_password(name, field, form):
        raise ConfigurationError(
            f"The field {name!r} is a password, which must not pass through the client: use "
            "elicit_url to open a page of the site"
        )
    entry = entry_of(field, SCHEMAS)
    if entry is None:
        raise ConfigurationError(
            f"The field {name!r} is a {type(field).__name__}, which a client cannot display: use "
            "strings, numbers, dates, choices or booleans, or register_field_kind"
        )
    kind_members = entry.schema if isinstance(entry, FieldKind) else entry(field)
    members = {
        "title": str(field.label) if field.label else None,
        "description": str(field.help_text) or None,
        "default": _default(field.initial, kind_members),
        **kind_members,
    }
    return {key: value for key, value in members.items() if value is not None}


def _default(initial: Any, schema: Mapping[str, Any]) -> Any:
    """Return an initial value in the type of its schema; None for one that the schema forbids.

    A client that validates the schema would reject the whole request.
    """
    value = getattr(initial, "value", initial)  # Of a member of an enumeration.
    kind = schema.get("type")
    types = DEFAULTS.get(str(kind), DEFAULTS["string"])
    is_bool = isinstance(value, bool)  # It is an int in Python, and no number in JSON.
    if not isinstance(value, types) or (is_bool and bool not in types):
        return None
    if kind != "string":
        return value
    text = str(value)
    choices = [choice["const"] for choice in schema.get("oneOf", ())]
    return text if not choices or text in choices else None


DEFAULTS: Mapping[str, tuple[type, ...]] = {
    "array": (),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str, int, float, bool),
}
"""The types of initial values that are a default of each type of JSON."""


def _formatted(name: str) -> Callable[[Any], Schema]:
    return lambda field: {"type": "string", "format": name}


def _number(kind: str) -> Callable[[Any], Schema]:
    def build(field: Any) -> Schema:
        minimum = bound(field.min_value)
        return {"type": kind, "minimum": minimum, "maximum": bound(field.max_value)}

    return build


def _multiple_choice(field: Any) -> Schema:
    choices = _choices(field)
    items = {"anyOf": choices} if choices else {"type": "string"}
    return {"type": "array", "items": items}


def _choice(field: Any) -> Schema:
    choices = _choices(field)
    return {"type": "string", "oneOf": choices} if choices else {"type": "string"}


def _choices(field: Any) -> list[Schema]:
    pairs = Choices.of(flatten_choices(field.choices)).pairs
    # A client's form has strings only.
    choices = [{"const": str(value), "title": str(label)} for value, label in pairs]
    if len(choices) > MAX_CHOICES:
        raise ConfigurationError(
            f"A form has {len(choices)} choices, at most {MAX_CHOICES} fit: use a CharField"
        )
    return choices


SCHEMAS: Mapping[type[forms.Field], Callable[[Any], Schema]] = {
    forms.MultipleChoiceField: _multiple_choice,
    forms.ModelMultipleChoiceField: _multiple_choice,
    forms.ChoiceField: _choice,
    forms.BooleanField: lambda field: {"type": "boolean"},
    forms.IntegerField: _number("integer"),
    forms.FloatField: _number("number"),
    forms.DecimalField: _number("number"),
    forms.EmailField: _formatted("email"),
    forms.URLField: _formatted("uri"),
    forms.DateField: _formatted("date"),
    forms.DateTimeField: _formatted("date-time"),
    forms.TimeField: lambda field: {"type": "string"},
    forms.CharField: lambda field: {
        "type": "string",
        "minLength": field.min_length,
        "maxLength": field.max_length,
    },
}
"""The schema of each class of fields; a subclass has the schema of its nearest base."""
