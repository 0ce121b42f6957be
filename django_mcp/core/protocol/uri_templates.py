"""Matching and expansion of resource templates: RFC 6570, levels 1 to 3.

The RFC defines only expansion. The rules of matching: a URI matches as a whole. ``{var}``
takes at least one character and stops at ``/ ? #``; ``{+var}`` may contain ``/``. If there is a
choice, a variable is as short as the rest of the template allows. Because an expansion omits
undefined variables, the values of ``{.x} {/x} {#x}`` may be absent, and so may the pairs of
``{;x} {?x} {&x}``, which may have any order, each at most once, and no others. Values are
percent-decoded once: see ``UriTemplate.leads_outside`` for those that name a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

MAX_LENGTH = 8192
MAX_VARIABLES = 50

_RESERVED = ":/?#[]@!$&'()*+,;="
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"(?:\w|%[0-9A-Fa-f]{2})+(?:\.(?:\w|%[0-9A-Fa-f]{2})+)*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CHARACTERS = r"(?:[A-Za-z0-9\-._~:/@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*+"
_URI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*+:(?://\[[0-9A-Fa-f:.]+\])?{_CHARACTERS}"
    rf"(?:\?(?:{_CHARACTERS}\??)*+)?(?:#(?:{_CHARACTERS}\??)*+)?"
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SLASH = re.compile(r"[/\\]")
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_TRIPLET = re.compile(r"(%[0-9A-Fa-f]{2})")
_QUOTED = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]++|%[0-9A-Fa-f]{2})*+")


class _Operator(NamedTuple):
    """A row of the table in RFC 6570, appendix A, and the characters that end a match."""

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


class _Expression(NamedTuple):
    operator: _Operator
    names: tuple[str, ...]


_Part = str | _Expression
"""A part of a template; a string is literal."""


class _Optional(NamedTuple):
    """A step that matches the next ``skip`` - 1 steps, or none of them."""

    skip: int


class _Value(NamedTuple):
    """A step that matches a variable, up to ``stops`` or the start of the following steps."""

    name: str
    stops: re.Pattern[str]
    rest: re.Pattern[str]
    reach: int  # The length of what ``rest`` looks ahead.
    may_end: bool


_Step = str | _Optional | _Expression | _Value
"""A step of matching: a string matches itself, an expression matches named values."""


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A parsed template: ``match`` a URI against it, or ``expand`` it to a URI."""

    text: str
    names: tuple[str, ...]
    specificity: tuple[int, int, int]
    """The sort key, most specific first: most literal characters, fewest ``{+…}`` and variables."""
    _parts: tuple[_Part, ...] = field(repr=False, compare=False)
    _steps: tuple[_Step, ...] = field(repr=False, compare=False)
    _segments: frozenset[str] = field(repr=False, compare=False)
    """The variables that stop at a slash."""
    _prefix: str = field(repr=False, compare=False)
    """How each URI begins that matches: as it is, since none of it would be encoded."""

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Parse a template; raise ValueError with what to change if it is invalid."""
        if len(text) > MAX_LENGTH or _CONTROL.search(text):
            limit = f"at most {MAX_LENGTH} characters, none a control character"
            raise ValueError(f"A URI template has {limit}")
        parts = tuple(_parts(text))
        expressions = [part for part in parts if isinstance(part, _Expression)]
        names = tuple(name for expression in expressions for name in expression.names)
        if len(names) > MAX_VARIABLES:
            raise ValueError(f"{text!r} has more than {MAX_VARIABLES} variables")
        # A repeated name needs back-references, which cannot be matched in linear time.
        for name in names:
            if names.count(name) > 1:
                remedy = "give each variable its own name"
                raise ValueError(f"{name!r} occurs twice in {text!r}: {remedy}")
        literal = sum(len(part) for part in parts if isinstance(part, str))
        reserved = sum(bool(expression.operator.safe) for expression in expressions)
        specificity = (-literal, reserved, len(names))
        plain = [item for item in expressions if "/" in item.operator.stops]
        segments = frozenset(name for expression in plain for name in expression.names)
        steps = _compiled(text, parts)
        literal_start = steps[0] if steps and isinstance(steps[0], str) else ""
        prefix = literal_start.partition("%")[0]
        return cls(text, names, specificity, parts, steps, segments, prefix)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables that expand this template to ``uri``, or None."""
        if len(uri) > MAX_LENGTH or not uri.startswith(self._prefix):
            return None
        try:
            raw = _Match(self._steps, _normalized(uri)).values(0, 0)
            return raw and {name: _decoded(raw[name]) for name in self.names if name in raw}
        except ValueError:  # Not UTF-8, or it contains NUL.
            return None

    def expand(self, values: Mapping[str, str | int | float | None]) -> str:
        """Return the URI for ``values``; a variable that is missing or None is omitted."""
        return "".join(
            _quoted(part, _RESERVED) if isinstance(part, str) else _expanded(part, values)
            for part in self._parts
        )

    def leads_outside(self, variables: Mapping[str, str]) -> bool:
        """Whether a value, joined to the path of a folder, may lead out of that folder.

        It climbs or is an absolute path, also one of Windows, or a variable that stops at a slash
        contains an encoded one.
        """
        for name, value in variables.items():
            if has_path_traversal(value) or _ABSOLUTE.match(value):
                return True
            if name in self._segments and _SLASH.search(value):
                return True
        return False


