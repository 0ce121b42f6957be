"""JSON Schemas that are recognized as valid without jsonschema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from django_mcp.core.protocol.schema.compiler import KEYWORDS, TYPES, is_usual
from tests.rows import rows

METASCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "1a", "#/$defs/a", *TYPES]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", *KEYWORDS]), inner, max_size=3),
    ),
    max_leaves=8,
)


@rows(
    "schema",
    [
        {},
        True,
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": False}},
        {"$defs": {"a": {"$anchor": "a", "enum": [1, "x"]}}, "items": {"$ref": "#/$defs/a"}},
        {"required": ["a", "b"], "minLength": 0, "maximum": 1.5, "uniqueItems": True},
        {"anyOf": [{"const": None}], "if": {"not": True}, "then": {"default": {"any": "thing"}}},
    ],
)
def test_usual_schema_is_recognized_as_usual(schema: Any) -> None:
    assert is_usual(schema)


@rows(
    "schema",
    [
        None,
        [],
        {"type": "text"},
        {"type": []},
        {"type": ["string", "string"]},
        {"type": [{}]},
        {"properties": []},
        {"properties": {"a": {"type": "text"}}},
        {"required": "a"},
        {"required": ["a", "a"]},
        {"required": [[]]},
        {"minLength": -1},
        {"minLength": True},
        {"maximum": "1"},
        {"allOf": []},
        {"allOf": {}},
        {"enum": "a"},
        {"$anchor": "1a"},
        {"uniqueItems": 1},
    ],
)
def test_invalid_schema_is_not_recognized_as_usual(schema: Any) -> None:
    assert not is_usual(schema)
    assert not METASCHEMA.is_valid(schema)


@rows("schema", [{"x-own": 1}, {"multipleOf": 2}, {"minLength": 1.0}])
def test_valid_schema_with_rare_keywords_is_not_recognized(schema: Any) -> None:
    assert not is_usual(schema)
    assert METASCHEMA.is_valid(schema)


@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
@given(data=st.data())
def test_usual_schema_is_always_valid_in_the_metaschema(keyword: str, data: st.DataObject) -> None:
    schema = {keyword: data.draw(VALUES)}
    assert METASCHEMA.is_valid(schema) or not is_usual(schema)
