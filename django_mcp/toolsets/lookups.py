"""The lookups of filters: which a field may have, and the type of their argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from django_mcp.components.base import ConfigurationError
from django_mcp.toolsets.kinds import (
    DATE,
    MAX_ARGUMENT,
    Family,
    Kind,
    Schema,
    described,
    joined,
    text_argument,
    title_of,
)
from django_mcp.toolsets.queries.paths import SEPARATOR, Path

MAX_VALUES = 100
"""Values of the lookup ``in``."""
MAX_PATTERN = 100
"""Characters of a regular expression."""
MAX_MATCHED = 1_000
"""Characters of the longest text that is compared with a regular expression."""


class Argument(NamedTuple):
    """The type and the JSON Schema of an argument."""

    annotation: Any
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One argument that filters: its name, and the lookup into which it is compiled."""

    argument: str
    path: Path
    lookup: str
    """As in a call of ``filter()``: "exact", or with transforms, "date__gte"."""
    type: Argument
    phrase: str

    @property
    def lookup_names(self) -> tuple[str, ...]:
        """The transforms, then the lookup."""
        return tuple(self.lookup.split(SEPARATOR))


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
        transforms, last = [last], "exact"
    target = kind
    for name in transforms:
        families, target = TRANSFORMS[name]
        if kind.family not in families:
            raise _unknown(path, kind, lookup, where)
    found = LOOKUPS.get(last)
    if found is None or target.family not in found.families:
        raise _unknown(path, kind, lookup, where)
    if last in REGEX and (kind.max_length is None or kind.max_length > MAX_MATCHED):
        raise ConfigurationError(
            f"{where} allows {lookup!r} for {path.name!r}, whose texts may be longer than "
            f"{MAX_MATCHED:,} characters: use 'icontains', or a field with a max_length"
        )
    names = (*transforms, last)
    compiled = SEPARATOR.join(names)
    shown = names if names[-1] != "exact" or not transforms else names[:-1]
    suffix = "" if shown == ("exact",) else SEPARATOR + SEPARATOR.join(shown)
    type_ = found.argument(target)
    phrase = " ".join((*(name.replace("_", " ") for name in transforms), found.phrase)).strip()
    return Filter(
        argument=path.name + suffix, path=path, lookup=compiled, type=type_, phrase=phrase
    )


def _unknown(path: Path, kind: Kind, lookup: str, where: str) -> ConfigurationError:
    possible = [name for name, found in LOOKUPS.items() if kind.family in found.families]
    possible += [name for name, (families, _) in TRANSFORMS.items() if kind.family in families]
    return ConfigurationError(
        f"{where} allows the lookup {lookup!r} for {path.name!r}. Possible are: "
        f"{', '.join(possible)}, and a lookup after a part of a date, such as 'year__gte'"
    )


def bounded_pattern(pattern: str) -> str:
    """Return a regular expression that every database matches in little time.

    It has no groups and no alternatives, and repeats one item at most, so that the time grows at
    most with the square of the length of the text. Raises ValueError for any other.
    """
    if not PATTERN.fullmatch(pattern):
        raise ValueError(
            r"only characters, ., [...], \d \w \s, ^ and $ are allowed, and one of them may be "
            "followed by *, +, ? or {m,n}"
        )
    if sum(1 for item in ITEM.finditer(pattern) if item["repeat"]) > 1:
        raise ValueError("at most one *, +, ? or {m,n} is allowed")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError("it is no regular expression") from error
    return pattern


_ITEM = (
    r"(?:\[\^?[\w \-.@]+\]|\\[dws]|\\[.\\*+?^$(){}\[\]|]|[^\\\[\](){}*+?|\x00])"
    r"(?P<repeat>[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\})?"
)
ITEM = re.compile(_ITEM)
PATTERN = re.compile("(?:" + _ITEM.replace("?P<repeat>", "?:") + ")+")


