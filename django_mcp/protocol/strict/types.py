"""The shapes of JSON values, as far as the protocol needs them: what does not fit, and where.

A shape is a function. It is given the revision, because what an object may have changes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.revisions import Revision, Structured

Problems = Iterator[tuple[str, str]]
"""Where something does not fit, and what is wrong with it."""
Shape = Callable[[Any, Revision], Problems]


def text(value: Any, revision: Revision) -> Problems:
    """A string."""
    if not isinstance(value, str):
        yield "", "is not a string"


def boolean(value: Any, revision: Revision) -> Problems:
    """True or false."""
    if not isinstance(value, bool):
        yield "", "is neither true nor false"


def number(value: Any, revision: Revision) -> Problems:
    """Any number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield "", "is not a number"


def whole(value: Any, revision: Revision) -> Problems:
    """A whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield "", "is not a whole number of at least 0"


def token(value: Any, revision: Revision) -> Problems:
    """What identifies a request or its progress."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        yield "", "is neither a string nor an integer"


def mapping(value: Any, revision: Revision) -> Problems:
    """Any object."""
    if not isinstance(value, Mapping):
        yield "", "is not an object"


def anything(value: Any, revision: Revision) -> Problems:
    """Any JSON value."""
    yield from ()


def one_of(*values: Any) -> Shape:
    """One of these values."""

    def check(value: Any, revision: Revision) -> Problems:
        if value not in values:
            yield "", f"is none of {', '.join(map(repr, values))}"

    return check


def listed(item: Shape, *, most: int | None = None) -> Shape:
    """A list of ``item``, of ``most`` items at most."""

    def check(value: Any, revision: Revision) -> Problems:
        if not isinstance(value, list | tuple):
            yield "", "is not a list"
            return
        if most is not None and len(value) > most:
            yield "", f"has more than {most} items"
        for index, each in enumerate(value):
            yield from _below(f"[{index}]", item(each, revision))

    return check


def schema(value: Any, revision: Revision) -> Problems:
    """A JSON Schema for an object."""
    if not isinstance(value, Mapping) or value.get("type") != "object":
        yield "", 'is not a JSON Schema of "type": "object"'


def output_schema(value: Any, revision: Revision) -> Problems:
    """A JSON Schema for structured content."""
    shape = schema if revision.structured is Structured.OBJECT else mapping
    yield from shape(value, revision)


def structured(value: Any, revision: Revision) -> Problems:
    """Structured content, as far as the revision has any."""
    if revision.structured is Structured.NOTHING:
        yield "", "is not known to this revision"
    elif revision.structured is Structured.OBJECT:
        yield from mapping(value, revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An object with named members."""

    members: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    kind: str | None = None
    """Under this name the revision lists the members which it knows."""
    is_open: bool = False
    """Whether it may have members of other names."""
    one_of: tuple[str, ...] = ()
    """It has exactly one of these."""

    def __call__(self, value: Any, revision: Revision) -> Problems:
        """What does not fit."""
        if not isinstance(value, Mapping):
            yield "", "is not an object"
            return
        for name in self.required:
            if name not in value:
                yield f".{name}", "is missing"
        if self.one_of and sum(name in value for name in self.one_of) != 1:
            yield "", f"has not exactly one of {', '.join(self.one_of)}"
        known = self._known(revision)
        for name, member in value.items():
            if known is not None and name not in known:
                yield f".{name}", "is not known to this revision"
            elif name in self.members:
                yield from _below(f".{name}", self.members[name](member, revision))

    def _known(self, revision: Revision) -> frozenset[str] | None:
        if self.is_open:
            return None
        if self.kind is not None:
            return revision.fields[self.kind]
        return frozenset(self.members)


def _below(place: str, problems: Problems) -> Problems:
    for path, wrong in problems:
        yield place + path, wrong
