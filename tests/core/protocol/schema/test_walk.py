"""The subschemas of a JSON Schema, their locations, and the places to which references lead."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.core.protocol.schema import walk

DOCUMENT = {
    "$defs": {"Line": {"type": "object"}, "a/b": {"title": "slash"}, "m~n": {"title": "tilde"}},
    "lines": [{}],
}


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


@pytest.mark.parametrize("name", ["plain", "a/b", "m~n", "~1", "", "ü"])
def test_name_survives_its_step(name: str) -> None:
    assert walk.names_of(walk.step(name)) == [name]


def test_pointer_has_the_names_on_its_way() -> None:
    assert walk.names_of("/lines/0/a~1b") == ["lines", "0", "a/b"]
    assert walk.names_of("") == []
    assert walk.step(3) == "/3"


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", DOCUMENT),
        ("#/$defs/Line", {"type": "object"}),
        ("#/$defs/a~1b", {"title": "slash"}),
        ("#/$defs/m~0n", {"title": "tilde"}),
        ("#/$defs/Unknown", {}),
        ("#/lines/0", {}),
        ("#/lines", {}),
        ("other.json#/$defs/Line", {}),
        (7, {}),
    ],
)
def test_reference_leads_to_an_object_of_the_document(reference: Any, found: Any) -> None:
    assert walk.target(DOCUMENT, reference) == found
