"""The fields of forms as arguments of tools, and validation errors as one error of a tool.

The JSON Schemas may be any; elicitation has less (``runtime.django_types.forms``). Nothing here
reads the database: a form is declared before its tables exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from django import forms

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.errors import ToolError
from django_mcp.runtime.django_types import uploads
from django_mcp.runtime.django_types.field_types import Argument, joined_texts, of_form_field
from django_mcp.runtime.django_types.fields import is_password

Schema = dict[str, Any]
MAX_LINES = 20
MAX_LENGTH = 300
"""Characters of one line."""


def field_argument(
    name: str, field: forms.Field, form: Any = None, *, where: str = "", is_nullable: bool = True
) -> Argument:
    """Return the argument for a field; raises ConfigurationError for a field without any.

    Its schema has the title, the help text and the default, in the language of each list. With
    ``is_nullable``, null empties a field that is not required. Errors name the place ``where``.
    """
    place = f"{where}.{name}" if where else name
    if is_password(name, field, form):
        raise ConfigurationError(
            f"The field {place!r} is a password, which a model must not read or write: leave it out"
        )
    if isinstance(field, forms.FileField):
        argument: Argument | None = Argument(Any, uploads.schema())
    else:
        argument = of_form_field(field, is_nullable=is_nullable)
    if argument is None:
        raise ConfigurationError(
            f"The field {place!r} is a {type(field).__name__}, which has no JSON Schema: give the "
            "class one with register_field_kind, or leave the field out"
        )
    schema = argument.schema
    description = joined_texts(field.help_text, schema.get("description"), argument.labels)
    initial = field.initial  # It may also be computed for each form.
    members = {
        "title": field.label,
        "default": initial if isinstance(initial, str | int | float | bool) else None,
        **schema,
        "description": description,
    }
    described = {key: value for key, value in members.items() if value not in (None, "")}
    return replace(argument, schema=described)


def tool_error(summary: str, lines: Iterable[str]) -> ToolError:
    """Return an error of ``summary`` and the first of the lines."""
    return ToolError(described(summary, lines))


def described(summary: str, lines: Iterable[str]) -> str:
    """Return ``summary`` and the first of the lines."""
    first = [*islice(lines, MAX_LINES + 1)]
    shown = [f"{line[:MAX_LENGTH]}..." if len(line) > MAX_LENGTH else line for line in first]
    if len(first) > MAX_LINES:
        shown[-1] = "and more"
    return "\n".join([summary, *shown])