def is_uri(text: str) -> bool:
    """Whether ``text`` is a URI with a scheme (RFC 3986)."""
    return _URI.fullmatch(text) is not None


def is_uri_template(text: str) -> bool:
    """Whether a template expands to URIs: characters outside ASCII are encoded in them."""
    return is_uri(_NOT_ASCII.sub("%C3", _EXPRESSION.sub("x", text)))


def has_path_traversal(text: str) -> bool:
    """Whether a segment of a path is ``..``, encoded or not, which no valid URI contains."""
    return ".." in _SLASH.split(unquote(text))


def _parts(text: str) -> Iterator[_Part]:
    """Parse a template: every second piece is the inside of an expression."""
    for index, piece in enumerate(_EXPRESSION.split(text)):
        if index % 2:
            symbol = piece[:1] if piece[:1] in _OPERATORS else ""
            names = tuple(piece.removeprefix(symbol).split(","))
            for name in names:
                if not _NAME.fullmatch(name):
                    raise ValueError(f"{_problem_of(name)} in {{{piece}}} of {text!r}")
            yield _Expression(_OPERATORS[symbol], names)
        elif "{" in piece or "}" in piece:
            raise ValueError(
                f"The braces of {text!r} do not pair up: write each variable as {{name}}, "
                "and a brace which is meant literally as %7B or %7D"
            )
        elif piece:
            yield piece


def _problem_of(name: str) -> str:
    if not name:
        return "A variable without a name"
    if name[0] in "=,!@|":
        return f"The operator {name[0]!r}, which RFC 6570 keeps for the future,"
    if name.endswith("*") or ":" in name:
        return f"A level 4 modifier, which cannot be matched (write the plain name), on {name!r}"
    return f"The name {name!r}, which is not made of letters, digits, _ and inner dots,"


def _compiled(text: str, parts: Sequence[_Part]) -> tuple[_Step, ...]:
    """Compile the parts from last to first: a step depends on those that follow it."""
    parts = _merged(parts)
    steps: list[_Step] = []
    for index in reversed(range(len(parts))):
        part = parts[index]
        if isinstance(part, str):
            steps.insert(0, _quoted(part, _RESERVED))
        elif part.operator.named:
            _check_openings(text, part.operator, steps)
            steps.insert(0, part)
        else:
            _insert_values(text, part, _stops(part, parts[:index], parts[index + 1 :]), steps)
    return tuple(steps)


def _merged(parts: Sequence[_Part]) -> list[_Part]:
    """Join an expression with the one before if its pairs continue the other's pairs."""
    merged: list[_Part] = []
    for part in parts:
        last = merged[-1] if merged else ""
        if (
            not isinstance(part, str)
            and not isinstance(last, str)
            and last.operator.named
            and part.operator.first == last.operator.separator
        ):
            merged[-1] = _Expression(last.operator, last.names + part.names)
        else:
            merged.append(part)
    return merged


def _opening(part: _Part) -> str:
    return part if isinstance(part, str) else part.operator.first


def _stops(part: _Expression, before: Sequence[_Part], after: Sequence[_Part]) -> str:
    """Return the characters that the values of ``part`` cannot contain."""
    operator = part.operator
    if operator.safe:
        # A reserved value may contain anything but the delimiters that follow in the template.
        later = "".join(map(_opening, after))
        return "".join(mark for mark in "?#&;" if mark in later)
    stops = operator.stops
    if not operator.first and len(part.names) > 1:
        stops += ","
    # A query that is written out, as in "?q={q}&page={page}".
    if any("?" in _opening(each) for each in before):
        stops += "&"
    if after and not isinstance(after[0], str) and _opening(after[0]) in (";", "&"):
        stops += _opening(after[0])
    return stops


def _check_openings(text: str, operator: _Operator, following: Sequence[_Step]) -> None:
    for opening in _openings(text, following):
        if opening and opening[0] not in operator.stops:
            raise ValueError(
                f"{opening!r} cannot follow {{{operator.first}…}} in {text!r}: "
                f"only what begins with one of {' '.join(operator.stops)} can"
            )


def _insert_values(text: str, part: _Expression, stops: str, steps: list[_Step]) -> None:
    operator = part.operator
    for index, name in reversed([*enumerate(part.names)]):
        steps.insert(0, _value(name, stops, {*_openings(text, steps)}))
        if operator.first or index:
            steps.insert(0, operator.separator if index else operator.first)
        if operator.first:
            steps.insert(0, _Optional(3 * (len(part.names) - index)))


