"""Matching and expanding resource templates: RFC 6570, levels 1 to 3.

The RFC defines expansion only; matching is ours, and these are its rules. A URI matches as a
whole. ``{var}`` takes at least one character and stops at ``/ ? #``; ``{+var}`` crosses ``/``.
Where a choice is left, a variable takes as little as the rest of the template allows. Because an
expansion leaves undefined variables out, the values of ``{.x} {/x} {#x}`` may be absent, and so
may the pairs of ``{;x} {?x} {&x}``, which come in any order, each at most once, and no others.
Values come back percent-decoded: one which names a file is still to be checked by its opener.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

MAX_LENGTH = 8192
MAX_VARIABLES = 50

_RESERVED = ":/?#[]@!$&'()*+,;="
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"(?:\w|%[0-9A-Fa-f]{2})+(?:\.(?:\w|%[0-9A-Fa-f]{2})+)*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TRIPLET = re.compile(r"(%[0-9A-Fa-f]{2})")
_WELL_FORMED = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]++|%[0-9A-Fa-f]{2})*+")


class _Operator(NamedTuple):
    """A row of the table in RFC 6570, appendix A, and where its values stop when read back."""

    first: str
    separator: str
    named: bool
    if_empty: str
    safe: str
    stops: str


_OPERATORS: Mapping[str, _Operator] = {
    "": _Operator("", ",", False, "", "", "/?#"),
    "+": _Operator("", ",", False, "", _RESERVED, ""),
    "#": _Operator("#", ",", False, "", _RESERVED, ""),
    ".": _Operator(".", ".", False, "", "", "/?#."),
    "/": _Operator("/", "/", False, "", "", "/?#"),
    ";": _Operator(";", ";", True, "", "", "/?#"),
    "?": _Operator("?", "&", True, "=", "", "#"),
    "&": _Operator("&", "&", True, "=", "", "#"),
}

# Pairs which follow pairs are read as one set.
_CONTINUES = {("?", "&"), ("&", "&"), (";", ";")}


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str

    @property
    def opening(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Expression:
    operator: str
    names: tuple[str, ...]

    @property
    def opening(self) -> str:
        return _OPERATORS[self.operator].first


_Part = _Literal | _Expression


class _Text(NamedTuple):
    """A step of matching: exactly this."""

    text: str


class _Optional(NamedTuple):
    """A step of matching: the next ``skip`` - 1 steps, or none of them."""

    skip: int


class _Pairs(NamedTuple):
    """A step of matching: all up to one of ``stops``, read as the named values after ``first``."""

    names: frozenset[str]
    first: str
    separator: str
    stops: str


class _Value(NamedTuple):
    """A step of matching: a variable which holds none of ``stops``."""

    name: str
    stops: str


class _Bounded(NamedTuple):
    """A variable which ends before ``stops`` and where the steps after it can begin.

    ``reach`` is how far ``rest`` looks ahead; ``may_end`` says that the URI can end here too.
    """

    name: str
    stops: re.Pattern[str]
    rest: re.Pattern[str]
    reach: int
    may_end: bool


_Draft = _Text | _Optional | _Pairs | _Value
_Step = _Text | _Optional | _Pairs | _Bounded


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A parsed template: ``match`` a URI against it, or ``expand`` it into one."""

    text: str
    names: tuple[str, ...]
    specificity: tuple[int, int, int]
    """Sorts the more specific first: more literal characters, fewer ``{+…}``, fewer variables."""
    _parts: tuple[_Part, ...] = field(repr=False, compare=False)
    _steps: tuple[_Step, ...] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Read a template; ValueError says what to change when it cannot be one."""
        if len(text) > MAX_LENGTH or _CONTROL.search(text):
            raise ValueError(
                f"A URI template has at most {MAX_LENGTH} characters, none a control character"
            )
        parts = tuple(_parts(text))
        names = tuple(n for part in parts if isinstance(part, _Expression) for n in part.names)
        _check_names(text, names)
        return cls(text, names, _specificity(parts, names), parts, _compiled(text, parts))

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables with which this template is ``uri``, or None."""
        if len(uri) > MAX_LENGTH:
            return None
        try:
            raw = _Attempt(self._steps, _quoted(uri, _RESERVED)).values()
            return raw and {name: _decoded(raw[name]) for name in self.names if name in raw}
        except ValueError:  # Not UTF-8, or it holds NUL.
            return None

    def expand(self, values: Mapping[str, str | int | float | None]) -> str:
        """The URI for ``values``; a variable which is missing or None is left out."""
        return "".join(
            _quoted(part.text, _RESERVED) if isinstance(part, _Literal) else _expanded(part, values)
            for part in self._parts
        )


def has_path_traversal(text: str) -> bool:
    """Whether one of the steps of a path is ``..``, written out or encoded, to either slash.

    No address that anybody was given leads upwards: who asks for one wants out of a folder.
    """
    return ".." in _SLASH.split(unquote(text))


_SLASH = re.compile(r"[/\\]")


# Reading a template.


