"""Headers which mirror the body, so that a gateway can route without reading it.

Their names, the encoding of their values, and whether they agree with the body: whoever decided
by a header must have decided for what the body asks (specification, basic/transports/
streamable-http). Names are compared as ASGI delivers them, in lower case.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from django_mcp.protocol.errors import HeaderMismatch, Json
from django_mcp.protocol.schema import walk

Headers = Mapping[bytes, Sequence[bytes]]
Kind = Literal["string", "integer", "boolean"]

PREFIX = b"mcp-"
PROTOCOL_VERSION = b"mcp-protocol-version"
METHOD = b"mcp-method"
NAME = b"mcp-name"
SESSION_ID = b"mcp-session-id"
PARAM_PREFIX = b"mcp-param-"

NAME_SOURCES: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
}
"""The parameter which Mcp-Name repeats, by method."""

MAX_INTEGER = 2**53 - 1

_ANNOTATION = "x-mcp-header"
_KINDS: Mapping[object, Kind] = {"string": "string", "integer": "integer", "boolean": "boolean"}
_OPEN, _CLOSE = "=?base64?", "?="
_VALUE = re.compile(rb"[\t\x20-\x7e]*")
_PLAIN = re.compile(r"(?! )[\x20-\x7e]*(?<! )")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NUMBER = re.compile(r"-?[0-9]{1,32}(?:\.[0-9]{1,32})?")


def collect(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    """The Mcp-* headers of an ASGI scope, in one pass; each with all its values."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        if name[:4] == PREFIX:
            found.setdefault(name, []).append(value)
    return found


