"""The kinds of model fields: the type of an argument, and the JSON Schema of a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

from django.db import models
from django.utils.choices import flatten_choices
from django.utils.functional import lazy
from django.utils.text import capfirst
from pydantic import AfterValidator, Field

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.schema.shapes import Choices, or_null
from django_mcp.runtime.django_types.field_types import (
    MAX_CHOICES,
    MAX_DIGITS,
    FieldType,
    TypeName,
    choice_argument,
    field_type,
    integer_range,
    joined_texts,
    labels_of,
    of_model_field,
)
from django_mcp.runtime.django_types.fields import FieldKind
from django_mcp.runtime.django_types.values import file_url_of_column

Schema = dict[str, Any]
Family = Literal["number", "text", "boolean", "date", "datetime", "time", "duration", "other"]

MAX_ARGUMENT = 200
"""Characters of a text in a filter."""
FAMILIES: Mapping[str, Family] = {
    "integer": "number",
    "decimal": "number",
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "time": "time",
    "duration": "duration",
    "text": "text",
    "email": "text",
    "uri": "text",
}
"""The family of each type of fields; values of the others are only compared for equality."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the values of a field look in JSON, and which arguments may be compared with them."""

    family: Family
    schema: Schema
    """Without titles, and without null but for numbers that JSON does not have."""
    annotation: Any
    """The type of an argument, with its bounds, for pydantic."""
    argument_schema: Schema | None = None
    """The JSON Schema of an argument, if it differs from the value's."""
    name: str = "other"
    """The type in the table of ``field_types``."""
    write: Callable[[Any], Any] | None = None
    """Converts a value to JSON, unless pydantic does."""
    max_length: int | None = None
    """Characters of a value; None if they are not limited."""
    is_bounded: bool = True
    """Whether all its values are short."""
    may_be_cut: bool = True
    """Whether the beginning of a value says something, unlike a URL's."""

    @property
    def input_schema(self) -> Schema:
        return self.schema if self.argument_schema is None else self.argument_schema


def kind_of(field: Any, where: str) -> Kind:
    """Return the kind of a model field; raises ConfigurationError for one that JSON cannot have."""
    kind = of_model_field(field)
    if kind is None:
        raise ConfigurationError(
            f"{where} names {field.name!r}, a {type(field).__name__}, whose values have no JSON "
            "Schema here: give the class one with register_field_kind, or leave the field out"
        )
    if isinstance(kind, FieldKind):
        # It can be compared for equality only, since nothing is known of its order.
        return Kind(
            family="other", schema=kind.schema, annotation=kind.annotation, is_bounded=False
        )
    output_field = getattr(field, "output_field", field)
    return _with_choices(_of_type(kind, output_field), field)


def _of_type(of_field: FieldType, field: Any) -> Kind:
    """The kind of a type, with the field's choices, limits and help text."""
    kind = Kind(
        family=FAMILIES.get(of_field.name, "other"),
        name=of_field.name,
        schema=of_field.value,
        annotation=of_field.annotation,
        argument_schema=of_field.argument,
        write=of_field.write,
        is_bounded=of_field.name != "json",
    )
    if of_field.name == "integer":
        low, high = integer_range(field)
        return replace(
            kind,
            argument_schema={**kind.input_schema, "minimum": low, "maximum": high},
            annotation=Annotated[int, Field(ge=low, le=high)],
        )
    if of_field.name == "decimal":
        digits = field.max_digits or MAX_DIGITS
        places = field.decimal_places
        bounds = Field(allow_inf_nan=False, max_digits=digits, decimal_places=places)
        return replace(kind, annotation=Annotated[kind.annotation, bounds])
    if isinstance(field, models.FileField):
        # Its URL is shown, and its name in the storage is compared.
        write = partial(file_url_of_column, field)
        kind = replace(kind, schema=or_null(kind.schema), write=write, may_be_cut=False)
        return _text(kind, field)
    return _text(kind, field) if kind.family == "text" else kind


def text_argument(max_length: int = MAX_ARGUMENT) -> Any:
    """The type of a text: PostgreSQL rejects NUL characters."""
    return Annotated[str, Field(max_length=max_length), AfterValidator(without_nul)]


def without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL characters are not allowed")
    return text


def described(schema: Schema, field: Any, *, is_nullable: bool = False) -> Schema:
    """Return a schema with the title and the help text of a field, which may be lazy."""
    help_text = getattr(field, "help_text", "")
    description = joined_texts(help_text, labels_of(choices_of(field)))
    members: Schema = {"title": title_of(field), "description": description}
    whole = {**{name: text for name, text in members.items() if text}, **schema}
    return or_null(whole) if is_nullable else whole


def title_of(field: Any) -> Any:
    """The verbose name of a field, or of the model of a reverse relation."""
    name = getattr(field, "verbose_name", None)
    name = field.related_model._meta.verbose_name if name is None else name
    return capfirst(name) if isinstance(name, str) else capitalized(name)


capitalized = lazy(capfirst, str)


def choices_of(field: Any) -> Choices:
    """The choices of a field without the empty one, each with its label, which may be lazy."""
    return Choices.of(flatten_choices(getattr(field, "choices", None) or ()))


def _with_choices(kind: Kind, field: Any) -> Kind:
    choices = choices_of(field)
    if not 0 < len(choices) <= MAX_CHOICES or kind.family not in ("text", "number"):
        return kind
    if not all(type(value) in (str, int) for value in choices.values):
        return kind
    argument = choice_argument(choices)
    return replace(kind, annotation=argument.annotation, argument_schema=argument.schema)


def _text(kind: Kind, field: Any) -> Kind:
    longest = None if isinstance(field, models.TextField) else field.max_length
    return replace(
        kind,
        # A part of an e-mail address is compared, too.
        argument_schema={"type": "string", "maxLength": MAX_ARGUMENT},
        annotation=text_argument(),
        max_length=longest,
        is_bounded=longest is not None,
    )


def of_name(name: TypeName) -> Kind:
    """Return the kind of a type that no field has, such as the date of a time."""
    return _of_type(field_type(name), None)