def _parts(text: str) -> Iterator[_Part]:
    end = 0
    for found in _EXPRESSION.finditer(text):
        yield from _literal(text, end, found.start())
        yield _expression(text, found[1])
        end = found.end()
    yield from _literal(text, end, len(text))


def _literal(text: str, start: int, end: int) -> Iterator[_Literal]:
    piece = text[start:end]
    if "{" in piece or "}" in piece:
        raise ValueError(
            f"The braces of {text!r} do not pair up: write each variable as {{name}}, "
            "and a brace which is meant literally as %7B or %7D"
        )
    if piece:
        yield _Literal(piece)


def _expression(text: str, inside: str) -> _Expression:
    operator = inside[:1] if inside[:1] in _OPERATORS else ""
    names = tuple(inside.removeprefix(operator).split(","))
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{_complaint(name)} in {{{inside}}} of {text!r}")
    return _Expression(operator, names)


def _complaint(name: str) -> str:
    if not name:
        return "A variable without a name"
    if name[0] in "=,!@|":
        return f"The operator {name[0]!r}, which RFC 6570 keeps for the future,"
    if name.endswith("*") or ":" in name:
        return f"A level 4 modifier, which cannot be matched (write the plain name), on {name!r}"
    return f"The name {name!r}, which is not made of letters, digits, _ and inner dots,"


def _check_names(text: str, names: Sequence[str]) -> None:
    if len(names) > MAX_VARIABLES:
        raise ValueError(f"{text!r} has more than {MAX_VARIABLES} variables")
    for name in names:
        # Matching a repeated name is matching with back-references, which nobody can do fast.
        if names.count(name) > 1:
            raise ValueError(f"{name!r} occurs twice in {text!r}: give each variable its own name")


def _specificity(parts: Sequence[_Part], names: Sequence[str]) -> tuple[int, int, int]:
    literal = sum(len(part.text) for part in parts if isinstance(part, _Literal))
    crossing = sum(isinstance(p, _Expression) and p.operator in ("+", "#") for p in parts)
    return (-literal, crossing, len(names))


# Compiling a template into steps.


def _compiled(text: str, parts: Sequence[_Part]) -> tuple[_Step, ...]:
    parts = _merged(parts)
    drafts: list[_Draft] = []
    for index, part in enumerate(parts):
        if isinstance(part, _Literal):
            drafts.append(_Text(_quoted(part.text, _RESERVED)))
        else:
            drafts += _drafted(part, _stops(part, parts[:index], parts[index + 1 :]))
    return tuple(_finished(text, drafts, index) for index in range(len(drafts)))


