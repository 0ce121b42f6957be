"""What a form may hold: a flat object of texts, numbers, yes or no, and choices.

Clients draw forms themselves, so a schema for one is much less than JSON Schema
(specification, client/elicitation, "Requested schema").
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from django_mcp.protocol.errors import Json

Property = dict[str, Any]

MEMBERS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"type", "minLength", "maxLength", "format", "enum", "enumNames", "oneOf"}),
    "number": frozenset({"type", "minimum", "maximum"}),
    "integer": frozenset({"type", "minimum", "maximum"}),
    "boolean": frozenset({"type"}),
    "array": frozenset({"type", "items", "minItems", "maxItems"}),
}
"""What a property of each type may say, besides what every property may."""

COMMON = frozenset({"title", "description", "default"})
FORMATS = frozenset({"email", "uri", "date", "date-time"})


def to_form_schema(schema: Json) -> dict[str, Any]:
    """The form which ``schema`` asks for; raises ValueError for what a form cannot hold.

    References are resolved and null is left out: a property that may be null is optional.
    """
    definitions = schema.get("$defs", {})
    properties = {
        name: _property(name, member, definitions)
        for name, member in schema.get("properties", {}).items()
    }
    form = {"type": "object", "properties": properties}
    required = [name for name in schema.get("required", ()) if name in properties]
    return {**form, "required": required} if required else form


def _property(name: str, member: Json, definitions: Json) -> Property:
    resolved = _resolved(member, definitions)
    if resolved.get("writeOnly") or resolved.get("format") == "password":
        raise ValueError(
            f"{name!r} is a secret, which must not pass through the client (ELIC-03): send the "
            "user to a page with elicit_url"
        )
    kind = str(resolved.get("type"))
    if kind not in MEMBERS or (kind == "array" and not _offers(resolved, definitions)):
        raise ValueError(
            f"{name!r} cannot be asked in a form, which is flat: ask for texts, numbers, "
            "booleans, or choices among texts"
        )
    known = MEMBERS[kind] | COMMON
    told = {key: value for key, value in resolved.items() if key in known and value is not None}
    if told.get("format") not in FORMATS:
        told.pop("format", None)
    if kind == "array":
        told["items"] = _items(resolved["items"], definitions)
    return told


def _resolved(member: Json, definitions: Json) -> dict[str, Any]:
    """The member without a reference, and without the null beside its one type."""
    outer = dict(member)
    options = [each for each in outer.pop("anyOf", ()) if each.get("type") != "null"]
    inner: Json = options[0] if len(options) == 1 else {}
    reference = outer.pop("$ref", None) or inner.get("$ref")
    named: Json = definitions.get(str(reference).removeprefix("#/$defs/"), {}) if reference else {}
    merged = {**named, **inner, **outer}
    merged.pop("$ref", None)
    if "const" in merged and "enum" not in merged:
        merged["enum"] = [merged.pop("const")]
    return merged


def _offers(array: Json, definitions: Json) -> bool:
    return bool(_items(array.get("items", {}), definitions))


def _items(items: Json, definitions: Json) -> Property:
    resolved = {**_named(items, definitions), **items}
    if "anyOf" in resolved:
        return {"anyOf": resolved["anyOf"]}
    return {"type": "string", "enum": resolved["enum"]} if "enum" in resolved else {}


def _named(member: Json, definitions: Json) -> Json:
    named: Json = definitions.get(str(member.get("$ref", "")).removeprefix("#/$defs/"), {})
    return named


def to_legacy_form_schema(schema: Json) -> dict[str, Any]:
    """The same form for clients that know single choices by ``enum`` and ``enumNames`` alone.

    They have no defaults but for booleans, and no choice of several (see ``has_several_choices``).
    """
    properties = {name: _legacy_property(member) for name, member in schema["properties"].items()}
    return {**schema, "properties": properties}


def _legacy_property(member: Property) -> Property:
    told = {key: value for key, value in member.items() if key not in ("oneOf", "default")}
    if member["type"] == "boolean" and "default" in member:
        told["default"] = member["default"]
    if "oneOf" in member:
        told |= _enumerated(member["oneOf"])
    return told


def _enumerated(choices: Sequence[Json]) -> Property:
    return {
        "enum": [choice["const"] for choice in choices],
        "enumNames": [choice.get("title", choice["const"]) for choice in choices],
    }


def has_several_choices(schema: Json) -> bool:
    """Whether a property is a choice of several, which older revisions cannot ask."""
    return any(member["type"] == "array" for member in schema["properties"].values())


def url_elicitation_params(url: str, message: str, identity: str | None = None) -> dict[str, Any]:
    """What asks for a visit to a page; raises ValueError for what is no address of one."""
    parts = urlsplit(url)
    if not (parts.scheme and parts.netloc):
        raise ValueError(f"{url!r} is no page: give a whole address, https://…")
    identity = identity or secrets.token_urlsafe(16)
    return {"mode": "url", "elicitationId": identity, "url": url, "message": message}
