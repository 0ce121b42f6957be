"""The schemas of forms: a small subset of JSON Schema (client/elicitation, "Requested schema")."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

Schema = Mapping[str, Any]
Property = dict[str, Any]

KEYWORDS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"type", "minLength", "maxLength", "format", "enum", "enumNames", "oneOf"}),
    "number": frozenset({"type", "minimum", "maximum"}),
    "integer": frozenset({"type", "minimum", "maximum"}),
    "boolean": frozenset({"type"}),
    "array": frozenset({"type", "items", "minItems", "maxItems"}),
}
"""The keywords of a property of each type, besides the keywords of every property."""

COMMON = frozenset({"title", "description", "default"})
FORMATS = frozenset({"email", "uri", "date", "date-time"})


def to_form_schema(schema: Schema) -> dict[str, Any]:
    """Return the schema of a form for ``schema``; raise ValueError if a form cannot have it.

    References are resolved. A property that may be null becomes an optional one.
    """
    definitions = schema.get("$defs", {})
    members = schema.get("properties", {}).items()
    properties = {name: _property(name, member, definitions) for name, member in members}
    form = {"type": "object", "properties": properties}
    required = [name for name in schema.get("required", ()) if name in properties]
    return {**form, "required": required} if required else form


def _property(name: str, member: Schema, definitions: Schema) -> Property:
    resolved = _resolved(member, definitions)
    if resolved.get("writeOnly") or resolved.get("format") == "password":
        problem = "is a secret, which must not pass through the client (ELIC-03)"
        raise ValueError(f"{name!r} {problem}: send the user to a page with elicit_url")
    kind = str(resolved.get("type"))
    choices = {}
    if kind == "array":
        listed = resolved.get("items", {})
        items = {**_definition(listed.get("$ref"), definitions), **listed}
        if "anyOf" in items:
            choices = {"anyOf": items["anyOf"]}
        elif "enum" in items:
            choices = {"type": "string", "enum": items["enum"]}
    if kind not in KEYWORDS or (kind == "array" and not choices):
        types = "strings, numbers, booleans, or choices of strings"
        raise ValueError(f"{name!r} cannot be a field of a form: use {types}")
    allowed = KEYWORDS[kind] | COMMON
    kept = {key: value for key, value in resolved.items() if key in allowed and value is not None}
    if kept.get("format") not in FORMATS:
        kept.pop("format", None)
    return {**kept, "items": choices} if choices else kept


def _resolved(member: Schema, definitions: Schema) -> dict[str, Any]:
    """Return the member without its reference, and without a null beside its only type."""
    outer = dict(member)
    options = [each for each in outer.pop("anyOf", ()) if each.get("type") != "null"]
    inner: Schema = options[0] if len(options) == 1 else {}
    reference = outer.pop("$ref", None) or inner.get("$ref")
    merged = {**_definition(reference, definitions), **inner, **outer}
    merged.pop("$ref", None)
    if "const" in merged and "enum" not in merged:
        merged["enum"] = [merged.pop("const")]
    kinds = merged.get("type")
    others = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else []
    if len(others) == 1:
        merged["type"] = others[0]
    if None in merged.get("enum", ()):
        merged["enum"] = [value for value in merged["enum"] if value is not None]
    return merged


def _definition(reference: Any, definitions: Schema) -> Schema:
    definition: Schema = definitions.get(str(reference).removeprefix("#/$defs/"), {})
    return definition if reference else {}


def to_legacy_form_schema(schema: Schema) -> dict[str, Any]:
    """Return the form for clients that support single choices only as ``enum``/``enumNames``.

    They have defaults only for booleans, and no multiple choices (see ``has_several_choices``).
    """
    properties = {}
    for name, member in schema["properties"].items():
        dropped = {"oneOf"} if member["type"] == "boolean" else {"oneOf", "default"}
        kept = {key: value for key, value in member.items() if key not in dropped}
        if choices := member.get("oneOf"):
            kept["enum"] = [choice["const"] for choice in choices]
            kept["enumNames"] = [choice.get("title", choice["const"]) for choice in choices]
        properties[name] = kept
    return {**schema, "properties": properties}


def has_several_choices(schema: Schema) -> bool:
    """Whether a property is a multiple choice, which older revisions do not support."""
    return any(member["type"] == "array" for member in schema["properties"].values())


def url_elicitation_params(url: str, message: str, identity: str | None = None) -> dict[str, Any]:
    """Return the parameters of a URL elicitation; raise ValueError for a relative URL."""
    parts = urlsplit(url)
    if not (parts.scheme and parts.netloc):
        raise ValueError(f"{url!r} is not an absolute URL: write https://…")
    identity = identity or secrets.token_urlsafe(16)
    return {"mode": "url", "elicitationId": identity, "url": url, "message": message}
