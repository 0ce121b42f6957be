"""Examples of values that a JSON Schema describes."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from django_mcp.core.protocol.schema.examples import example_of

TEXT = {"type": "string"}
NODE: dict[str, Any] = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": TEXT, "parent": {"$ref": "#/$defs/Node"}},
            "required": ["name", "parent"],
        }
    },
    "$ref": "#/$defs/Node",
}


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"type": "integer"}, 1),
        ({"type": "number", "minimum": 0.5}, 0.5),
        ({"type": "boolean"}, True),
        (TEXT, "…"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": ["null", "integer"]}, 1),
        ({"type": "null"}, None),
        ({"enum": ["open", "closed"]}, "open"),
        ({"const": "open"}, "open"),
        ({"type": "integer", "default": 7}, 7),
        ({"type": "integer", "default": 7, "examples": [8, 9]}, 8),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1),
        ({"type": "array", "items": TEXT}, ["…"]),
        ({"type": "array"}, []),
        ({"type": "object"}, {}),
        ({}, None),
    ],
)
def test_example_is_of_the_type(schema: dict[str, Any], example: Any) -> None:
    assert example_of(schema) == example
    Draft202012Validator(schema).validate(example)


def test_example_has_the_members_that_are_required_or_have_one() -> None:
    members = {"name": TEXT, "note": TEXT, "size": {"type": "integer", "examples": [3]}}
    schema = {"type": "object", "properties": members, "required": ["name"]}
    assert example_of(schema) == {"name": "…", "size": 3}


def test_example_of_a_schema_that_refers_to_itself_ends() -> None:
    example = example_of(NODE)
    assert example["name"] == "…"
    assert "parent" in example["parent"]


@pytest.mark.parametrize("reference", ["#/$defs/Missing", "https://example.com/schema", 5])
def test_reference_that_leads_nowhere_has_no_example(reference: Any) -> None:
    assert example_of({"$ref": reference}) is None