def _openings(text: str, steps: Sequence[_Step]) -> Iterator[str]:
    """Yield the strings that ``steps`` can begin with; "" is the end of the URI."""
    if not steps:
        yield ""
        return
    step, *following = steps
    if isinstance(step, _Value):
        variables = f"{step.name!r} from the variable before it in {text!r}"
        raise ValueError(f"Nothing separates {variables}: put a character between them")
    if isinstance(step, str):
        yield step
    elif isinstance(step, _Expression):
        yield step.operator.first
        yield from _openings(text, following)
    else:
        yield from _openings(text, following)
        yield from _openings(text, steps[step.skip :])


def _value(name: str, stops: str, openings: set[str]) -> _Value:
    beginnings = "|".join(re.escape(opening) for opening in sorted(openings - {""})) or r"(?!)"
    return _Value(
        name=name,
        stops=re.compile(rf"[{re.escape(stops)}]|\Z" if stops else r"\Z"),
        # No value ends inside a percent-encoded character.
        rest=re.compile(rf"(?<!%)(?<!%.)(?={beginnings})"),
        reach=max(map(len, openings)),
        may_end="" in openings,
    )


class _Match:
    """The match of one URI against one template, in time linear in the length of the URI.

    It backtracks, but tries each end of each variable once: after a variable has failed from some
    position, every end up to the next stop has failed and is not tried from a later position.
    """

    def __init__(self, steps: Sequence[_Step], uri: str) -> None:
        self._steps = steps
        self._uri = uri
        self._failed_from: dict[tuple[int, int], int] = {}
        self._runs: dict[int, tuple[int, int]] = {}

    def values(self, index: int, at: int) -> dict[str, str] | None:
        """Return the raw values of the steps from ``index`` on, or None without a match."""
        steps = self._steps
        uri = self._uri
        while index < len(steps):
            step = steps[index]
            if isinstance(step, _Value):
                return self._value(step, index, at)
            if isinstance(step, _Expression):
                return self._pairs(step, index, at)
            if isinstance(step, _Optional):
                present = self.values(index + 1, at)
                if present is not None:
                    return present
                index += step.skip
            elif uri.startswith(step, at):
                at += len(step)
                index += 1
            else:
                return None
        return {} if at == len(uri) else None

    def _value(self, step: _Value, index: int, at: int) -> dict[str, str] | None:
        start, stop = self._runs.get(index, (0, -1))
        if not start <= at <= stop:
            stopper = step.stops.search(self._uri, at)
            stop = stopper.start() if stopper else len(self._uri)
            self._runs[index] = (at, stop)
        limit = min(stop, self._failed_from.get((index, stop), stop))
        for end in self._ends(step, at, limit):
            values = self.values(index + 1, end)
            if values is not None:
                values[step.name] = self._uri[at:end]
                return values
        self._failed_from[index, stop] = min(at, limit)
        return None

    def _ends(self, step: _Value, at: int, limit: int) -> Iterator[int]:
        for literal in step.rest.finditer(self._uri, at + 1, limit + step.reach):
            if literal.start() > limit:
                break
            yield literal.start()
        if step.may_end and at < limit == len(self._uri):
            yield limit

    def _pairs(self, step: _Expression, index: int, at: int) -> dict[str, str] | None:
        uri = self._uri
        ends = [i for mark in step.operator.stops if (i := uri.find(mark, at)) >= 0]
        end = min(ends, default=len(uri))
        named = _named(step, uri[at:end])
        values = None if named is None else self.values(index + 1, end)
        return None if named is None or values is None else values | named


def _named(step: _Expression, text: str) -> dict[str, str] | None:
    """Return the values of ``?a=1&b=2``; None if a name is unknown or repeated."""
    if not text:
        return {}
    if text[0] != step.operator.first:
        return None
    values: dict[str, str] = {}
    for pair in filter(None, text[1:].split(step.operator.separator)):
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


def _expanded(part: _Expression, values: Mapping[str, str | int | float | None]) -> str:
    operator = part.operator
    pieces = []
    for name in part.names:
        value = values.get(name)
        if value is None:
            continue
        text = str(value)
        piece = _quoted(text, operator.safe) if operator.safe else quote(text, safe="")
        if operator.named:
            piece = f"{name}={piece}" if piece else name + operator.if_empty
        pieces.append(piece)
    return operator.first + operator.separator.join(pieces) if pieces else ""


@lru_cache(maxsize=1)
def _normalized(uri: str) -> str:
    """A URI as templates match it: many templates are matched with the same one in turn."""
    return _quoted(uri, _RESERVED)


def _quoted(text: str, safe: str) -> str:
    """Percent-encode characters that are not unreserved, in ``safe`` or encoded already."""
    if _QUOTED.fullmatch(text):
        return text
    pieces = enumerate(_TRIPLET.split(text))
    return "".join(piece if index % 2 else quote(piece, safe=safe) for index, piece in pieces)
