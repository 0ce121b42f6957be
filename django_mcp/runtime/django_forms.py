"""Django forms as questions: what a client is shown of one, and how its answer is cleaned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.choices import flatten_choices

from django_mcp.components.base import ConfigurationError, InvalidArguments
from django_mcp.components.schemas import InputSchema

Described = dict[str, Any]

MAX_CHOICES = 100
"""A form that offers more is no question for a chat window."""


def input_schema_of(declared: Any) -> InputSchema | None:
    """What a form class asks for, and how its answer is cleaned; None for anything else.

    Raises ConfigurationError for a field that a client cannot show.
    """
    if not (isinstance(declared, type) and issubclass(declared, forms.BaseForm)):
        return None
    fields = declared().fields
    schema = {
        "type": "object",
        "properties": {name: _described(name, field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
    }

    def cleaned(content: dict[str, Any]) -> dict[str, Any]:
        form = declared(data=content)
        if not form.is_valid():
            raise InvalidArguments("; ".join(_problems(form)))
        return dict(form.cleaned_data)

    return InputSchema(schema, cleaned)


def _problems(form: forms.BaseForm) -> Iterable[str]:
    for name, errors in form.errors.items():
        where = "" if name == NON_FIELD_ERRORS else f"{name}: "
        yield from (f"{where}{error}" for error in errors)


def _described(name: str, field: forms.Field) -> Described:
    if getattr(field.widget, "input_type", None) == "password":
        raise ConfigurationError(
            f"The field {name!r} asks for a secret, which must not pass through the client: send "
            "the user to a page with elicit_url"
        )
    describe = next((DESCRIBED[kind] for kind in type(field).__mro__ if kind in DESCRIBED), None)
    if describe is None:
        raise ConfigurationError(
            f"The field {name!r} is a {type(field).__name__}, which a client cannot show: ask for "
            "texts, numbers, dates, choices, or yes and no"
        )
    told = {
        "title": str(field.label) if field.label else None,
        "description": str(field.help_text) or None,
        "default": field.initial if isinstance(field.initial, str | int | float) else None,
        **describe(field),
    }
    return {key: value for key, value in told.items() if value is not None}


def _text(field: Any) -> Described:
    return {"type": "string", "minLength": field.min_length, "maxLength": field.max_length}


def _formatted(name: str) -> Callable[[Any], Described]:
    return lambda field: {"type": "string", "format": name}


def _number(kind: str) -> Callable[[Any], Described]:
    return lambda field: {
        "type": kind,
        "minimum": _plain(field.min_value),
        "maximum": _plain(field.max_value),
    }


def _plain(bound: Any) -> Any:
    """A bound that JSON can say: a Decimal becomes a float, a function is left out."""
    return bound if bound is None or isinstance(bound, int) else _as_float(bound)


def _as_float(bound: Any) -> float | None:
    return None if callable(bound) else float(bound)


def _choice(field: Any) -> Described:
    return {"type": "string", "oneOf": _choices(field)}


def _choices_of_several(field: Any) -> Described:
    return {"type": "array", "items": {"anyOf": _choices(field)}}


def _choices(field: Any) -> list[Described]:
    pairs: Iterable[tuple[Any, Any]] = flatten_choices(field.choices)
    offered = [
        {"const": str(value), "title": str(label)}
        for value, label in pairs
        if value is not None and str(value)
    ]
    if len(offered) > MAX_CHOICES:
        raise ConfigurationError(f"A form offers {len(offered)} choices: ask for a text instead")
    return offered


def _boolean(field: Any) -> Described:
    return {"type": "boolean"}


DESCRIBED: Mapping[type[forms.Field], Callable[[Any], Described]] = {
    forms.MultipleChoiceField: _choices_of_several,
    forms.ModelMultipleChoiceField: _choices_of_several,
    forms.ChoiceField: _choice,
    forms.BooleanField: _boolean,
    forms.IntegerField: _number("integer"),
    forms.FloatField: _number("number"),
    forms.DecimalField: _number("number"),
    forms.EmailField: _formatted("email"),
    forms.URLField: _formatted("uri"),
    forms.DateField: _formatted("date"),
    forms.DateTimeField: _formatted("date-time"),
    forms.TimeField: lambda field: {"type": "string"},
    forms.CharField: _text,
}
"""How each kind of field is shown; a subclass is shown as the nearest of its bases."""
