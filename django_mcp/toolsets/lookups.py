"""The lookups of filters: which a field may have, and the type of their argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from django_mcp.core.components.base import ConfigurationError
from django_mcp.runtime.django_types.field_types import formatted
from django_mcp.toolsets.kinds import (
    MAX_ARGUMENT,
    Family,
    Kind,
    Schema,
    described,
    of_name,
    text_argument,
    title_of,
)
from django_mcp.toolsets.queries.paths import SEPARATOR, Path

MAX_VALUES = 100
"""Values of the lookup ``in``."""


class Argument(NamedTuple):
    """The type and the JSON Schema of an argument."""

    annotation: Any
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One argument that filters: its name, and its lookup in queries."""

    argument: str
    path: Path
    lookup: str
    """As in a call of ``filter()``: "exact", or with transforms, "date__gte"."""
    type: Argument
    phrase: str


class Lookup(NamedTuple):
    families: frozenset[Family]
    argument: Callable[[Kind], Argument]
    phrase: str


def build(path: Path, kind: Kind, lookup: str, where: str) -> Filter:
    """Return the filter for ``lookup``; raises ConfigurationError for one that does not fit."""
    *transforms, last = lookup.split(SEPARATOR)
    if len(transforms) > 1 or any(each not in TRANSFORMS for each in transforms):
        raise _unknown(path, kind, lookup, where)
    if not transforms and last in TRANSFORMS:
        transforms = [last]
        last = "exact"
    target = kind
    for name in transforms:
        families, target = TRANSFORMS[name]
        if kind.family not in families:
            raise _unknown(path, kind, lookup, where)
    known_lookup = LOOKUPS.get(last)
    if known_lookup is None or target.family not in known_lookup.families:
        raise _unknown(path, kind, lookup, where)
    if not path.has_lookup(transforms[0] if transforms else last):
        raise _unknown(path, kind, lookup, where)
    # "exact" is not in the names of arguments.
    shown = transforms if last == "exact" else [*transforms, last]
    words = [name.replace("_", " ") for name in transforms]
    return Filter(
        argument=SEPARATOR.join([path.name, *shown]),
        path=path,
        lookup=SEPARATOR.join([*transforms, last]),
        type=known_lookup.argument(target),
        phrase=" ".join([*words, known_lookup.phrase]).strip(),
    )


def _unknown(path: Path, kind: Kind, lookup: str, where: str) -> ConfigurationError:
    possible = [name for name, each in LOOKUPS.items() if kind.family in each.families]
    possible += [name for name, (families, _) in TRANSFORMS.items() if kind.family in families]
    possible = [name for name in possible if path.has_lookup(name)]
    message = f"{where} allows the lookup {lookup!r} for {path.name!r}. Possible are: "
    message += ", ".join(possible)
    if path.compared_field.is_relation:
        return ConfigurationError(f"{message}. {remedy_of_relation(path)}")
    return ConfigurationError(
        f"{message}, and a lookup after a part of a date, such as 'year__gte'"
    )


def remedy_of_relation(path: Path) -> str:
    """The remedy for a lookup that a foreign key does not have: name the column it refers to."""
    *steps, _ = path.name.split(SEPARATOR)
    field = path.compared_field
    target = field.target_field.name
    if not field.remote_field.parent_link:
        steps.append(path.titled.name)
        target = "pk" if field is not path.titled else target
    name = SEPARATOR.join([*steps, target])
    return f"A foreign key has no others: name {name!r} in its place"


def _same(kind: Kind) -> Argument:
    return Argument(kind.annotation, kind.input_schema)


def _several(kind: Kind, *, least: int, most: int) -> Argument:
    schema = {"type": "array", "items": kind.input_schema, "minItems": least, "maxItems": most}
    bounds = Field(min_length=least, max_length=most)
    return Argument(Annotated[list[kind.annotation], bounds], schema)  # type: ignore[name-defined]


def _text(kind: Kind) -> Argument:
    return Argument(text_argument(), {"type": "string", "maxLength": MAX_ARGUMENT})


ANY: frozenset[Family] = frozenset(
    {"number", "text", "boolean", "date", "datetime", "time", "duration", "other"}
)
TEXT: frozenset[Family] = frozenset({"text"})
ORDERED: frozenset[Family] = frozenset({"number", "text", "date", "datetime", "time", "duration"})
DATES: frozenset[Family] = frozenset({"date", "datetime"})

LOOKUPS: Mapping[str, Lookup] = {
    "exact": Lookup(ANY, _same, ""),
    "in": Lookup(ANY, partial(_several, least=1, most=MAX_VALUES), "one of"),
    "isnull": Lookup(ANY, lambda kind: Argument(bool, {"type": "boolean"}), "is missing"),
    "gt": Lookup(ORDERED, _same, "greater than"),
    "gte": Lookup(ORDERED, _same, "at least"),
    "lt": Lookup(ORDERED, _same, "less than"),
    "lte": Lookup(ORDERED, _same, "at most"),
    "range": Lookup(
        ORDERED, partial(_several, least=2, most=2), "between two values, both included"
    ),
    "iexact": Lookup(TEXT, _text, "equal, in any case"),
    "contains": Lookup(TEXT, _text, "contains"),
    "icontains": Lookup(TEXT, _text, "contains, in any case"),
    "startswith": Lookup(TEXT, _text, "starts with"),
    "istartswith": Lookup(TEXT, _text, "starts with, in any case"),
    "endswith": Lookup(TEXT, _text, "ends with"),
    "iendswith": Lookup(TEXT, _text, "ends with, in any case"),
}


def _part(low: int, high: int) -> Kind:
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Kind(family="number", schema=schema, annotation=Annotated[int, Field(ge=low, le=high)])


TRANSFORMS: Mapping[str, tuple[frozenset[Family], Kind]] = {
    "date": (frozenset({"datetime"}), of_name("date")),
    "year": (DATES, _part(2, 9998)),
    "quarter": (DATES, _part(1, 4)),
    "month": (DATES, _part(1, 12)),
    "day": (DATES, _part(1, 31)),
    "week_day": (DATES, _part(1, 7)),
    "hour": (frozenset({"datetime"}), _part(0, 23)),
}
"""Parts of dates: which families have them, and their kind."""


def filter_schema(item: Filter) -> Schema:
    """The JSON Schema of the argument, with the title of its field and its comparison."""
    schema = described(item.type.schema, item.path.titled)
    if item.phrase:
        schema["title"] = formatted("{}: " + item.phrase, title_of(item.path.titled))
    return schema