def _merged(parts: Sequence[_Part]) -> list[_Part]:
    merged: list[_Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if (
            isinstance(part, _Expression)
            and isinstance(last, _Expression)
            and (last.operator, part.operator) in _CONTINUES
        ):
            merged[-1] = _Expression(last.operator, last.names + part.names)
        else:
            merged.append(part)
    return merged


def _stops(part: _Expression, before: Sequence[_Part], after: Sequence[_Part]) -> str:
    """The characters which the values of ``part`` cannot hold."""
    operator = _OPERATORS[part.operator]
    if operator.named:
        return operator.stops
    if operator.safe:
        # A reserved value may hold anything, but for the marks which the template goes on to use.
        later = "".join(each.opening for each in after)
        return "".join(mark for mark in "?#&;" if mark in later)
    stops = operator.stops
    if not part.operator and len(part.names) > 1:
        stops += ","
    # A query written out by hand, as in "?q={q}&page={page}".
    if any("?" in each.opening for each in before):
        stops += "&"
    if after and isinstance(after[0], _Expression) and after[0].opening in (";", "&"):
        stops += after[0].opening
    return stops


def _drafted(part: _Expression, stops: str) -> Iterator[_Draft]:
    first, separator, named, *_ = _OPERATORS[part.operator]
    if named:
        yield _Pairs(frozenset(part.names), first, separator, stops)
        return
    for index, name in enumerate(part.names):
        if first:
            yield _Optional(3 * (len(part.names) - index))
        if first or index:
            yield _Text(separator if index else first)
        yield _Value(name, stops)


def _finished(text: str, drafts: Sequence[_Draft], index: int) -> _Step:
    draft = drafts[index]
    if isinstance(draft, _Value):
        return _bounded(draft, set(_openings(text, drafts, index + 1)))
    if isinstance(draft, _Pairs):
        for opening in _openings(text, drafts, index + 1):
            if opening and opening[0] not in draft.stops:
                raise ValueError(
                    f"{opening!r} cannot follow {{{draft.first}…}} in {text!r}: "
                    f"only what begins with one of {' '.join(draft.stops)} can"
                )
    return draft


def _openings(text: str, drafts: Sequence[_Draft], index: int) -> Iterator[str]:
    """With what the steps from ``index`` on can begin; "" is the end of the URI."""
    if index == len(drafts):
        yield ""
        return
    draft = drafts[index]
    if isinstance(draft, _Value):
        raise ValueError(
            f"Nothing separates {draft.name!r} from the variable before it in {text!r}: "
            "put a character between them"
        )
    if isinstance(draft, _Text):
        yield draft.text
    elif isinstance(draft, _Pairs):
        yield draft.first
        yield from _openings(text, drafts, index + 1)
    else:
        yield from _openings(text, drafts, index + 1)
        yield from _openings(text, drafts, index + draft.skip)


def _bounded(value: _Value, openings: set[str]) -> _Bounded:
    beginnings = "|".join(re.escape(opening) for opening in sorted(openings - {""})) or r"(?!)"
    return _Bounded(
        name=value.name,
        stops=re.compile(rf"[{re.escape(value.stops)}]|\Z" if value.stops else r"\Z"),
        # No value ends inside a percent-encoded character.
        rest=re.compile(rf"(?<!%)(?<!%.)(?={beginnings})"),
        reach=max(map(len, openings)),
        may_end="" in openings,
    )


# Matching a URI.


class _Attempt:
    """One URI against one template, in time linear in the URI.

    It backtracks, but tries each end of each variable once: when a variable has failed from some
    place, then every end between that place and the next stop has failed, and is not tried when
    the variable is reached again further on.
    """

    __slots__ = ("_failed_from", "_runs", "_steps", "_uri")

    def __init__(self, steps: Sequence[_Step], uri: str) -> None:
        self._steps = steps
        self._uri = uri
        self._failed_from: dict[tuple[int, int], int] = {}
        self._runs: dict[int, tuple[int, int]] = {}

    def values(self) -> dict[str, str] | None:
        """The raw values by name, or None when the URI does not match."""
        return self._from(0, 0)

    def _from(self, index: int, at: int) -> dict[str, str] | None:
        steps, uri = self._steps, self._uri
        while index < len(steps):
            step = steps[index]
            if isinstance(step, _Bounded):
                return self._value(step, index, at)
            if isinstance(step, _Pairs):
                return self._pairs(step, index, at)
            if isinstance(step, _Optional):
                present = self._from(index + 1, at)
                if present is not None:
                    return present
                index += step.skip
            elif uri.startswith(step.text, at):
                at += len(step.text)
                index += 1
            else:
                return None
        return {} if at == len(uri) else None

    def _value(self, step: _Bounded, index: int, at: int) -> dict[str, str] | None:
        stop = self._stop(step, index, at)
        limit = min(stop, self._failed_from.get((index, stop), stop))
        for end in self._ends(step, at, limit):
            values = self._from(index + 1, end)
            if values is not None:
                values[step.name] = self._uri[at:end]
                return values
        self._failed_from[index, stop] = min(at, limit)
        return None

    def _stop(self, step: _Bounded, index: int, at: int) -> int:
        """Where a value from ``at`` on must end at the latest."""
        start, stop = self._runs.get(index, (0, -1))
        if not start <= at <= stop:
            found = step.stops.search(self._uri, at)
            stop = found.start() if found else len(self._uri)
            self._runs[index] = (at, stop)
        return stop

    def _ends(self, step: _Bounded, at: int, limit: int) -> Iterator[int]:
        for found in step.rest.finditer(self._uri, at + 1, limit + step.reach):
            if found.start() > limit:
                break
            yield found.start()
        if step.may_end and at < limit == len(self._uri):
            yield limit

    def _pairs(self, step: _Pairs, index: int, at: int) -> dict[str, str] | None:
        uri = self._uri
        end = min((i for mark in step.stops if (i := uri.find(mark, at)) >= 0), default=len(uri))
        named = _named(step, uri[at:end])
        values = None if named is None else self._from(index + 1, end)
        return None if named is None or values is None else values | named


def _named(step: _Pairs, text: str) -> dict[str, str] | None:
    """``?a=1&b=2`` as values; None where it has a name unknown or repeated."""
    if not text:
        return {}
    if text[0] != step.first:
        return None
    values: dict[str, str] = {}
    for pair in filter(None, text[1:].split(step.separator)):
        name, _, value = pair.partition("=")
        if name not in step.names or name in values:
            return None
        values[name] = value
    return values


def _decoded(value: str) -> str:
    text = unquote_to_bytes(value).decode() if "%" in value else value
    if "\0" in text:
        raise ValueError("NUL in a URI")
    return text


# Expanding a template.


def _expanded(part: _Expression, values: Mapping[str, str | int | float | None]) -> str:
    operator = _OPERATORS[part.operator]
    defined = [(name, value) for name in part.names if (value := values.get(name)) is not None]
    if not defined:
        return ""
    return operator.first + operator.separator.join(
        _expanded_value(operator, name, str(value)) for name, value in defined
    )


def _expanded_value(operator: _Operator, name: str, value: str) -> str:
    encoded = _quoted(value, operator.safe) if operator.safe else quote(value, safe="")
    if not operator.named:
        return encoded
    return f"{name}={encoded}" if encoded else name + operator.if_empty


def _quoted(text: str, safe: str) -> str:
    """Percent-encode what is neither unreserved nor ``safe`` nor already percent-encoded."""
    if _WELL_FORMED.fullmatch(text):
        return text
    pieces = _TRIPLET.split(text)
    return "".join(
        piece if odd % 2 else quote(piece, safe=safe) for odd, piece in enumerate(pieces)
    )
