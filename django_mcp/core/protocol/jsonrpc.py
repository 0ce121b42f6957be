"""JSON-RPC 2.0 as MCP uses it. A message is validated once, here.

It is a named tuple, because a frozen dataclass takes twice as long to create.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from string import ascii_letters
from typing import Any, NamedTuple, TypeGuard, final

from pydantic_core import from_json, to_json

from django_mcp.core.protocol.errors import InvalidRequest, Json, ParseError
from django_mcp.core.protocol.limits import (
    MAX_BATCH,
    MAX_CURSOR,
    MAX_IDENTIFIER,
    MAX_INTEGER,
    MAX_VALUES,
    too_long,
)
from django_mcp.core.protocol.texts import json_fallback

RequestId = str | int


class RequestInfo(NamedTuple):
    """The message of a Frame, with its raw parameters; a notification has no id."""

    id: RequestId | None
    method: str
    params: Json


@final
class Request(RequestInfo):
    """A message that is answered with a response of the same ``id``."""

    __slots__ = ()
    id: RequestId
    params: dict[str, Any]


@final
class Notification(NamedTuple):
    """A message that is never answered."""

    method: str
    params: dict[str, Any]


@final
class Response(NamedTuple):
    """The answer to a request of the server: a result or an error object."""

    id: RequestId
    result: dict[str, Any] | None
    error: dict[str, Any] | None


Message = Request | Notification | Response


def decode(data: bytes | str) -> Any:
    """Return a JSON value; raise ParseError, also for NaN, Infinity, and too deep a nesting."""
    try:
        return from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise ParseError from error


def decode_received(data: bytes | str, max_values: int = MAX_VALUES) -> Any:
    """Return the JSON value that a peer sent, like ``decode``, if processing it costs little.

    Raises InvalidRequest for more than ``max_values`` JSON values, and Unprocessable for JSON that
    is grammatical and cannot be processed: a number beyond 64 bits, a string with half a surrogate
    pair, or too deep a nesting. Of integers beyond 64 bits, millions can share a hash value, so
    that a set of them takes hours to build; larger floats would be infinite.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    size = len(data)
    # A value and its separator take two bytes, so a message of fewer than ``2 * max_values`` bytes
    # has few enough values. They are counted before parsing only if the message has twice as many
    # bytes: up to there, parsing takes 5 ms at most.
    if size >= 4 * max_values:
        _check_number(data, max_values)
    try:
        # Looking for each value in the cache of recent strings takes half of the time, and would
        # keep values of one caller in it.
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        _check_number(data, max_values)
        raise _read_leniently(data) from error
    has_large_number = None
    if size >= _LARGE:
        # Where there are few values, looking at each takes less time than looking at each byte.
        few = min(size // _BYTES_OF_LARGE, max_values)
        has_large_number = _has_large_number(value, few)
    # A short message, or one of many values: its bytes are looked at first.
    if has_large_number is None:
        if 2 * max_values <= size < 4 * max_values:
            _check_number(data, max_values)
        zeros = data.translate(_DIGITS_AS_ZERO, _NOT_IN_NUMBERS)
        if _MANY_DIGITS in zeros or _EXPONENT in zeros:
            has_large_number = _has_large_number(value, size)
    if has_large_number:
        raise _unprocessable(LARGE_NUMBER, value)
    return value


def decode_messages(data: bytes | str) -> Any:
    """Return the message or the batch that a peer sent, like ``decode_received``.

    In a batch, an element that cannot be processed is Unreadable: the others are answered. Raises
    InvalidRequest for one with such an element and too many others.
    """
    try:
        return decode_received(data)
    except Unprocessable as error:
        if type(error.value) is not list:
            raise
        check_batch_size(error.value)
        return [
            item if _is_readable(item) else Unreadable(_unreadable_error(item))
            for item in error.value
        ]


def check_batch_size(values: Sequence[Any]) -> None:
    """Raise InvalidRequest if a batch has too many elements."""
    if len(values) > MAX_BATCH:
        raise InvalidRequest(f"A batch has at most {MAX_BATCH} messages")


class Unprocessable(InvalidRequest):
    """Grammatical JSON that cannot be processed, with the id if it is a message."""

    value: Any
    """The JSON: its numbers may be others."""


class Unreadable(NamedTuple):
    """A message that is grammatical JSON and cannot be processed, in a batch of others."""

    error: InvalidRequest


def _read_leniently(data: bytes) -> ParseError | Unprocessable:
    """Return the error for ``data`` that could not be parsed: it may be JSON all the same."""
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant, parse_int=_short_integer)
    except (ValueError, RecursionError):
        return ParseError()
    return _unreadable_error(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short_integer(digits: str) -> int:
    """The integer, or another one that is refused as well: long ones take long to convert."""
    is_long = len(digits.removeprefix("-")) > len(_MANY_DIGITS)
    return MAX_INTEGER if is_long else int(digits)


def _is_readable(value: Any) -> bool:
    try:
        decode(encode(value))
    except (ParseError, ValueError):
        return False
    return not _has_large_number(value, MAX_VALUES)


def _unreadable_error(message: Any) -> Unprocessable:
    try:
        encode(message)
    except ValueError as error:
        reason = LONE_SURROGATE if "surrogate" in str(error) else TOO_DEEP
        return _unprocessable(reason, message)
    is_large = _has_large_number(message, MAX_VALUES)
    return _unprocessable(LARGE_NUMBER if is_large else TOO_DEEP, message)


def _unprocessable(text: str, message: Any) -> Unprocessable:
    """Return the error with the id of the message, unless the id is such a value itself."""
    identity = message.get("id") if isinstance(message, dict) else None
    is_repeated = is_id(identity) and _is_readable(identity)
    error = Unprocessable(text, request_id=identity if is_repeated else None)
    error.value = message
    return error


LONE_SURROGATE = (
    "A string has half of a surrogate pair, such as \\ud83d without the other half: it is no "
    "character. Send whole characters"
)
TOO_DEEP = "The message is nested too deeply"
LARGE_NUMBER = "A number is beyond 64 bits: send it as a string"


def _check_number(data: bytes, limit: int) -> None:
    """Raise InvalidRequest for more JSON values than ``limit``."""
    # Each value but the first follows one of these characters.
    most = 1 + len(data) - len(data.translate(None, b",[{"))
    if most > limit and _has_more_values(data, limit):
        raise InvalidRequest(f"A message has at most {limit} JSON values")


_LARGE = 4096
"""The size in bytes of a large message. Its values are looked at one by one if they are few."""
_BYTES_OF_LARGE = 64
"""The average size of a value in a large message of few values."""
_MANY_TEXTS = 64
"""From this length on, ``join`` is the fastest way to look at a list."""
_TEXTS_AT_ONCE = 512
_MANY_DIGITS = b"0" * len(str(MAX_INTEGER))
"""The digits of a large integer, after ``_DIGITS_AS_ZERO``."""
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789E", b"0" * 9 + b"e")
_NOT_IN_NUMBERS = f"+{ascii_letters}".translate({ord("e"): None, ord("E"): None}).encode()
"""Removed before digits are looked for: a shorter text is searched in less time, and without its
plus sign an exponent is written in one way."""
_EXPONENT = b"0e000"
"""The exponent of a float beyond 64 bits, after ``_DIGITS_AS_ZERO``, unless it has many digits."""
_OTHERS_AS_ZERO = bytes(byte if byte in b'"[]{},' else ord("0") for byte in range(256))
"""A table for ``translate`` which keeps the punctuation of JSON, except colons."""
_CHUNK = 65_536
_CONTAINERS = frozenset({list, dict})
_LOOKED_AT = _CONTAINERS | {int, float}


def _has_more_values(data: bytes, limit: int) -> bool:
    """Whether JSON has more values: each but the first is an item, or follows a comma.

    It runs at the speed of C for any text: parsing millions of values takes a second.
    """
    if _commas_and_items(data) < limit:
        return False
    # Some of these bytes may be inside strings. Unless it is escaped, a quote begins or ends one.
    text = data.replace(rb"\\", b"0").replace(rb"\"", b"0").translate(_OTHERS_AS_ZERO, b" \t\n\r")
    if text.count(b'"') > 4 * limit:  # Two of each value at most, and two of its key.
        return True
    number = 0
    # Between quotes, the parts of a text are outside and inside strings by turns.
    starts_in_string = False
    for start in range(0, len(text), _CHUNK):
        parts = text[start : start + _CHUNK].split(b'"')
        first_outside = 1 if starts_in_string else 0
        outside_strings = parts[first_outside::2]
        number += _commas_and_items(b"0".join(outside_strings))
        has_odd_quotes = len(parts) % 2 == 0
        if has_odd_quotes:
            starts_in_string = not starts_in_string
    return number >= limit


def _commas_and_items(data: bytes) -> int:
    """Return the number of commas, and of lists and objects that are not empty."""
    empty = data.count(b"[]") + data.count(b"{}")
    return data.count(b",") + data.count(b"[") + data.count(b"{") - empty


def _has_large_number(value: Any, limit: int) -> bool | None:
    """Whether a number in ``value`` is too large; None if it has more values than ``limit``.

    Values are looked at level by level: first the outermost, then those inside it, and so on.
    """
    level = [value]
    number = 1
    while number <= limit:
        if _are_texts(level) or _LOOKED_AT.isdisjoint(map(type, level)):
            return False
        integers = [item for item in level if type(item) is int]
        if integers and not -MAX_INTEGER <= min(integers) <= max(integers) < MAX_INTEGER:
            return True
        floats = [item for item in level if type(item) is float]
        if not all(map(isfinite, floats)):
            return True
        level, number_on_level = inside(level)
        number += number_on_level
    return None


def inside(values: Sequence[Any]) -> tuple[list[Any], int]:
    """Return the items and members of those JSON values that have some, and their number.

    The strings of long lists of strings are counted but not returned: copying them would take
    longer than anything else here. A value that contains no others takes 20 ns, because ``map``
    and ``isdisjoint`` run at the speed of C.
    """
    contents: list[Any] = []
    number = 0
    if not (_are_texts(values) or _CONTAINERS.isdisjoint(map(type, values))):
        for value in values:
            kind = type(value)
            if kind is list:
                number += len(value)
                if not _are_texts(value):
                    contents += value
            elif kind is dict:
                number += len(value)
                contents += value.values()
    return contents, number


def _are_texts(values: Sequence[Any]) -> bool:
    """Whether there are many values, and all of them are strings.

    ``join`` fails at the first other one, and takes a fifth of the time of looking at each type.
    """
    count = len(values)
    if count < _MANY_TEXTS:
        return False
    try:
        # In parts, since memory for a long text would have to be fetched from the system.
        for start in range(0, count, _TEXTS_AT_ONCE):
            "".join(values[start : start + _TEXTS_AT_ONCE])
    except TypeError:
        return False
    return True


def encode(value: Any) -> bytes:
    """Return compact JSON without newlines; raise ValueError for a value that is not JSON."""
    return to_json(value, inf_nan_mode="null", fallback=json_fallback)


def is_id(value: Any, most: int = MAX_IDENTIFIER) -> TypeGuard[RequestId]:
    """Whether ``value`` may be an id: an integer, or a string of at most ``most`` characters."""
    return type(value) is int or (isinstance(value, str) and len(value) <= most)


NOT_AN_OBJECT = "A message is a JSON object"


def read(value: Any) -> Message:
    """Return the message in ``value``; raise InvalidRequest, with the id if it has one."""
    if type(value) is not dict:
        raise value.error if type(value) is Unreadable else InvalidRequest(NOT_AN_OBJECT)
    identity = value.get("id")
    if value.get("jsonrpc") != "2.0":
        raise _invalid('"jsonrpc" must be "2.0"', identity)
    if "method" not in value:
        return _read_response(value, identity)
    method = value["method"]
    params = value.get("params", {})
    if type(method) is not str:
        raise _invalid('"method" must be a string', identity)
    if len(method) > MAX_IDENTIFIER:
        raise _invalid(too_long('"method"', MAX_IDENTIFIER), identity)
    if type(params) is not dict:
        raise _invalid('"params" must be an object', identity)
    if "id" not in value:
        return Notification(method, params)
    if type(identity) is not int and not is_id(identity):
        raise _invalid_id(identity, MAX_IDENTIFIER)
    return new_tuple(Request, (identity, method, params))


new_tuple = tuple.__new__
"""Makes a named tuple of a tuple, without the function that would make that one."""


def _read_response(value: dict[str, Any], identity: Any) -> Response:
    result = value.get("result")
    error = value.get("error")
    if ("result" in value) == ("error" in value):
        raise _invalid('A message has a "method", a "result" or an "error"', identity)
    # The ids of the server's own requests are signed, and longer than ids of clients.
    if not is_id(identity, MAX_CURSOR):
        raise _invalid_id(identity, MAX_CURSOR)
    if "result" in value and type(result) is not dict:
        raise InvalidRequest('"result" must be an object')
    if "error" in value and not (
        type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str
    ):
        raise InvalidRequest('"error" must have an integer "code" and a string "message"')
    return Response(identity, result, error)


def _invalid(message: str, identity: Any) -> InvalidRequest:
    return InvalidRequest(message, request_id=identity if is_id(identity) else None)


def _invalid_id(identity: Any, most: int) -> InvalidRequest:
    if isinstance(identity, str):
        return InvalidRequest(too_long('"id"', most))
    return InvalidRequest('"id" must be a string or an integer')


def request(identity: RequestId, method: str, params: Json) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def notification(method: str, params: Json | None = None) -> dict[str, Any]:
    if params is None:
        return {"jsonrpc": "2.0", "method": method}
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(identity: RequestId, value: Json) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "result": value}


def error(identity: RequestId | None, value: Json) -> dict[str, Any]:
    """Return an error response as JSON; an unknown id is omitted, never null."""
    id_member = {} if identity is None else {"id": identity}
    return {"jsonrpc": "2.0", **id_member, "error": value}
