"""Headers that repeat parts of the body, so that gateways can route (streamable-http).

A header that differs from the body is rejected. Header names are in lower case, as in ASGI.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from django_mcp.core.protocol.errors import HeaderMismatch, InvalidRequest, Json
from django_mcp.core.protocol.schema import walk

Headers = Mapping[bytes, Sequence[bytes]]

PREFIX = b"mcp-"
PROTOCOL_VERSION = b"mcp-protocol-version"
METHOD = b"mcp-method"
NAME = b"mcp-name"
SESSION_ID = b"mcp-session-id"
ACCEPT = b"accept"

NO_NAMES: frozenset[bytes] = frozenset()

NAME_SOURCES = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that Mcp-Name repeats, by method."""

_ANNOTATION = "x-mcp-header"
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_VALUE = re.compile(rb"[\t\x20-\x7e]*")
_PLAIN = re.compile(r"(?! )[\x20-\x7e]*(?<! )")
_PARAM_NAME = re.compile(r"[A-Za-z0-9-]+")
"""Other characters of header names get lost: proxies drop names with underscores, and CGI and WSGI
turn hyphens into them."""
_SCOPE = re.compile(r"[!#-\[\]-~]{1,256}")
_NUMBER = re.compile(r"-?[0-9]{1,32}(?:\.[0-9]{1,32})?")


SCOPE_EXPECTED = 'a scope such as "tickets:read", without spaces and quotes, not offline_access'


def is_scope(name: object) -> bool:
    """Whether ``name`` can be a scope of a resource in a challenge (RFC 6749, section 3.3).

    ``offline_access`` is not: it is between a client and its authorization server.
    """
    return isinstance(name, str) and name != "offline_access" and bool(_SCOPE.fullmatch(name))