class RequestHeaders:
    """The headers of one request, to be compared with its body.

    Nearly every request repeats its body byte by byte, which takes three comparisons to see;
    only another one is looked at with all the rules of ``check``.
    """

    __slots__ = ("_pairs", "_single", "get")

    def __init__(self, pairs: Collection[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self._single = dict(pairs)
        self.get = self._single.get
        """The value of a header that is sent once, or None; its name is in lower case."""

    def collected(self) -> dict[bytes, list[bytes]]:
        """The Mcp-* headers, each with all its values."""
        return collect(self._pairs)

    def check(self, method: str, name: str | None, version: str) -> None:
        """Refuse headers which do not repeat the body: see ``check``."""
        if not self._repeats(method, name, version):
            check(method, name, version, self.collected())

    def _repeats(self, method: str, name: str | None, version: str) -> bool:
        single = self._single
        return (
            len(single) == len(self._pairs)
            and single.get(METHOD) == method.encode()
            and single.get(PROTOCOL_VERSION) == version.encode()
            and (name is None or (single.get(NAME) == name.encode() and name[:2] != "=?"))
            # What is trimmed or invalid in a header repeats no body, even byte by byte.
            and _is_visible(f"{method}{version}{name}")
        )


def decode_value(raw: bytes, *, header: bytes = NAME) -> str:
    """The text which a header value stands for; HeaderMismatch, naming ``header``, if none.

    ``=?base64?…?=`` wraps what a header cannot carry. The markers are exact: a value which lacks
    one of them is literal text, while a bad inside is an error and never literal.
    """
    text = _text(raw, header)
    if not _is_wrapped(text):
        return text
    inside = text[len(_OPEN) : -len(_CLOSE)].encode()
    try:
        decoded = b64decode(inside, validate=True)
        # Python's idea of strictness differs between its versions; the round trip does not.
        if b64encode(decoded) == inside:
            return decoded.decode()
    except ValueError:
        pass
    raise _mismatch(header, "holds no valid Base64 of UTF-8 text between its markers")


def encode_value(value: str) -> str:
    """The header value which stands for ``value``: itself where a header can carry it."""
    if _PLAIN.fullmatch(value) and not _is_wrapped(value):
        return value
    return f"{_OPEN}{b64encode(value.encode()).decode()}{_CLOSE}"


def check(method: str, name: str | None, version: str, headers: Headers) -> None:
    """Refuse headers which do not repeat the body; ``headers`` as ``collect`` returns them.

    ``name`` is the parameter of NAME_SOURCES, or None where the method has none. Only there is
    the Base64 form understood: method and version are compared as they stand.
    """
    if _text(_only(headers, PROTOCOL_VERSION), PROTOCOL_VERSION) != version:
        raise _mismatch(PROTOCOL_VERSION, "differs from the protocol version in the body")
    if _text(_only(headers, METHOD), METHOD) != method:
        raise _mismatch(METHOD, "differs from the method in the body")
    if name is not None and decode_value(_only(headers, NAME)) != name:
        raise _mismatch(NAME, "differs from the name or URI in the body")


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """An argument which a client repeats in a header: where it is, and what it is."""

    path: tuple[str, ...]
    header: bytes
    kind: Kind


def param_headers(schema: Json) -> tuple[ParamHeader, ...]:
    """The parameter headers which an input schema asks for with ``x-mcp-header``.

    ValueError says what to change where the annotation is wrong: clients leave out a tool with a
    wrong one without telling anybody (specification, server/tools).
    """
    found: dict[bytes, ParamHeader] = {}
    for location, inner in walk.subschemas(schema):
        if _ANNOTATION in inner:
            param = _param_header(location, inner)
            if param.header in found:
                other = ".".join(found[param.header].path)
                raise _misplaced(location, f"repeats the header of {other!r}: choose another")
            found[param.header] = param
    return tuple(found.values())


def check_params(params: Sequence[ParamHeader], arguments: Json, headers: Headers) -> None:
    """Refuse parameter headers which do not repeat the arguments, and none for an absent one.

    A header for an absent argument is refused as well: somebody may have routed by it. Headers
    which no parameter asks for are ignored.
    """
    for param in params:
        value = _argument(arguments, param.path)
        if value is None:
            if param.header in headers:
                raise _mismatch(param.header, "is sent for an argument which is absent")
        elif not _agrees(value, decode_value(_only(headers, param.header), header=param.header)):
            raise _mismatch(param.header, f"differs from the argument {'.'.join(param.path)!r}")


def _is_visible(text: str) -> bool:
    """Whether all of it are visible ASCII characters, of which a space is none."""
    return text.isascii() and text.isprintable() and " " not in text


def _is_wrapped(text: str) -> bool:
    return (
        text.startswith(_OPEN) and text.endswith(_CLOSE) and len(text) >= len(_OPEN) + len(_CLOSE)
    )


def _text(raw: bytes, header: bytes) -> str:
    value = raw.strip(b" \t")
    if not _VALUE.fullmatch(value):
        raise _mismatch(header, "holds characters which a header value cannot have")
    return value.decode()


def _only(headers: Headers, header: bytes) -> bytes:
    """The value of a header which must be there once: of two, two proxies may read one each."""
    values = headers.get(header, ())
    if len(values) != 1:
        raise _mismatch(header, "is sent more than once" if values else "is missing")
    return values[0]


def _mismatch(header: bytes, problem: str) -> HeaderMismatch:
    name = header.decode().title()
    return HeaderMismatch(f"The header {name} {problem}", data={"header": name})


def _param_header(location: tuple[str | int, ...], schema: Json) -> ParamHeader:
    # A chain of plain properties has the keyword at every other step, and no other schema has.
    if not location or set(location[::2]) != {"properties"}:
        raise _misplaced(
            location, "is not on a property: move it to one reached by properties alone"
        )
    token = schema[_ANNOTATION]
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise _misplaced(location, "is no header name: use letters, digits and hyphens")
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _misplaced(
            location,
            'needs a property with one "type" of string, integer or boolean: '
            "leave an optional one out of required instead of allowing null",
        )
    path = tuple(map(str, location[1::2]))
    return ParamHeader(path, PARAM_PREFIX + token.lower().encode(), _KINDS[kind])


def _misplaced(location: tuple[str | int, ...], problem: str) -> ValueError:
    where = "/".join(("#", *map(str, location)))
    return ValueError(f"{_ANNOTATION} at {where} {problem}")


def _argument(arguments: object, path: tuple[str, ...]) -> str | int | float | None:
    """The argument, where there is one and a header can carry it.

    Objects and lists are of the wrong type for their schema, which will say so: no header of
    theirs is expected.
    """
    value = arguments
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | int | float) else None


def _agrees(value: str | int | float, text: str) -> bool:
    """Whether a header says what the argument says, by the argument's own type."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text == value
    # Beyond that range a client in JavaScript cannot tell neighbours apart.
    return (
        abs(value) <= MAX_INTEGER and _NUMBER.fullmatch(text) is not None and value == Decimal(text)
    )