def _same(kind: Kind) -> Argument:
    return Argument(kind.annotation, kind.input_schema)


def _several(kind: Kind) -> Argument:
    schema = {"type": "array", "items": kind.input_schema, "minItems": 1, "maxItems": MAX_VALUES}
    bounds = Field(min_length=1, max_length=MAX_VALUES)
    return Argument(Annotated[list[kind.annotation], bounds], schema)  # type: ignore[name-defined]


def _two(kind: Kind) -> Argument:
    schema = {"type": "array", "items": kind.input_schema, "minItems": 2, "maxItems": 2}
    bounds = Field(min_length=2, max_length=2)
    return Argument(Annotated[list[kind.annotation], bounds], schema)  # type: ignore[name-defined]


def _text(kind: Kind) -> Argument:
    return Argument(text_argument(), {"type": "string", "maxLength": MAX_ARGUMENT})


def _pattern(kind: Kind) -> Argument:
    text: Any = text_argument(MAX_PATTERN)
    annotation = Annotated[text, AfterValidator(bounded_pattern)]
    return Argument(annotation, {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN})


def _flag(kind: Kind) -> Argument:
    return Argument(bool, {"type": "boolean"})


ANY: frozenset[Family] = frozenset(
    {"number", "text", "boolean", "date", "datetime", "time", "other"}
)
TEXT: frozenset[Family] = frozenset({"text"})
ORDERED: frozenset[Family] = frozenset({"number", "text", "date", "datetime", "time"})
DATES: frozenset[Family] = frozenset({"date", "datetime"})
REGEX = ("regex", "iregex")

LOOKUPS: Mapping[str, Lookup] = {
    "exact": Lookup(ANY, _same, ""),
    "in": Lookup(ANY, _several, "one of"),
    "isnull": Lookup(ANY, _flag, "is missing"),
    "gt": Lookup(ORDERED, _same, "greater than"),
    "gte": Lookup(ORDERED, _same, "at least"),
    "lt": Lookup(ORDERED, _same, "less than"),
    "lte": Lookup(ORDERED, _same, "at most"),
    "range": Lookup(ORDERED, _two, "between two values, both included"),
    "iexact": Lookup(TEXT, _text, "equal, in any case"),
    "contains": Lookup(TEXT, _text, "contains"),
    "icontains": Lookup(TEXT, _text, "contains, in any case"),
    "startswith": Lookup(TEXT, _text, "starts with"),
    "istartswith": Lookup(TEXT, _text, "starts with, in any case"),
    "endswith": Lookup(TEXT, _text, "ends with"),
    "iendswith": Lookup(TEXT, _text, "ends with, in any case"),
    "regex": Lookup(TEXT, _pattern, "matches the regular expression"),
    "iregex": Lookup(TEXT, _pattern, "matches the regular expression, in any case"),
}


def _part(low: int, high: int) -> Kind:
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Kind(family="number", schema=schema, annotation=Annotated[int, Field(ge=low, le=high)])


TRANSFORMS: Mapping[str, tuple[frozenset[Family], Kind]] = {
    "date": (
        frozenset({"datetime"}),
        Kind(family="date", schema={"type": "string", "format": "date"}, annotation=DATE),
    ),
    "year": (DATES, _part(2, 9998)),
    "quarter": (DATES, _part(1, 4)),
    "month": (DATES, _part(1, 12)),
    "day": (DATES, _part(1, 31)),
    "week_day": (DATES, _part(1, 7)),
    "hour": (frozenset({"datetime"}), _part(0, 23)),
}
"""Parts of dates: which families have them, and their kind."""


def filter_schema(item: Filter) -> Schema:
    """The JSON Schema of the argument, with the title of its field and what it compares."""
    schema = described(item.type.schema, item.path.titled)
    if item.phrase:
        schema["title"] = joined("{}: " + item.phrase, title_of(item.path.titled))
    return schema
