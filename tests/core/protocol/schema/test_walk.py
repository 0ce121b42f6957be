"""The subschemas of a JSON Schema, and their locations."""

from __future__ import annotations

from django_mcp.core.protocol.schema import walk


def test_subschemas_yields_every_subschema_with_its_location() -> None:
    schema = {
        "properties": {"a": {"items": {"x": 1}}, "properties": {"not": {}}},
        "allOf": [{}, True, {"prefixItems": [{}]}],
        "dependencies": {"a": ["b"], "b": {}},
        "default": {"properties": {"no": {}}},
        "enum": [{"not": {}}],
        "if": False,
    }
    assert [position.location for position in walk.subschemas(schema)] == [
        (),
        ("properties", "a"),
        ("properties", "a", "items"),
        ("properties", "properties"),
        ("properties", "properties", "not"),
        ("allOf", 0),
        ("allOf", 2),
        ("allOf", 2, "prefixItems", 0),
        ("dependencies", "b"),
    ]
