"""Our JSON Schema keywords agree with those of jsonschema, and run in linear time."""

from __future__ import annotations

from time import process_time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry

from django_mcp.core.protocol.schema import compiler, validator
from django_mcp.core.protocol.schema.keywords import KEYWORDS, shown
from django_mcp.core.protocol.schema.steps import TooManySteps, search
from tests.rows import rows
from tests.spec import spec

PATTERNS = [
    ("^[a-z]+$", "abc", True),
    ("^[a-z]+$", "abc\n", False),
    ("b", "abc", True),
    ("", "", True),
    (r"^\p{Lu}", "É", True),
    (r"^\d{3}$", "123", True),
    ("^a", "\ud800", False),
]


@rows(("pattern", "text", "found"), PATTERNS)
def test_pattern_is_searched_in_the_text(pattern: str, text: str, found: bool) -> None:
    assert search(pattern)(text) is found


@rows("pattern", ["^(?!x)(a+)+$", "(?<=a)b", r"^(a)\1$", "(a{1000}){1000}"])
def test_pattern_that_cannot_run_in_linear_time_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match="linear time: use neither look-around"):
        search(pattern)


@rows("pattern", ["[", "(", "*", "(?<", "a{2,1}(?=a)"])
def test_invalid_regular_expression_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        search(pattern)


@rows(
    ("value", "text"),
    [
        ("x", "'x'"),
        ("x" * 58, repr("x" * 58)),
        ("x" * 59, "a long value"),
        ("x" * 61, "a text of 61 characters"),
        ([1, 2], "[1, 2]"),
        ([1] * 100, "a list of 100"),
        ({"a": [1] * 100}, "an object of 1"),
        (10**80, "a long value"),
        (None, "None"),
    ],
)
def test_long_value_is_summarized(value: object, text: str) -> None:
    assert shown(value) == text


MIXED = [{"a": n} if n % 2 else n for n in range(20_000)]

ADVERSARIAL: list[tuple[str, dict[str, Any], Any]] = [
    ("pattern", {"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
    ("property names", {"patternProperties": {"^(a|a)+$": {}}}, {"a" * 100_000 + "!": 1}),
    (
        "further properties",
        {"patternProperties": {"^(a|a)+$": {}}, "additionalProperties": False},
        {"a" * 100_000 + "!": 1},
    ),
    ("unique items", {"uniqueItems": True}, MIXED),
    (
        "alternatives",
        {"anyOf": [{"type": "null"}, {"items": {"type": "string"}}, {"items": {"type": "null"}}]},
        list(range(200_000)),
    ),
    (
        "nested alternatives",
        {
            "$ref": "#/$defs/j",
            "$defs": {"j": {"anyOf": [{"type": "null"}, {"items": {"$ref": "#/$defs/j"}}]}},
        },
        [[[[[[[[[["x" * 2_000_000]]]]]]]]]],
    ),
]


@spec("2026/SCH-08")
@pytest.mark.parametrize(
    ("schema", "instance"), [row[1:] for row in ADVERSARIAL], ids=[row[0] for row in ADVERSARIAL]
)
def test_adversarial_instance_is_validated_in_bounded_time(
    schema: dict[str, Any], instance: Any
) -> None:
    validator = compiler.compile(schema)
    start = process_time()
    problems = validator.problems(instance)
    assert process_time() - start < 2
    assert len(problems) < 1000


def tree(*applied: dict[str, Any]) -> dict[str, Any]:
    """A recursive schema whose ``node`` applies all of these."""
    return {"$ref": "#/$defs/node", "$defs": {"node": {"allOf": [*applied]}}}


LISTS = {"type": "array", "items": {"$ref": "#/$defs/node"}}
ALTERNATIVES = {"anyOf": [{**LISTS, "maxItems": 1}, {**LISTS, "minItems": 9**9}, {"type": "null"}]}


def nested(depth: int, beside: Any = ()) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value, *beside]
    return value


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        (tree(LISTS, LISTS), nested(40)),
        (tree(ALTERNATIVES), nested(20, [["x" * 40] * 2000])),
        ({"unevaluatedItems": False, "prefixItems": [True]}, [1] * 90_000),
        ({"properties": {}, "unevaluatedProperties": False}, dict.fromkeys(map(str, range(9**5)))),
        ({"uniqueItems": True}, [[n] for n in range(90_000)]),
    ],
    ids=["applied twice", "alternatives", "items", "properties", "unique"],
)
def test_validation_takes_a_limited_number_of_steps(schema: dict[str, Any], instance: Any) -> None:
    validator = compiler.compile(schema)
    start = process_time()
    with pytest.raises(TooManySteps):
        validator.problems(instance, max_steps=20_000)
    assert process_time() - start < 2


