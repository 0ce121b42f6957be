"""The kinds of model fields: the type of an argument, and the JSON Schema of a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from django.conf import settings
from django.db import connections, models, router
from django.utils import timezone
from django.utils.choices import flatten_choices
from django.utils.functional import Promise, lazy
from django.utils.text import capfirst, format_lazy
from pydantic import AfterValidator, Field, FiniteFloat, IPvAnyAddress

from django_mcp.components.base import ConfigurationError
from django_mcp.runtime.django_types.fields import FieldKind, entry_of

Schema = dict[str, Any]
Family = Literal["number", "text", "boolean", "date", "datetime", "time", "other"]

MAX_ARGUMENT = 200
"""Characters of a text in a filter."""
MAX_CHOICES = 100
"""More choices than these are not listed in a schema."""
MAX_DURATION = timedelta(days=36_500)
MAX_DIGITS = 100
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the values of a field look in JSON, and which arguments may be compared with them."""

    family: Family
    schema: Schema
    """Without titles, and without null."""
    annotation: Any
    """The type of an argument, with its bounds, for pydantic."""
    argument_schema: Schema | None = None
    """The JSON Schema of an argument, if it is not that of a value."""
    max_length: int | None = None
    """Characters of a value; None if they are not limited."""
    is_bounded: bool = True
    """Whether all its values are short."""

    @property
    def input_schema(self) -> Schema:
        return self.schema if self.argument_schema is None else self.argument_schema


def kind_of(field: Any, where: str) -> Kind:
    """Return the kind of a model field; raises ConfigurationError for one that JSON cannot have."""
    if isinstance(field, models.GeneratedField):
        field = field.output_field
    entry = entry_of(field, KINDS)
    if entry is None:
        raise ConfigurationError(
            f"{where} names {field.name!r}, a {type(field).__name__}, whose values have no JSON "
            "Schema here: give the class one with register_field_kind, or leave the field out"
        )
    if isinstance(entry, FieldKind):
        return _of_site(entry)
    return _with_choices(entry(field), field)


def _of_site(kind: FieldKind) -> Kind:
    """A kind that can be compared for equality only, since nothing is known of its order."""
    return Kind(family="other", schema=kind.schema, annotation=kind.annotation, is_bounded=False)


def text_argument(max_length: int = MAX_ARGUMENT) -> Any:
    """The type of a text: PostgreSQL rejects NUL characters."""
    return Annotated[str, Field(max_length=max_length), AfterValidator(without_nul)]


def without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL characters are not allowed")
    return text


def described(schema: Schema, field: Any, *, is_nullable: bool = False) -> Schema:
    """Return a schema with the title and the help text of a field, which may be lazy."""
    members: Schema = {"title": title_of(field), "description": _description(field)}
    whole = {**{name: text for name, text in members.items() if text}, **schema}
    return nullable(whole) if is_nullable else whole


def nullable(schema: Schema) -> Schema:
    """Return a schema that allows null as well."""
    if "type" in schema and isinstance(schema["type"], str):
        return {**schema, "type": [schema["type"], "null"]}
    return schema


def title_of(field: Any) -> Any:
    """The verbose name of a field, or of the model to which a reverse relation leads."""
    name = getattr(field, "verbose_name", None)
    name = field.related_model._meta.verbose_name if name is None else name
    return capfirst(name) if isinstance(name, str) else capitalized(name)


def joined(text: str, name: Any) -> Any:
    """Return a text with a name in its place ``{}``, lazy if the name is."""
    return format_lazy(text, name) if isinstance(name, Promise) else text.format(name)


capitalized = lazy(capfirst, str)


def _description(field: Any) -> Any:
    help_text = getattr(field, "help_text", "")
    labels = choices_of(field)
    if not 0 < len(labels) <= MAX_CHOICES or any("{" in str(value) for value, _ in labels):
        return help_text
    listed = ", ".join(f"{value} = {{}}" for value, _ in labels)
    text = "{} (" + listed + ")" if help_text else listed
    parts = [*([help_text] if help_text else ()), *(label for _, label in labels)]
    is_lazy = any(isinstance(part, Promise) for part in parts)
    return format_lazy(text, *parts) if is_lazy else text.format(*parts)


def choices_of(field: Any) -> list[tuple[Any, Any]]:
    """The choices of a field without the empty one, each with its label, which may be lazy."""
    pairs: list[tuple[Any, Any]] = [*flatten_choices(getattr(field, "choices", None) or ())]
    return [(value, label) for value, label in pairs if value not in (None, "")]


