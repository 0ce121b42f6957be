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
    """A member of a result: a list of components."""

    json: bytes


PRE_ENCODED = frozenset({PreEncodedResult, PreEncodedList})


def has_encoded(result: dict[str, Any]) -> bool:
    """Return whether members of a result are JSON already."""
    return not PRE_ENCODED.isdisjoint(map(type, result.values()))


def plain(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as the client decodes it."""
    return from_json(b"{%b}" % b"".join(_members(result))) if has_encoded(result) else result


def encode_plain(value: Any) -> bytes | None:
    """Return the JSON of dicts, lists, strings, numbers, booleans and None; NaN becomes null.

    Return None where pydantic has to write it: for an integer beyond 64 bits.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None


def encode_structured(identity: Any, result: PreEncodedResult, tail: bytes) -> bytes:
    """Return the bytes of a response with structured content, and ``tail`` as its other members."""
    text, structure = result
    return b"".join(
        (
            b'{"jsonrpc":"2.0","id":',
            orjson.dumps(identity),
            b',"result":{"content":[{"type":"text","text":',
            orjson.dumps(text.decode()),
            b'}],"structuredContent":',
            structure,
            tail,
            b"}}",
        )
    )


def tail_of(result: dict[str, Any]) -> bytes:
    """Return the members of a result that follow its structured content, with their comma."""
    rest = {name: value for name, value in result.items() if name != "structuredContent"}
    return b"," + to_json(rest, fallback=json_fallback)[1:-1] if rest else b""


def encode(message: dict[str, Any]) -> bytes:
    """Return the bytes of a response with members that are JSON already."""
    return b"".join(
        (
            b'{"jsonrpc":"2.0","id":',
            to_json(message["id"]),
            b',"result":{',
            *_members(message["result"]),
            b"}}",
        )
    )


def _members(result: dict[str, Any]) -> list[bytes]:
    """Return the members of a result, without its braces, as parts to be joined once."""
    parts: list[bytes] = []
    rest: dict[str, Any] = {}
    for name, member in result.items():
        if type(member) is PreEncodedResult:
            parts += (*_structured(member), b",")
        elif type(member) is PreEncodedList:
            parts += (b'"%b":' % name.encode(), member.json, b",")
        else:
            rest[name] = member
    if rest:
        parts.append(to_json(rest, inf_nan_mode="null", fallback=json_fallback)[1:-1])
    else:
        parts.pop()
    return parts


def _structured(encoded: PreEncodedResult) -> tuple[bytes, ...]:
    return (
        b'"content":[{"type":"text","text":',
        orjson.dumps(encoded.text.decode()),
        b'}],"structuredContent":',
        encoded.structure,
    )