def test_path_leads_through_alternatives() -> None:
    inner = {"anyOf": [{"properties": {"b": {"anyOf": [{"type": "null"}, {"minItems": 2}]}}}]}
    validator = compiler.compile({"properties": {"a": inner}})
    assert validator.problems({"a": {"b": [1]}}) == "a.b: [1] fits none of the alternatives"


@rows(
    ("keyword", "limit", "instance", "problem"),
    [
        ("maxItems", 1, [1] * 100, "a list of 100 is too long"),
        ("maxLength", 1, "x" * 100, "a text of 100 characters is too long"),
        ("maxProperties", 1, dict.fromkeys(map(str, range(99))), "an object of 99 has too many"),
        ("not", {}, [1] * 100, "a list of 100 should not be valid under {}"),
        ("contains", {"type": "null"}, [1] * 100, "a list of 100 does not contain items"),
    ],
)
def test_error_of_jsonschema_shows_a_summary_of_a_long_value(
    keyword: str, limit: Any, instance: Any, problem: str
) -> None:
    assert problem in compiler.compile({keyword: limit}).problems(instance)


def test_repetition_in_property_names_beside_unevaluated_properties_is_rejected() -> None:
    plain = {"patternProperties": {"^x-": {}}, "unevaluatedProperties": False}
    assert compiler.compile(plain).problems({"x-a": 1}) == ""
    with pytest.raises(ValueError, match='write "\\^x-" instead'):
        compiler.compile({**plain, "patternProperties": {"^(a+)+$": {}}})


SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, "", "a", "ab", "1"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "ab", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["string", "integer", "number", "boolean", "object", ["array", "null"]]
        ),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "pattern": st.sampled_from(["a", "^b$"]),
        "uniqueItems": st.booleans(),
    },
)
SCHEMAS = st.recursive(
    LEAVES | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "not": inner,
        },
    ),
    max_leaves=6,
).filter(lambda schema: isinstance(schema, dict))


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=5))
def test_custom_keywords_agree_with_jsonschema(schema: dict[str, Any], values: list[Any]) -> None:
    ours = compiler.compile(schema)
    stock = jsonschema.Draft202012Validator(schema, registry=Registry())
    for value in values:
        assert (ours.problems(value) == "") is stock.is_valid(value)


def test_replaced_keywords_exist_in_every_dialect() -> None:
    for checker in (jsonschema.Draft202012Validator, jsonschema.Draft7Validator):
        assert set(KEYWORDS) <= set(checker.VALIDATORS)


@rows(
    ("instance", "problem"),
    [
        ({"n_a": 1, "other": "x"}, ""),
        ({"n_a": "x"}, "n_a: 'x' is not of type 'integer'"),
        ({"an_a": "x"}, ""),
        ("n_a", ""),
    ],
)
def test_pattern_properties_apply_to_the_names_that_match(instance: Any, problem: str) -> None:
    validator = compiler.compile({"patternProperties": {"^n_": {"type": "integer"}}})

    assert validator.problems(instance) == problem


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {}},
        {"items": True},
        {"items": {"title": "A", "description": "Anything", "format": "date", "examples": [1]}},
        {"prefixItems": [{}], "items": {}},
        {"properties": {"members": {"items": {}}}},
        {"additionalProperties": {"title": "Anything"}},
        {"unevaluatedItems": {}},
    ],
)
def test_members_that_may_be_anything_are_not_visited(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert visits(schema, [{"a": 1}] * 1_000, monkeypatch) <= 3
    assert visits(schema, {"members": [1] * 1_000}, monkeypatch) <= 3


@pytest.mark.parametrize("items", [{"type": "integer"}, {"$ref": "#/$defs/any"}])
def test_members_that_a_schema_may_reject_are_visited(
    items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"items": items, "$defs": {"any": {}}}
    assert visits(schema, [1] * 100, monkeypatch) > 100


def visits(schema: dict[str, Any], instance: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many values a validation compares with a schema."""
    compiled = compiler.compile(schema)
    compiled.errors(None)
    kind = validator._validator_of(compiled.dialect)
    descend = kind.descend
    count = 0

    def counting(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return descend(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "descend", counting)
        compiled.errors(instance)
    return 1 + count
