"""JSON pointers (RFC 6901), which name a place in a document: ``/lines/0/number``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.core.protocol.errors import Json


def step(name: str | int) -> str:
    """Return the part of a pointer that leads to a member or an item."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def name_of(part: str) -> str:
    """Return the member's name for a part of a pointer, given without its slash."""
    return part.replace("~1", "/").replace("~0", "~")


def names_of(pointer: str) -> list[str]:
    """Return the names of all members on the way of a pointer."""
    return [name_of(part) for part in pointer.split("/")[1:]]


def target(document: Json, reference: Any) -> Json:
    """Return the object that a reference such as ``#/$defs/Line`` points to.

    It is empty for a reference that leads to something else, or out of the document.
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    place: Any = document
    for name in names_of(reference):
        place = place.get(name) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def resolved(schema: Any, document: Json) -> Json:
    """Return a schema without its reference: with the members of the target beside its own."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" not in schema:
        return schema
    own = {key: value for key, value in schema.items() if key != "$ref"}
    return {**target(document, schema["$ref"]), **own}