class RequestHeaders(dict[bytes, bytes]):
    """The headers of one request, by their names in lower case, to be compared with its body.

    Accept has all its lines. Of the values of another header that is sent more than once, it has
    the last: where they differ, the name is in ``conflicting``.
    """

    conflicting = NO_NAMES
    _repeated: Collection[tuple[bytes, bytes]] = ()
    """All headers, where one is sent more than once."""

    @classmethod
    def of(cls, pairs: Collection[tuple[bytes, bytes]]) -> RequestHeaders:
        """The headers of a request as ASGI has them."""
        headers = cls(pairs)
        if len(headers) == len(pairs):
            return headers
        headers._repeated = pairs
        values: dict[bytes, list[bytes]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        headers.conflicting = frozenset(n for n, sent in values.items() if len(set(sent)) > 1)
        if ACCEPT in values:
            headers[ACCEPT] = b", ".join(values[ACCEPT])  # A list (RFC 9110, section 5.3).
        return headers

    def collected(self) -> dict[bytes, list[bytes]]:
        return collect(self._repeated or self.items())

    def text(self, name: bytes) -> str | None:
        """The trimmed value of a header; raises InvalidRequest for one with different values."""
        if name in self.conflicting:
            raise InvalidRequest(f"The header {name.decode().title()} has two different values")
        value = self.get(name)
        return None if value is None else trimmed(value)

    def version(self) -> str | None:
        """The protocol version, if there is one; raises InvalidRequest for different ones."""
        version = self.text(PROTOCOL_VERSION)
        if version and "," in version:  # A proxy may have joined two equal headers.
            version = trimmed(unjoined(version.encode("latin-1")))
        return version

    def check(self, method: str, name: str | None, version: str) -> None:
        """Raise HeaderMismatch if the headers do not repeat the body.

        Nearly every request repeats its body byte by byte, which one comparison finds. The
        function ``check``, with the rules for encodings, takes six times as long.
        """
        body = f"{version} {method} {name or ''}"
        try:
            sent = b"%b %b %b" % (
                self[PROTOCOL_VERSION],
                self[METHOD],
                b"" if name is None else self[NAME],
            )
            # A value with spaces or invalid characters never repeats the body.
            repeat_body = (
                not self._repeated
                and body.encode("ascii") == sent
                and body.isprintable()
                and body.count(" ") == 2
                and "=?" not in body
            )
        except (KeyError, UnicodeEncodeError):
            repeat_body = False
        if not repeat_body:
            check(method, name, version, self.collected())


def trimmed(value: bytes) -> str:
    """The text of a header value, without the spaces around it."""
    return value.strip(b" \t").decode("latin-1")


def collect(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    """Return the Mcp-* headers of an ASGI scope, each with all its values."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        if name[:4] == PREFIX:
            headers.setdefault(name, []).append(value)
    return headers


def decode_value(raw: bytes, *, header: bytes = NAME) -> str:
    """Return the string that a header value encodes; raise HeaderMismatch if it is invalid.

    ``=?base64?…?=`` encodes characters that a header cannot contain. A value without one of the
    markers is literal, but an invalid value between the markers is an error.
    """
    text = _text(raw, header)
    encoded = _ENCODED.fullmatch(text)
    if encoded is None:
        return text
    decoded = _decoded(encoded[1].encode())
    if decoded is None:
        raise _mismatch(header, "holds no valid Base64 of UTF-8 text between its markers")
    return decoded


def _decoded(encoded: bytes) -> str | None:
    """Return the text that ``encoded`` is the Base64 of, or None if it is of none."""
    try:
        text = b64decode(encoded, validate=True)
        # What b64decode accepts differs between versions of Python; the round trip does not.
        return text.decode() if b64encode(text) == encoded else None
    except ValueError:
        return None


def encode_value(value: str) -> str:
    """Return the header value for ``value``, in Base64 only if a header cannot contain it."""
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{b64encode(value.encode()).decode()}?="


def check(method: str, name: str | None, version: str, headers: Headers) -> None:
    """Raise HeaderMismatch if ``headers``, as returned by ``collect``, do not repeat the body.

    ``name`` is the parameter of NAME_SOURCES, if the method has one, and may be in Base64.
    """
    if _text(unjoined(_only(headers, PROTOCOL_VERSION)), PROTOCOL_VERSION) != version:
        raise _mismatch(PROTOCOL_VERSION, "differs from the protocol version in the body")
    if _text(_only(headers, METHOD), METHOD) != method:
        raise _mismatch(METHOD, "differs from the method in the body")
    if name is not None and decode_value(_only(headers, NAME)) != name:
        raise _mismatch(NAME, "differs from the name, URI or task id in the body")


def unjoined(value: bytes) -> bytes:
    """Return the one value of a list of equal values, as a proxy joins them; else ``value``."""
    if b"," not in value:
        return value
    first, *others = map(bytes.strip, value.split(b","))
    return first if {*others} == {first} else value


class ParamHeader(NamedTuple):
    path: tuple[str, ...]
    header: bytes


def param_headers(schema: Json) -> tuple[ParamHeader, ...]:
    """Return the parameter headers that an input schema declares with ``x-mcp-header``.

    Raises ValueError for an invalid annotation: clients silently ignore such a tool (server/tools).
    """
    params_by_header: dict[bytes, ParamHeader] = {}
    for location, inner in walk.subschemas(schema):
        if _ANNOTATION in inner:
            param = _param_header(location, inner)
            if param.header in params_by_header:
                other = ".".join(params_by_header[param.header].path)
                raise _misplaced(location, f"repeats the header of {other!r}: choose another")
            params_by_header[param.header] = param
    return tuple(params_by_header.values())


def check_params(params: Sequence[ParamHeader], arguments: Json, headers: Headers) -> None:
    """Raise HeaderMismatch if the parameter headers do not repeat the arguments.

    A header for an absent argument is rejected too: a gateway may have routed by it. Headers that
    no parameter declares are ignored.
    """
    for param in params:
        value: object = arguments
        for name in param.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        # The schema rejects objects and lists, which a header cannot contain.
        if not isinstance(value, str | int | float):
            if param.header in headers:
                raise _mismatch(param.header, "is sent for an argument which is absent")
        elif not _is_equal(value, decode_value(_only(headers, param.header), header=param.header)):
            raise _mismatch(param.header, f"differs from the argument {'.'.join(param.path)!r}")


def _text(raw: bytes, header: bytes) -> str:
    value = raw.strip(b" \t")
    if not _VALUE.fullmatch(value):
        raise _mismatch(header, "holds characters which a header value cannot have")
    return value.decode()


def _only(headers: Headers, header: bytes) -> bytes:
    """Return the value of a header that must be sent once: proxies read different ones."""
    values = headers.get(header, ())
    if len(values) != 1:
        raise _mismatch(header, "is sent more than once" if values else "is missing")
    return values[0]


def _mismatch(header: bytes, problem: str) -> HeaderMismatch:
    name = header.decode().title()
    return HeaderMismatch(f"The header {name} {problem}", data={"header": name})


def _param_header(location: walk.Location, schema: Json) -> ParamHeader:
    # A chain of properties, and no other location, has this keyword at every other step.
    if not location or set(location[::2]) != {"properties"}:
        problem = "is not on a property: move it to one reached by properties alone"
        raise _misplaced(location, problem)
    token = schema[_ANNOTATION]
    if not isinstance(token, str) or not _PARAM_NAME.fullmatch(token):
        raise _misplaced(location, "is no header name: use letters, digits and hyphens")
    if schema.get("type") not in ("string", "integer", "boolean"):
        remedy = "leave an optional one out of required instead of allowing null"
        problem = f'needs a property with one "type" of string, integer or boolean: {remedy}'
        raise _misplaced(location, problem)
    path = tuple(map(str, location[1::2]))
    return ParamHeader(path, f"mcp-param-{token.lower()}".encode())


def _misplaced(location: walk.Location, problem: str) -> ValueError:
    return ValueError(f"{_ANNOTATION} at {walk.pointer(location)} {problem}")


def _is_equal(value: str | int | float, text: str) -> bool:
    """Whether a header equals the argument, compared in the type of the argument."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text == value
    # A client in JavaScript cannot represent larger integers exactly.
    is_number = abs(value) < 2**53 and _NUMBER.fullmatch(text)
    return bool(is_number) and value == Decimal(text)
