"""Schemas as tables of parameters."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.core.protocol.schema import parameters
from django_mcp.core.protocol.schema.parameters import MAX_DEPTH, Parameter


def row(schema: dict[str, Any], **root: Any) -> Parameter:
    """The row of one property with this schema."""
    (only,) = parameters.of_schema({"properties": {"it": schema}, **root})
    return only


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"enum": ["open", "closed"]}, '"open" or "closed"'),
        ({"const": 1}, "1"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"type": "array"}, "list"),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, '"a" or null'),
        ({}, "any"),
        ({"enum": [*range(20)]}, " or ".join([*map(str, range(12)), "…"])),
    ],
)
def test_type_is_said_in_words(schema: dict[str, Any], text: str) -> None:
    assert row(schema).type == text


def test_row_has_default_description_limits_and_whether_it_is_required() -> None:
    schema = {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "Rows"}
    assert row(schema, required=["it"]) == Parameter(
        "it", "integer", True, "10", "Rows", "at least 1, at most 50"
    )


def test_limit_of_one_is_in_the_singular() -> None:
    limits = row({"type": "string", "minLength": 1, "maxLength": 500}).limits
    assert limits == "at least 1 character, at most 500 characters"


def test_objects_and_lists_have_rows_for_their_members() -> None:
    line = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    schema = {
        "$defs": {"Line": line},
        "properties": {
            "address": {"type": "object", "properties": {"city": {"type": "string"}}},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            "first": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]},
        },
    }
    rows = {item.name: item for item in parameters.of_schema(schema)}
    assert [*rows] == [
        "address",
        "address.city",
        "lines",
        "lines[].amount",
        "first",
        "first.amount",
    ]
    assert rows["lines[].amount"].is_required
    assert rows["first"].type == "object or null"


def test_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Node"}}}
    tree = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}]}
    schema = {
        "$defs": {"Node": node, "Tree": tree},
        "properties": {"top": {"$ref": "#/$defs/Node"}},
    }
    names = [item.name for item in parameters.of_schema(schema)]
    assert names == ["top" + ".child" * depth for depth in range(MAX_DEPTH)]
    assert "…" in row({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": tree}}).type


def test_list_of_objects_as_a_result_has_rows() -> None:
    schema = {"type": "array", "items": {"properties": {"number": {"type": "integer"}}}}
    assert [item.name for item in parameters.of_schema(schema)] == ["[].number"]
