"""The types of Django's fields: the one table of schemas for forms, toolsets and REST.

| a field of a model or a form | type | a value is written as |
|---|---|---|
| IntegerField | ``integer`` | an integer |
| FloatField | ``number`` | a number, or null for NaN and the infinities |
| DecimalField | ``decimal`` | a string with its digits |
| BooleanField | ``boolean`` | true or false |
| CharField, TextField, SlugField | ``text`` | a string |
| EmailField, URLField | ``email``, ``uri`` | a string |
| DateField, DateTimeField | ``date``, ``datetime`` | ISO 8601 |
| TimeField, DurationField | ``time``, ``duration`` | ISO 8601 |
| UUIDField | ``uuid`` | a string |
| GenericIPAddressField | ``address`` | a string |
| JSONField | ``json`` | anything |

The schema of a value has a ``format`` or a ``pattern`` only where every value that a database may
hold meets it: clients validate results, and would reject the whole answer. An e-mail
address may be blank, a duration may have fractions or a sign, a time has no offset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import ip_address
from math import isfinite
from typing import Annotated, Any, Literal
from uuid import UUID

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db import connections, models, router
from django.utils.choices import CallableChoiceIterator, flatten_choices
from django.utils.duration import duration_iso_string
from django.utils.functional import Promise
from django.utils.text import format_lazy
from pydantic import AfterValidator, Field, FiniteFloat
from pydantic_core import PydanticCustomError

from django_mcp.core.protocol.schema.shapes import Choices, or_null
from django_mcp.core.protocol.schema.steps import search
from django_mcp.runtime.django_types import dates
from django_mcp.runtime.django_types.fields import FieldKind, entry_of

Schema = dict[str, Any]

MAX_CHOICES = 100
"""More choices are not listed in a schema."""
MAX_TEXT = 100_000
"""Characters of a text that is written, if its field has no limit."""
MAX_RELATED = 100
"""Related rows that are written in one field."""
MAX_DURATION = timedelta(days=36_500)
MAX_DIGITS = 50
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """The type of the values of a field."""

    name: str
    annotation: Any
    """The type of an argument that is compared with values, for pydantic."""
    value: Schema
    """The JSON Schema of a value, which every value meets."""
    argument: Schema
    """The JSON Schema of an argument."""
    sent: Any = str
    """The type of an argument that a form validates, for pydantic."""
    write: Callable[[Any], Any] | None = None
    """Converts a value to JSON, unless pydantic does."""


def _date(value: date) -> date:
    if not datetime.min.year < value.year < datetime.max.year:
        raise ValueError("the year is out of range")
    return value


def _without_offset(value: time) -> time:
    if value.tzinfo is not None:
        raise ValueError("give a time without a time zone")
    return value


def _address(value: str) -> str:
    # As IPvAnyAddress of pydantic: its module loads a megabyte for the addresses of emails.
    try:
        return str(ip_address(value))
    except ValueError:
        text = "value is not a valid IPv4 or IPv6 address"
        raise PydanticCustomError("ip_any_address", text) from None


def _digits(value: Any) -> Any:
    """The digits of a decimal, without an exponent. A database may return another number."""
    return format(value, "f") if isinstance(value, Decimal) else value


def iso_duration(value: Any) -> Any:
    """A duration without years, which neither ISO 8601 gives a length nor Django reads."""
    return duration_iso_string(value) if isinstance(value, timedelta) else value


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value


DATE = Annotated[date, AfterValidator(_date)]
DATETIME = Annotated[datetime, AfterValidator(dates.in_database)]
TIME = Annotated[time, AfterValidator(_without_offset)]
DURATION = Annotated[timedelta, Field(ge=-MAX_DURATION, le=MAX_DURATION)]
SHORT = Annotated[str, Field(max_length=100)]
ADDRESS = Annotated[SHORT, AfterValidator(_address)]
STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}


def _simple(name: str, annotation: Any, schema: Schema, sent: Any = SHORT) -> FieldType:
    return FieldType(name=name, annotation=annotation, value=schema, argument=schema, sent=sent)


def _string(name: str, annotation: Any, sent: Any = str, **members: Any) -> FieldType:
    """A type for arguments that has stricter rules than values in rows."""
    argument = {**STRING, **members}
    return FieldType(name=name, annotation=annotation, value=STRING, argument=argument, sent=sent)


TYPES: Mapping[str, FieldType] = {
    each.name: each
    for each in (
        _simple("integer", int, {"type": "integer"}, int),
        FieldType(
            name="number",
            annotation=FiniteFloat,
            value=or_null(NUMBER),
            argument=NUMBER,
            sent=float,
            write=_finite,
        ),
        FieldType(
            name="decimal",
            annotation=Decimal,
            value=STRING,
            argument={"anyOf": [NUMBER, {**STRING, "maxLength": MAX_DIGITS}]},
            sent=Annotated[str | int | float, Field()],
            write=_digits,
        ),
        _simple("boolean", bool, {"type": "boolean"}, bool),
        _string("text", str),
        _string("email", str, format="email"),
        _string("uri", str, format="uri"),
        _simple("date", DATE, {**STRING, "format": "date"}),
        _string("time", TIME, SHORT),
        FieldType(
            name="duration",
            annotation=DURATION,
            value=STRING,
            argument={**STRING, "description": "Such as P2DT3H30M, or 2 03:30:00"},
            sent=SHORT,
            write=iso_duration,
        ),
        _simple("uuid", UUID, {**STRING, "format": "uuid"}),
        _string("address", ADDRESS, SHORT),
        _simple("json", Any, {}, Any),
    )
}
"""The types but for "datetime", which depends on the settings of the site."""

TypeName = Literal[
    "integer", "number", "decimal", "boolean", "text", "email", "uri", "date", "datetime", "time",
    "duration", "uuid", "address", "json",
]  # fmt: skip


def field_type(name: TypeName) -> FieldType:
    """Return the type with this name."""
    if name != "datetime":
        return TYPES[name]
    schema = dates.schema()
    return _simple("datetime", DATETIME, schema, SHORT)


# Fields of models.

MODEL_FIELDS: Mapping[type[Any], TypeName] = {
    models.IntegerField: "integer",
    models.DecimalField: "decimal",
    models.FloatField: "number",
    models.BooleanField: "boolean",
    models.DateTimeField: "datetime",
    models.DateField: "date",
    models.TimeField: "time",
    models.DurationField: "duration",
    models.UUIDField: "uuid",
    models.GenericIPAddressField: "address",
    models.EmailField: "email",
    models.URLField: "uri",
    models.FileField: "text",
    models.CharField: "text",
    models.TextField: "text",
    models.JSONField: "json",
}
"""The type of each class of fields; a subclass has the type of its nearest base."""


def of_model_field(field: Any) -> FieldType | FieldKind | None:
    """Return the type of a field of a model; None for one that JSON does not have.

    A field of a class that ``register_field_kind`` was given has the kind of the site.
    """
    if isinstance(field, models.GeneratedField):
        field = field.output_field
    entry = entry_of(field, MODEL_FIELDS)
    return entry if entry is None or isinstance(entry, FieldKind) else field_type(entry)


def integer_range(field: Any) -> tuple[int, int]:
    """Return the smallest and the largest integer of a field."""
    alias = router.db_for_read(field.model) if hasattr(field, "model") else "default"
    operations = connections[alias].ops
    lowest, highest = operations.integer_field_range(field.get_internal_type())
    low = MIN_INTEGER if lowest is None else max(lowest, MIN_INTEGER)
    return low, highest or MAX_INTEGER


def key_field(model: type[models.Model], name: str = "pk") -> Any:
    """Return the field that identifies objects; None for a key of several columns."""
    field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
    while getattr(field, "remote_field", None) is not None:
        field = field.target_field
    return None if is_composite(field) else field


def is_composite(field: Any) -> bool:
    """Whether a primary key consists of several columns, as Django 5.2 has it."""
    kind: Any = getattr(models, "CompositePrimaryKey", ())
    return isinstance(field, kind)


def key_schema(model: type[models.Model], name: str = "pk") -> Schema:
    """Return the schema of a field that identifies objects of ``model``."""
    try:
        field = key_field(model, name)
    except FieldDoesNotExist:
        return STRING
    named = entry_of(field, MODEL_FIELDS)
    return dict(TYPES[named].value) if named in ("integer", "uuid") else STRING


# Fields of forms.


@dataclass(frozen=True, slots=True)
class Argument:
    """The argument for a field of a form; the form validates its value."""

    annotation: Any
    """For pydantic."""
    schema: Schema
    labels: Any = ""
    """The meaning of the choices, for a description; lazy if a label is."""


def of_form_field(field: forms.Field, *, is_nullable: bool = True) -> Argument | None:
    """Return the argument for a field of a form; None for one that JSON does not have.

    With ``is_nullable``, a field that is not required takes null, which empties it.
    """
    entry = entry_of(field, FORM_FIELDS)
    if entry is None:
        return None
    if isinstance(entry, FieldKind):
        argument = Argument(entry.annotation, entry.schema)
    elif callable(entry):
        argument = entry(field)
    else:
        argument = _typed(field, entry)
    is_emptied = is_nullable and not (field.required or isinstance(field, forms.BooleanField))
    if not is_emptied:
        return argument
    nullable = or_null(argument.schema)
    return replace(argument, annotation=argument.annotation | None, schema=nullable)


def _typed(field: Any, name: TypeName) -> Argument:
    of_type = field_type(name)
    return Argument(of_type.sent, dict(of_type.argument))


def _number(name: TypeName) -> Callable[[Any], Argument]:
    def build(field: Any) -> Argument:
        argument = _typed(field, name)
        limits = {"minimum": bound(field.min_value), "maximum": bound(field.max_value)}
        bounds = {key: value for key, value in limits.items() if value is not None}
        return Argument(argument.annotation, with_bounds(argument.schema, bounds))

    return build


def with_bounds(schema: Schema, bounds: Mapping[str, Any]) -> Schema:
    """Return the schema of a number with bounds, which a string of its digits does not have."""
    if not bounds:
        return schema
    if "anyOf" in schema:
        number, *others = schema["anyOf"]
        return {**schema, "anyOf": [{**number, **bounds}, *others]}
    return {**schema, **bounds}


def bound(value: Any) -> int | float | None:
    """Return a limit as JSON number: a Decimal becomes a float, others are left out."""
    if value is None or isinstance(value, int):
        return value
    return None if callable(value) or not isfinite(value) else float(value)


def _text(name: TypeName) -> Callable[[Any], Argument]:
    def build(field: Any) -> Argument:
        longest = getattr(field, "max_length", None)
        sizes = {"minLength": getattr(field, "min_length", None), "maxLength": longest}
        limits = {key: size for key, size in sizes.items() if size}
        schema = {**field_type(name).argument, **limits}
        longest = min(longest or MAX_TEXT, MAX_TEXT)
        return Argument(Annotated[str, Field(max_length=longest)], schema)

    return build


def _regex(field: Any) -> Argument:
    argument = _text("text")(field)
    if field.regex.flags != re.UNICODE:
        return argument  # A pattern in JSON Schema has no flags, such as IGNORECASE.
    try:
        search(field.regex.pattern)
    except ValueError:
        return argument  # The form validates what only Python's patterns can express.
    return Argument(argument.annotation, {**argument.schema, "pattern": field.regex.pattern})


def _choice(field: Any) -> Argument:
    # Choices that a function returns may be rows, and differ between calls.
    if isinstance(field.choices, CallableChoiceIterator):
        return Argument(Annotated[str | int, Field()], {"type": ["string", "integer"]})
    return choice_argument(Choices.of(flatten_choices(field.choices)))


def choice_argument(choices: Choices) -> Argument:
    """Return the argument for one of some choices, which are listed if they are few."""
    values = choices.values
    if not 0 < len(values) <= MAX_CHOICES:
        return Argument(Annotated[str, Field(max_length=MAX_TEXT)], dict(STRING))
    is_literal = all(type(value) in (str, int, bool) for value in values)
    annotation: Any = Literal[values] if is_literal else Any
    return Argument(annotation, choices.schema(), labels_of(choices))


def labels_of(choices: Choices) -> Any:
    """Return the values with their labels; an empty string if the labels say no more."""
    if not (0 < len(choices) <= MAX_CHOICES and choices.have_labels):
        return ""
    parts = [part for pair in choices.pairs for part in pair]
    return formatted("; ".join(["{}: {}"] * len(choices)), *parts)


def joined_texts(*texts: Any) -> Any:
    """Return the texts that are not empty as one, which is lazy if one of them is."""
    parts = [text for text in texts if text]
    return formatted(" ".join(["{}"] * len(parts)), *parts)


def formatted(text: str, *parts: Any) -> Any:
    """Return a text with parts in its places ``{}``, lazy if one of them is."""
    is_lazy = any(isinstance(part, Promise) for part in parts)
    return format_lazy(text, *parts) if is_lazy else text.format(*parts)


def _related(field: Any) -> Argument:
    if field.queryset is None:
        return Argument(Annotated[str | int, Field()], {"type": ["string", "integer"]})
    key = key_field(field.queryset.model, field.to_field_name or "pk")
    of_key = of_model_field(key)
    if of_key is None:
        return Argument(Annotated[str | int, Field()], {"type": ["string", "integer"]})
    if isinstance(of_key, FieldKind):
        return Argument(of_key.annotation, of_key.schema)
    if of_key.name == "integer":
        bounds = Field(ge=MIN_INTEGER, le=MAX_INTEGER)
        return Argument(Annotated[int, bounds], dict(of_key.argument))
    return Argument(of_key.annotation, dict(of_key.argument))


def _several(one: Callable[[Any], Argument], most: int) -> Callable[[Any], Argument]:
    def build(field: Any) -> Argument:
        item = one(field)
        annotation: Any = item.annotation
        schema = {"type": "array", "items": item.schema, "maxItems": most, "uniqueItems": True}
        return Argument(Annotated[list[annotation], Field(max_length=most)], schema, item.labels)

    return build


def _boolean_or_null(field: Any) -> Argument:
    return Argument(bool | None, or_null({"type": "boolean"}))


FORM_FIELDS: Mapping[type[forms.Field], TypeName | Callable[[Any], Argument]] = {
    forms.ModelMultipleChoiceField: _several(_related, MAX_RELATED),
    forms.ModelChoiceField: _related,
    forms.MultipleChoiceField: _several(_choice, MAX_CHOICES),
    forms.ChoiceField: _choice,
    forms.NullBooleanField: _boolean_or_null,
    forms.BooleanField: "boolean",
    forms.DecimalField: _number("decimal"),
    forms.FloatField: _number("number"),
    forms.IntegerField: _number("integer"),
    forms.DateTimeField: "datetime",
    forms.SplitDateTimeField: "datetime",
    forms.DateField: "date",
    forms.TimeField: "time",
    forms.DurationField: "duration",
    forms.UUIDField: "uuid",
    forms.GenericIPAddressField: "address",
    forms.JSONField: "json",
    forms.EmailField: _text("email"),
    forms.URLField: _text("uri"),
    forms.RegexField: _regex,
    forms.CharField: _text("text"),
}
"""The argument for each class of fields; a subclass has the argument of its nearest base."""
