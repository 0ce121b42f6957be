"""The JSON Schemas of form fields, as arguments of tools.

They may be any JSON Schema, unlike those of elicitation (``runtime.django_types.forms``). Nothing
here reads the database: a form is declared before its tables exist.
"""

from __future__ import annotations

from typing import Any

from django import forms

from django_mcp.components.base import ConfigurationError
from django_mcp.forms import files
from django_mcp.runtime.django_types.field_types import Argument, of_form_field

Schema = dict[str, Any]


def field_schema(name: str, field: forms.Field, *, is_nullable: bool = True) -> Schema:
    """Return the schema of a field; raises ConfigurationError for one without any.

    With ``is_nullable``, null empties a field that is not required.
    """
    if getattr(field.widget, "input_type", None) == "password":
        raise ConfigurationError(
            f"The field {name!r} is a password, which a model must not read or write: leave it out"
        )
    argument = _argument(field, is_nullable)
    if argument is None:
        raise ConfigurationError(
            f"The field {name!r} is a {type(field).__name__}, which has no JSON Schema: give the "
            "class one with register_field_kind, or leave the field out"
        )
    schema = argument.schema
    texts = (str(field.help_text), schema.get("description"), argument.labels)
    members = {
        "title": str(field.label) if field.label else None,
        "default": default(field),
        **schema,
        "description": " ".join(filter(None, texts)),
    }
    return {key: value for key, value in members.items() if value not in (None, "")}


def _argument(field: Any, is_nullable: bool) -> Argument | None:
    if isinstance(field, forms.FileField):
        return Argument(Any, files.schema(field.max_length))
    return of_form_field(field, is_nullable=is_nullable)


def default(field: forms.Field) -> Any:
    """Return the initial value, if it is JSON and is not computed for each form."""
    initial = field.initial
    return initial if isinstance(initial, str | int | float | bool) else None