def _with_choices(kind: Kind, field: Any) -> Kind:
    labels = choices_of(field)
    if not 0 < len(labels) <= MAX_CHOICES or kind.family not in ("text", "number"):
        return kind
    values = tuple(value for value, _ in labels)
    if not all(type(value) in (str, int) for value in values):
        return kind
    enum = [{"const": value, "title": label} for value, label in labels]
    schema = {"type": kind.schema["type"], "oneOf": enum}
    return replace(kind, annotation=Literal[values], argument_schema=schema)


def _integer(field: Any) -> Kind:
    using = router.db_for_read(field.model) if hasattr(field, "model") else "default"
    lowest, highest = connections[using].ops.integer_field_range(field.get_internal_type())
    low = MIN_INTEGER if lowest is None else max(lowest, MIN_INTEGER)
    high = highest or MAX_INTEGER
    return Kind(
        family="number",
        schema={"type": "integer"},
        argument_schema={"type": "integer", "minimum": low, "maximum": high},
        annotation=Annotated[int, Field(ge=low, le=high)],
    )


def _decimal(field: Any) -> Kind:
    digits = field.max_digits or MAX_DIGITS
    places = field.decimal_places
    bounds = Field(allow_inf_nan=False, max_digits=digits, decimal_places=places)
    return Kind(
        family="number",
        schema={"type": "string", "pattern": DECIMAL},
        argument_schema={"anyOf": [{"type": "number"}, {"type": "string", "pattern": DECIMAL}]},
        annotation=Annotated[Decimal, bounds],
    )


DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"


def _float(field: Any) -> Kind:
    return Kind(family="number", schema={"type": "number"}, annotation=FiniteFloat)


def _text(field: Any, **members: Any) -> Kind:
    longest = field.max_length if not isinstance(field, models.TextField) else None
    return Kind(
        family="text",
        schema={"type": "string", **members},
        argument_schema={"type": "string", "maxLength": MAX_ARGUMENT},
        annotation=text_argument(),
        max_length=longest,
        is_bounded=longest is not None,
    )


def _simple(family: Family, schema: Schema, annotation: Any) -> Callable[[Any], Kind]:
    kind = Kind(family=family, schema=schema, annotation=annotation)
    return lambda field: kind


def _formatted(name: str) -> Schema:
    return {"type": "string", "format": name}


def aware(value: datetime) -> datetime:
    """Return the time with a time zone where the site uses them, and without one otherwise."""
    if settings.USE_TZ:
        given = timezone.make_aware(value) if timezone.is_naive(value) else value
        return _in_range(given, UTC)
    return _in_range(value, None) if timezone.is_naive(value) else timezone.make_naive(value)


def _in_range(value: datetime, zone: Any) -> datetime:
    """Databases convert a time to other time zones, so those at either end have no room."""
    if not datetime.min.year < value.year < datetime.max.year:
        raise ValueError("the year is out of range")
    return value if zone is None else value.astimezone(zone)


def _date(value: date) -> date:
    if not datetime.min.year < value.year < datetime.max.year:
        raise ValueError("the year is out of range")
    return value


def _naive(value: time) -> time:
    if value.tzinfo is not None:
        raise ValueError("give a time without a time zone")
    return value


def _json(field: Any) -> Kind:
    return Kind(family="other", schema={}, annotation=Any, is_bounded=False)


DATE = Annotated[date, AfterValidator(_date)]
DATETIME = Annotated[datetime, AfterValidator(aware)]
ADDRESS = Annotated[IPvAnyAddress, AfterValidator(str)]
DURATION = Annotated[timedelta, Field(ge=-MAX_DURATION, le=MAX_DURATION)]

KINDS: Mapping[type[Any], Callable[[Any], Kind]] = {
    models.IntegerField: _integer,
    models.DecimalField: _decimal,
    models.FloatField: _float,
    models.BooleanField: _simple("boolean", {"type": "boolean"}, bool),
    models.DateTimeField: _simple("datetime", _formatted("date-time"), DATETIME),
    models.DateField: _simple("date", _formatted("date"), DATE),
    models.TimeField: _simple("time", {"type": "string"}, Annotated[time, AfterValidator(_naive)]),
    models.DurationField: _simple("other", _formatted("duration"), DURATION),
    models.UUIDField: _simple("other", _formatted("uuid"), UUID),
    models.GenericIPAddressField: _simple("other", {"type": "string"}, ADDRESS),
    models.EmailField: partial(_text, format="email"),
    models.FileField: _text,
    models.CharField: _text,
    models.TextField: _text,
    models.JSONField: _json,
}
"""The kind of each class of fields; a subclass has that of its nearest base. Sites add theirs with
``register_field_kind``."""
