"""Parts of a result that are JSON already and are not encoded again.

Structured content is sent twice: as structured content, and as text for clients that read only
text (TOOL-08). Lists of components are encoded once for all clients that are sent the same.

orjson writes values that JSON has itself in a quarter of the time of pydantic's writer. It knows
neither models nor what pydantic makes of other types. Both write the same bytes, or orjson refuses
the value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
from pydantic_core import from_json, to_json

from django_mcp.core.protocol.texts import json_fallback


class PreEncodedResult(NamedTuple):
    """The structured content of a result that has no ``content`` yet."""

    text: bytes
    """The JSON that is sent as text."""
    structure: bytes
    """The JSON that is sent as structured content: the same, or an object that contains it."""


class PreEncodedList(NamedTuple):
    """A list of components: a member of a result, or a whole result without a next page."""

    member: str
    json: bytes


HEAD = b'{"jsonrpc":"2.0","id":'
RESULT = b',"result":{'
CONTENT = b'"content":[{"type":"text","text":'
STRUCTURE = b'}],"structuredContent":'
PRE_ENCODED = frozenset({PreEncodedResult, PreEncodedList})


def has_encoded(result: dict[str, Any]) -> bool:
    """Return whether members of a result are JSON already."""
    return not PRE_ENCODED.isdisjoint(map(type, result.values()))


def plain(result: dict[str, Any] | PreEncodedList) -> dict[str, Any]:
    """Return a result as the client decodes it."""
    if isinstance(result, PreEncodedList):
        result = {result.member: result}
    return from_json(b"{%b}" % b"".join(_members(result))) if has_encoded(result) else result


def encode_plain(value: Any) -> bytes | None:
    """Return the JSON of dicts, lists, strings, numbers, booleans and None; NaN becomes null.

    Return None where pydantic has to write it: for an integer beyond 64 bits.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None


def encode_whole(identity: Any, result: PreEncodedResult | PreEncodedList, tail: bytes) -> bytes:
    """Return the bytes of a response with this result, and ``tail`` as its other members."""
    if isinstance(result, PreEncodedList):
        members = _listed(result.member, result)
    else:
        members = _structured(result)
    return b"".join((HEAD, orjson.dumps(identity), RESULT, *members, tail, b"}}"))


def tail_of(result: dict[str, Any], member: str) -> bytes:
    """Return the members of a result that follow the one which is encoded, with their comma."""
    rest = {name: value for name, value in result.items() if name != member}
    return b"," + to_json(rest, fallback=json_fallback)[1:-1] if rest else b""


def encode(message: dict[str, Any]) -> bytes:
    """Return the bytes of a response with members that are JSON already."""
    members = _members(message["result"])
    return b"".join((HEAD, to_json(message["id"]), RESULT, *members, b"}}"))


def _members(result: dict[str, Any]) -> list[bytes]:
    """Return the members of a result, without its braces, as parts to be joined once."""
    parts: list[bytes] = []
    rest: dict[str, Any] = {}
    for name, member in result.items():
        if type(member) is PreEncodedResult:
            parts += (*_structured(member), b",")
        elif type(member) is PreEncodedList:
            parts += (*_listed(name, member), b",")
        else:
            rest[name] = member
    if rest:
        parts.append(to_json(rest, inf_nan_mode="null", fallback=json_fallback)[1:-1])
    else:
        parts.pop()
    return parts


def _structured(encoded: PreEncodedResult) -> tuple[bytes, ...]:
    return (CONTENT, orjson.dumps(encoded.text.decode()), STRUCTURE, encoded.structure)


def _listed(name: str, encoded: PreEncodedList) -> tuple[bytes, ...]:
    return (b'"%b":' % name.encode(), encoded.json)
