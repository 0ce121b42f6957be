"""JSON Schema: compilation, validation errors, and conversion."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.core.protocol.schema import compiler
from django_mcp.core.protocol.schema import validator as schema_validator
from django_mcp.core.protocol.schema.walk import MAX_DEPTH, MAX_SUBSCHEMAS
from tests.rows import rows
from tests.spec import spec

TOOL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "colour": {"enum": ["red", "green"]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "code": {"type": "string", "pattern": "^[A-Z]+$"},
        "address": {"type": "object", "required": ["street"]},
        "pet": {"$ref": "#/$defs/pet"},
        "either": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        "shape": {
            "anyOf": [
                {"type": "object", "properties": {"radius": {"type": "number"}}},
                {"type": "array", "items": {"type": "number"}},
            ]
        },
        "odd key": {"type": "string"},
        "pair": {"prefixItems": [{}, {}], "items": False},
        "never": False,
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"pet": {"type": "object", "properties": {"name": {"const": "Rex"}}}},
}

VALID_INSTANCES: list[dict[str, Any]] = [
    {"name": "x"},
    {"name": "x", "age": 3, "colour": "red", "size": None, "tags": ["a", "b"], "code": "AB"},
    {"name": "x", "age": 3.0, "size": 1, "pet": {"name": "Rex"}, "either": 1.5},
    {"name": "x", "shape": {"radius": 1}, "odd key": ""},
    {"name": "x", "shape": [1, 2.5]},
]

PROBLEMS: list[tuple[Any, list[str]]] = [
    ({}, ["arguments: 'name' is a required property"]),
    ({"name": 1}, ["name: 1 is not of type 'string'"]),
    ({"name": ""}, ["name: '' should be non-empty"]),
    ({"name": "x", "age": "x"}, ["age: 'x' is not of type 'integer'"]),
    ({"name": "x", "age": True}, ["age: True is not of type 'integer'"]),
    ({"name": "x", "age": -1}, ["age: -1 is less than the minimum of 0"]),
    ({"name": "x", "colour": 1}, ["colour: 1 is not one of ['red', 'green']"]),
    ({"name": "x", "size": "x"}, ["size: 'x' is not of type 'integer' or 'null'"]),
    ({"name": "x", "tags": ["a", 1]}, ["tags.1: 1 is not of type 'string'"]),
    (
        {"name": "x", "tags": ["a", "a"]},
        ["tags: ['a', 'a'] has the same element more than once"],
    ),
    ({"name": "x", "code": "AB\n"}, ["code: 'AB\\n' does not match '^[A-Z]+$'"]),
    ({"name": "x", "address": {}}, ["address: 'street' is a required property"]),
    ({"name": "x", "pet": {"name": "Tom"}}, ["pet.name: 'Tom' is not 'Rex'"]),
    (
        {"name": "x", "either": 1},
        ["either: 1 fits more than one of the alternatives, which exclude each other"],
    ),
    ({"name": "x", "either": "1"}, ["either: '1' is not of type 'integer' or 'number'"]),
    (
        {"name": "x", "shape": {"radius": "1"}},
        ["shape.radius: '1' is not of type 'number'"],
    ),
    ({"name": "x", "odd key": 1}, ["'odd key': 1 is not of type 'string'"]),
    ({"name": "x", "never": 1}, ["arguments: 'never' is not allowed"]),
    ({"name": "x", "zz": 1}, ["arguments: Additional properties are not allowed: 'zz'"]),
    ([], ["arguments: [] is not of type 'object'"]),
    (None, ["arguments: None is not of type 'object'"]),
    (
        {"age": "x", "zz": 1},
        [
            "age: 'x' is not of type 'integer'",
            "arguments: 'name' is a required property",
            "arguments: Additional properties are not allowed: 'zz'",
        ],
    ),
]


@rows("instance", VALID_INSTANCES)
def test_valid_instance_has_no_errors(instance: dict[str, Any]) -> None:
    validator = compiler.compile(TOOL)
    assert validator.errors(instance) == []
    assert validator.problems(instance) == ""


@rows(("instance", "sentences"), PROBLEMS)
def test_invalid_instance_is_reported_with_path_and_reason(
    instance: Any, sentences: list[str]
) -> None:
    validator = compiler.compile(TOOL)
    assert validator.errors(instance) == sentences
    assert validator.problems(instance) == "; ".join(sentences)


def test_error_path_starts_with_the_given_name() -> None:
    validator = compiler.compile({"type": "array", "items": {"type": "integer"}})
    assert validator.problems(["x"], name="result") == "result.0: 'x' is not of type 'integer'"


def test_only_the_first_errors_are_reported() -> None:
    validator = compiler.compile({"type": "array", "items": {"type": "integer"}})
    first = [f"{index}: 'x' is not of type 'integer'" for index in range(5)]
    assert validator.errors(["x"] * 5) == first
    assert validator.errors(["x"] * 1000) == [*first, "and more"]


LONG = "secret" * 1000

LONG_VALUES: list[tuple[dict[str, Any], str]] = [
    (
        {"name": "x", "age": LONG},
        "age: a text of 6000 characters is not of type 'integer'",
    ),
    ({"name": "x", "colour": LONG}, "a text of 6000 characters is not one of"),
    ({"name": "x", "code": LONG}, "a text of 6000 characters does not match"),
    ({"name": "x", "age": [LONG]}, "a list of 1 is not of type"),
    ({"name": "x", "age": {"a": LONG}}, "an object of 1 is not of type"),
    ({"name": "x", "never": {"a": LONG}}, "'never' is not allowed"),
    ({"name": "x", "pair": [1, 2, LONG]}, "pair: a list of 3 does not fit items"),
    ({"name": "x", LONG: 1}, "not allowed: a text of 6000 characters"),
    ({"name": "x", "code": 10**100}, "a long value is not of type"),
]


@rows(("instance", "sentence"), LONG_VALUES)
def test_error_messages_do_not_repeat_long_values(instance: dict[str, Any], sentence: str) -> None:
    problems = compiler.compile(TOOL).problems(instance)
    assert sentence in problems
    assert "secretsecret" not in problems


def test_error_message_is_truncated_at_its_maximum_length() -> None:
    validator = compiler.compile({"enum": ["x" * 1000]})
    (sentence,) = validator.errors(1)
    assert len(sentence) == schema_validator.MAX_SENTENCE
    assert sentence.endswith("…")


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"kids": [value]}
    return value


TREE = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}},
}


def test_recursive_schema_validates_nested_values() -> None:
    validator = compiler.compile(TREE)
    assert validator.problems(nested(20)) == ""
    assert validator.problems({"kids": [{"kids": [{"n": "x"}]}]}) == (
        "kids.0.kids.0.n: 'x' is not of type 'integer'"
    )


@rows(
    ("schema", "instance"),
    [
        (TREE, nested(5000)),
        ({"properties": {"n": {"multipleOf": 0.5}}}, {"n": 10**400}),
        ({"properties": {"n": {"type": "string"}}}, {"n": 10**5000}),
    ],
)
def test_instance_that_cannot_be_checked_is_rejected(schema: Any, instance: Any) -> None:
    assert compiler.compile(schema).problems(instance).startswith("arguments: cannot be checked")


DIALECTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2020-12/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]


@spec("JSCH-02")
@rows("dialect", DIALECTS)
def test_schema_is_compiled_in_its_declared_dialect(dialect: str) -> None:
    schema = {
        "$schema": dialect,
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/code"}, "self": {"$ref": "#"}},
        "definitions": {"code": {"type": "string", "pattern": r"^\p{Lu}+$"}},
    }
    validator = compiler.compile(schema)
    assert validator.schema == schema
    assert validator.dialect == dialect.removesuffix("#")
    assert validator.problems({"a": "É"}) == ""
    # Our keywords also apply where the root, which names the dialect, is referenced.
    assert validator.problems({"self": {"self": {"a": "é"}}}) == (
        "self.self.a: 'é' does not match '^\\\\p{Lu}+$'"
    )


@spec("JSCH-04", "2026/SCH-02")
@rows(
    ("dialect", "instance", "fits"),
    [
        (DIALECTS[0], [1, "x"], True),
        (DIALECTS[0], ["x", 1], False),
        (DIALECTS[3], ["x", 1], True),
    ],
)
def test_prefix_items_is_ignored_in_dialects_that_do_not_define_it(
    dialect: str, instance: list[Any], fits: bool
) -> None:
    schema = {"$schema": dialect, "prefixItems": [{"type": "integer"}]}
    assert (compiler.compile(schema).problems(instance) == "") is fits


@spec("JSCH-01", "2026/SCH-01")
def test_default_dialect_is_2020_12_and_format_is_not_enforced() -> None:
    validator = compiler.compile({"type": "string", "format": "email"})
    assert validator.dialect == compiler.DEFAULT_DIALECT == DIALECTS[0]
    assert validator.problems("no address") == ""


def chain(length: int) -> dict[str, Any]:
    """Definitions that each refer to the next one."""
    defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$defs": {**defs, f"d{length}": {}}, "$ref": "#/$defs/d0"}


def exponential_references() -> dict[str, Any]:
    """Definitions that each refer to the next one twice: twenty of them expand to a million."""
    defs: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(20)
    }
    return {"$defs": {**defs, "d20": {}}, "$ref": "#/$defs/d0"}


def deep(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth - 1):
        schema = {"properties": {"a": schema}}
    return schema


CYCLE: dict[str, Any] = {}
CYCLE["not"] = CYCLE

UNUSABLE_SCHEMAS: list[tuple[Any, str]] = [
    ({"type": "strin"}, "Not a valid JSON Schema: schema.type: 'strin' is not valid"),
    ({"required": "a"}, "schema.required: 'a' is not of type 'array'"),
    ({"properties": {"a": {"minimum": "1"}}}, "schema.properties.a.minimum: '1' is not of type"),
    ({"properties": {"a": 1}}, "schema.properties.a: 1 is not of type"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "draft-03.*is not supported"),
    ({"$schema": "https://example.com/mine"}, "is not supported; these are: .*2020-12"),
    ({"$schema": 3}, "dialect 3 is not supported"),
    ({"$schema": ["x"]}, "is not supported"),
    ({"properties": {"a": {"$schema": DIALECTS[0]}}}, "at #/properties/a: name it at the root"),
    ({"pattern": "["}, "no regular expression"),
    ({"properties": {"a": {"pattern": "(?<"}}}, "no regular expression"),
    ({"patternProperties": {"(": {}}}, "no regular expression"),
    ({"$ref": "https://example.com/x.json"}, "never fetched: put what it names under"),
    ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "never fetched"),
    ({"$ref": "other.json#/$defs/a"}, "never fetched"),
    ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "never fetched"),
    ({"$dynamicRef": "https://example.com/x.json#a"}, "never fetched"),
    ({"$id": "https://example.com/a", "$ref": "b"}, "never fetched"),
    ({"properties": {"a": {"$ref": "#/$defs/no"}}}, "does not resolve"),
    ({"$ref": "#no-such-anchor"}, "does not resolve"),
    ({"$defs": {"unused": {"$ref": "#/$defs/no"}}}, "does not resolve"),
    ({"$ref": "#/x/y", "x": {"y": {"$ref": "#/x/z"}}}, "'#/x/z' does not resolve"),
    ({"$ref": "#/title", "title": "x"}, "names no schema"),
    ({"$ref": "#"}, "in a circle"),
    ({"allOf": [{"$ref": "#"}]}, "in a circle"),
    ({"$ref": "#/not", "not": {"anyOf": [{"$ref": "#"}]}}, "in a circle"),
    ({"properties": {"a": {"$ref": "#/properties/a"}}}, "in a circle"),
    (chain(MAX_DEPTH + 1), "too long"),
    (exponential_references(), "apply at once"),
    (deep(MAX_DEPTH + 1), "too large"),
    (CYCLE, "too large"),
    ({"anyOf": [{}] * MAX_SUBSCHEMAS}, "too large"),
    ({"default": object()}, "nothing but JSON"),
    ({"default": float("nan")}, "nothing but JSON"),
    ({"default": "\ud800"}, "nothing but JSON"),
]


@spec(
    "JSCH-05",
    "JSCH-06",
    "SEC-15",
    "2026/SCH-02",
    "2026/SCH-04",
    "2026/SCH-05",
    "2026/SCH-06",
    "2026/SCH-07",
    "2026/SCH-08",
)
@rows(("schema", "remedy"), UNUSABLE_SCHEMAS)
def test_unusable_schema_is_rejected_at_compile_time(schema: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        compiler.compile(schema)


USABLE_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"$id": "https://example.com/a", "$ref": "#/$defs/a", "$defs": {"a": {}}},
    {"$id": "https://example.com/a", "$ref": "a#/$defs/a", "$defs": {"a": {}}},
    {"$ref": "https://example.com/b", "$defs": {"b": {"$id": "https://example.com/b"}}},
    {"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
    {"$dynamicAnchor": "node", "properties": {"a": {"$dynamicRef": "#node"}}},
    {"$defs": {"true": True}, "$ref": "#/$defs/true"},
    {"properties": {"$ref": {"type": "string"}, "$schema": {"type": "string"}}},
    {"enum": [{"$ref": "https://example.com", "pattern": "["}]},
    {"patternProperties": {r"^\p{L}": {}}, "pattern": "^a"},
    chain(MAX_DEPTH - 2),
    deep(MAX_DEPTH),
    {"anyOf": [{}] * (MAX_SUBSCHEMAS - 1)},
]


@rows("schema", USABLE_SCHEMAS)
def test_schema_with_local_references_within_bounds_compiles(schema: dict[str, Any]) -> None:
    assert compiler.compile(schema).problems({"a": {}}) is not None


@spec("JSCH-07", "2026/SCH-09")
def test_compiled_schema_keeps_all_keywords_and_ignores_later_changes() -> None:
    written: dict[str, Any] = {
        "$schema": DIALECTS[0],
        "type": "object",
        "x-mine": [1],
        "$defs": {"a": {"$anchor": "a"}},
        "if": {},
        "else": False,
    }
    before = copy.deepcopy(written)
    validator = compiler.compile(MappingProxyType(written))
    written["type"] = "array"
    written["$defs"].clear()
    assert validator.schema == before
    assert list(validator.schema) == list(before)
    assert validator.problems({}) == ""


INTEGER = {"type": "integer"}

WRAPPED: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"type": "object", "$id": "x"}, {"type": "object", "$id": "x"}),
    (
        {"type": "array", "items": INTEGER},
        {
            "type": "object",
            "properties": {"result": {"type": "array", "items": INTEGER}},
            "required": ["result"],
        },
    ),
    (
        {"$schema": DIALECTS[3], "$ref": "#/definitions/n", "definitions": {"n": INTEGER}},
        {
            "$schema": DIALECTS[3],
            "definitions": {"n": INTEGER},
            "type": "object",
            "properties": {"result": {"$ref": "#/definitions/n"}},
            "required": ["result"],
        },
    ),
    (
        {"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}},
        {
            "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}},
            "type": "object",
            "properties": {"result": {"items": {"$ref": "#/$defs/n"}}},
            "required": ["result"],
        },
    ),
    (
        {"items": {"$ref": "#n"}, "contains": {"$anchor": "n"}},
        {
            "type": "object",
            "properties": {"result": {"items": {"$ref": "#n"}, "contains": {"$anchor": "n"}}},
            "required": ["result"],
        },
    ),
    ({"items": {"$ref": "#"}}, None),
    ({"items": {"$recursiveRef": "#"}}, None),
    ({"items": {"$ref": "#/contains"}, "contains": {}}, None),
    ({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"not": {"$ref": "#/items"}}}}, None),
    ({"$id": "https://example.com/a", "type": "array"}, None),
]


@rows(("schema", "wrapped"), WRAPPED)
def test_to_object_root_wraps_a_schema_unless_references_break(
    schema: dict[str, Any], wrapped: dict[str, Any] | None
) -> None:
    before = copy.deepcopy(schema)
    assert compiler.to_object_root(schema) == wrapped
    assert schema == before
    if wrapped is not None:
        assert compiler.is_object_root(wrapped)
        compiler.compile(wrapped)


def test_wrapped_schema_validates_the_value_under_its_key() -> None:
    wrapped = compiler.to_object_root(INTEGER, key="value")
    assert wrapped is not None
    validator = compiler.compile(wrapped)
    assert validator.problems({"value": 1}) == ""
    assert validator.problems({"value": "1"}) == "value: '1' is not of type 'integer'"


def test_boolean_properties_become_equivalent_objects() -> None:
    nested = {"properties": {"a": True}}
    schema = {"type": "object", "properties": {"yes": True, "no": False, "nested": nested}}
    before = copy.deepcopy(schema)
    converted = compiler.without_boolean_properties(schema)

    assert converted["properties"] == {"yes": {}, "no": {"not": {}}, "nested": nested}
    assert schema == before
    assert compiler.compile(converted).problems({"yes": 1}) == ""
    assert compiler.compile(converted).problems({"no": 1}) != ""


@rows("schema", [{"type": "object"}, {"properties": {"a": {}}}])
def test_schema_without_boolean_properties_is_unchanged(schema: dict[str, Any]) -> None:
    assert compiler.without_boolean_properties(schema) is schema


DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "page": {"type": "integer", "default": 1},
        "tags": {"default": []},
        "nothing": {"default": None},
        "plain": {"type": "string"},
        "anything": True,
        "filter": {"type": "object", "properties": {"open": {"default": True}}},
        "who": {"$ref": "#/$defs/who"},
        "owner": {"$ref": "#/$defs/who", "default": {"kind": "user"}},
        "level": {"$ref": "#/$defs/level"},
        "kin": {"$ref": "#/$defs/kin"},
    },
    "$defs": {
        "who": {"properties": {"name": {"default": "nobody"}, "of": {"$ref": "#/$defs/who"}}},
        "level": {"default": "info"},
        "kin": {"properties": {"kin": {"$ref": "#/$defs/kin", "default": {}}}},
    },
}

TOP = {"page": 1, "tags": [], "nothing": None, "owner": {"kind": "user"}, "level": "info"}

FILLED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, TOP),
    ({"page": 2, "more": 3}, {**TOP, "page": 2, "more": 3}),
    ({"page": None}, {**TOP, "page": None}),
    ({"filter": {}}, {**TOP, "filter": {"open": True}}),
    ({"filter": {"open": False}}, {**TOP, "filter": {"open": False}}),
    ({"filter": 3}, {**TOP, "filter": 3}),
    ({"who": {"of": {}}}, {**TOP, "who": {"name": "nobody", "of": {"name": "nobody"}}}),
    ({"kin": {}}, {**TOP, "kin": {"kin": {}}}),
]


@rows(("instance", "filled"), FILLED)
def test_defaults_are_added_without_changes_to_the_instance(
    instance: dict[str, Any], filled: dict[str, Any]
) -> None:
    before = copy.deepcopy(instance)
    assert compiler.with_defaults(DEFAULTS, instance) == filled
    assert instance == before


def test_default_values_are_not_shared_between_calls() -> None:
    compiler.with_defaults(DEFAULTS, {})["tags"].append("mine")
    assert compiler.with_defaults(DEFAULTS, {})["tags"] == []


def test_circular_references_have_no_defaults() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert compiler.with_defaults(circle, {}) == {}
    assert compiler.with_defaults({"$ref": "#/$defs/no"}, {}) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYWORDS = [
    "type", "properties", "items", "allOf", "anyOf", "not", "$ref", "$defs", "enum", "const",
    "pattern", "patternProperties", "additionalProperties", "required", "$schema",
    "$id", "uniqueItems",
]  # fmt: skip
SCHEMAS = st.recursive(
    st.dictionaries(st.sampled_from(KEYWORDS), JSON, max_size=2)
    | st.sampled_from([INTEGER, {"type": "string"}, {"$ref": "#"}, {"pattern": "^a"}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "items": inner,
            "not": inner,
        },
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, JSON)
def test_any_schema_is_rejected_or_validates_any_value(schema: dict[str, Any], value: Any) -> None:
    try:
        validator = compiler.compile(schema)
    except ValueError:
        return
    problems = validator.problems(value)
    assert problems == "; ".join(validator.errors(value))
    assert len(problems) <= 6 * schema_validator.MAX_SENTENCE


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(TOOL["properties"])), JSON))
def test_any_invalid_value_is_reported_with_a_path(value: dict[str, Any]) -> None:
    validator = compiler.compile(TOOL)
    for sentence in validator.errors(value):
        path = sentence.partition(":")[0].partition(".")[0].strip("'")
        assert path in {"arguments", *TOOL["properties"]} or sentence == "and more"


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(DEFAULTS["properties"])), JSON))
def test_with_defaults_is_idempotent(value: dict[str, Any]) -> None:
    once = compiler.with_defaults(DEFAULTS, value)
    assert compiler.with_defaults(DEFAULTS, {**once, "owner": once["owner"]}).keys() == once.keys()
    assert value.items() <= {**once, **value}.items()


@rows(
    "definitions",
    [
        {"pet": {"$ref": "#/$defs/pet"}},
        {"pet": {"$ref": "#/$defs/cat"}},
        {"pet": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pet"}]}},
        {"a/b": {}},
        {},
    ],
)
def test_unresolvable_or_circular_reference_is_rejected(definitions: dict[str, Any]) -> None:
    schema = {"$defs": definitions, "anyOf": [{"$ref": "#/$defs/pet"}, {"$ref": "#/$defs/a/b"}]}
    with pytest.raises(ValueError, match=r"reference"):
        compiler.compile(schema)


NAMES = ("a", "b", "c", "d")
PARTS = st.lists(st.sampled_from(NAMES), max_size=3)


@settings(max_examples=200, deadline=None)
@given(
    root=PARTS, named=st.fixed_dictionaries(dict.fromkeys(NAMES, PARTS)), is_in_place=st.booleans()
)
def test_references_that_are_certainly_valid_pass_the_check_of_references(
    root: list[str], named: dict[str, list[str]], is_in_place: bool
) -> None:
    def referring(names: list[str]) -> dict[str, Any]:
        references = [{"$ref": f"#/$defs/{name}"} for name in names]
        if is_in_place:
            return {"allOf": references} if references else {}
        return {"properties": {str(number): each for number, each in enumerate(references)}}

    schema = {**referring(root), "$defs": {name: referring(it) for name, it in named.items()}}
    is_certain = compiler._is_certainly_valid(schema, compiler.DEFAULT_DIALECT)
    try:
        schema_validator.prepare(schema, compiler.DEFAULT_DIALECT)
    except ValueError:
        assert not is_certain


def test_usual_schema_compiles_without_import_of_jsonschema() -> None:
    script = (
        "import sys\n"
        "from django_mcp.core.protocol.schema import compiler\n"
        "definitions = {'kind': {'enum': ['cat']}, 'pet': {'properties': {\n"
        "    **{f'x{number}': {} for number in range(100)}, 'kind': {'$ref': '#/$defs/kind'}}}}\n"
        "nested = {'$defs': definitions, 'items': {'$ref': '#/$defs/pet'}}\n"
        "compiler.compile(nested)\n"
        "schema = {'$defs': {'pet': {'type': 'string'}}, 'items': {'$ref': '#/$defs/pet'}}\n"
        "validator = compiler.compile(schema)\n"
        "assert 'jsonschema' not in sys.modules and 'referencing' not in sys.modules\n"
        "print(validator.problems([1]))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "0: 1 is not of type 'string'\n"


def test_equal_schemas_are_compiled_once() -> None:
    schema = {"type": "object", "properties": {"only_here": {"type": "string"}}}
    first = compiler.compile(schema)
    schema["properties"] = {"only_here": {"type": "integer"}}
    assert compiler.compile(schema) is not first
    schema["properties"] = {"only_here": {"type": "string"}}
    assert compiler.compile(schema) is first
    assert first.errors({"only_here": 1})
