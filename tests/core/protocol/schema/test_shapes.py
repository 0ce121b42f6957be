"""Schemas of a value or null, and of one of some choices."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from django_mcp.core.protocol.schema.shapes import (
    Choices,
    accepts_null,
    or_null,
    without_list_of_types,
)
from django_mcp.runtime.django_types.field_types import labels_of
from tests.rows import rows

STRING = {"type": "string"}
NULL = {"type": "null"}
ONE_OF = {"type": "integer", "oneOf": [{"const": 1, "title": "One"}]}

NULLABLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "string", "maxLength": 3}, {"type": ["string", "null"], "maxLength": 3}),
    ({"type": "array", "items": STRING}, {"anyOf": [{"type": "array", "items": STRING}, NULL]}),
    ({"title": "A", "type": "object"}, {"title": "A", "anyOf": [{"type": "object"}, NULL]}),
    (ONE_OF, {"anyOf": [ONE_OF, NULL]}),
    ({"enum": ["a"]}, {"anyOf": [{"enum": ["a"]}, NULL]}),
    ({"type": "string", "enum": ["a"]}, {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]}),
    (
        {"type": "string", "enum": ["a", None]},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
    ),
    ({"anyOf": [STRING, {"type": "number"}]}, {"anyOf": [STRING, {"type": "number"}, NULL]}),
    ({"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/A"}, NULL]}),
    ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
    ({"enum": ["a", None]}, {"enum": ["a", None]}),
    ({"anyOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
    ({}, {}),
    ({"description": "Anything"}, {"description": "Anything"}),
]


@rows(("given", "wanted"), NULLABLE)
def test_nullable_schema_accepts_null_and_nothing_else_more(
    given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert or_null(given) == wanted
    assert accepts_null(wanted)
    definitions = {"$defs": {"A": STRING}}
    before = Draft202012Validator({**definitions, **given})
    after = Draft202012Validator({**definitions, **wanted})
    assert after.is_valid(None)
    values: list[Any] = ["a", "abcd", 1, 2, 1.5, True, [], ["a"], [1], {}]
    for value in values:
        assert after.is_valid(value) == before.is_valid(value), value


@pytest.mark.parametrize("schema", [ONE_OF, {"type": ["integer", "null"], **ONE_OF}, False, STRING])
def test_schema_that_rejects_null_is_not_nullable(schema: Any) -> None:
    nullable = {**schema, "type": ["integer", "null"]} if schema is ONE_OF else schema
    assert not accepts_null(nullable)


def test_list_of_types_with_an_array_becomes_alternatives() -> None:
    schema = {"description": "Tags", "type": ["array", "null"], "items": STRING}
    assert without_list_of_types(schema) == {
        "description": "Tags",
        "anyOf": [{"type": "array", "items": STRING}, NULL],
    }
    assert without_list_of_types({"type": ["string", "null"]}) == {"type": ["string", "null"]}


CHOICES: list[tuple[list[Any], list[Any], Any]] = [
    ([("", "-"), (None, "-"), ("a", "A"), ("a", "Again")], ["a"], "string"),
    ([(1, "One"), (2, "Two"), (True, "Yes")], [1, 2, True], ["boolean", "integer"]),
    ([(1, "One"), ("x", "X")], [1, "x"], ["integer", "string"]),
]


@rows(("pairs", "values", "kind"), CHOICES)
def test_choices_have_a_type_and_neither_an_empty_one_nor_doubles(
    pairs: list[Any], values: list[Any], kind: Any
) -> None:
    choices = Choices.of(pairs)
    assert [*choices.values] == values
    assert choices.schema() == {"type": kind, "enum": values}
    Draft202012Validator.check_schema(choices.schema())
    assert choices.schema(may_be_blank=True)["enum"] == [*values, ""]


def test_labels_are_told_where_they_say_more_than_the_values() -> None:
    assert labels_of(Choices.of([("a", "A")])) == ""
    assert labels_of(Choices.of([("a", "Apple"), ("{b}", "B")])) == "a: Apple; {b}: B"
