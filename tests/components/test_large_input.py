"""Large arguments are validated like small ones, but within bounds of time and memory."""

from __future__ import annotations

import dataclasses
import gc
import re
from collections.abc import Callable
from decimal import Decimal
from time import process_time
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, create_model, field_validator
from typing_extensions import TypedDict

from django_mcp import ConfigurationError
from django_mcp.components.base import InvalidArguments, LargeArguments
from django_mcp.components.large_input import MAX_NODES, is_small, smallness_of
from django_mcp.components.schemas import InputSchema
from django_mcp.components.tool import tool_component

PRIME = 2**61 - 1
"""All multiples of it have one hash."""


class Node(BaseModel):
    nodes: list[Node] = []


class Left(BaseModel):
    child: Left | Right | None = None


class Right(BaseModel):
    child: Left | Right | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    model_config = ConfigDict(extra="forbid")

    @field_validator("kind")
    @classmethod
    def _check(cls, value: str) -> str:
        return value


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Typed(TypedDict, total=False):
    type: int
    of: list[Typed]


@dataclasses.dataclass
class Point:
    x: int
    others: list[Point] = dataclasses.field(default_factory=list)


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def input_of(annotation: Any) -> InputSchema:
    def take(a: Any) -> str:
        return "taken"

    take.__annotations__ = {"a": annotation, "return": str}
    return tool_component(take).input


def large(schema: InputSchema) -> Callable[[Any], Any]:
    assert schema.validate_large is not None
    validate = schema.validate_large
    return lambda value: validate({"a": value})


LaxInt = Annotated[int, Field(strict=False)]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (LaxInt, "1"),
        (list[LaxInt], [1, "2"]),
        (list[int], [1, 2.0]),
        (list[int], "[1, 2]"),
        (tuple[int, str], [1, "2"]),
        (tuple[int, ...], [1, 2]),
        (set[LaxInt], [1, 2, 2, "2"]),
        (frozenset[str], ["a", "a"]),
        (set[tuple[int, int]], [[1, 2], [1, 2]]),
        (dict[str, list[int]], {"a": [1]}),
        (dict[int, Any], {"1": {"a": None}}),
        (dict[UUID, int], {str(UUID(int=5)): 1}),
        (Node, {"nodes": [{"nodes": [{}]}]}),
        (list[Left | int], [{"child": {"child": None}}, 3]),
        (list[Pet], [{"kind": "cat"}, {"kind": "dog"}]),
        (Open, {"anything": 1}),
        (Typed, {"type": 1, "of": [{"type": 2}]}),
        (Point, {"x": 1, "others": [{"x": 2}]}),
        (Json[list[int]], "[1, 2]"),
        (Annotated[list[Decimal], Field(max_length=2)] | None, ["1.5"]),
    ],
)
def test_large_arguments_have_the_values_of_small_ones(annotation: Any, value: Any) -> None:
    schema = input_of(annotation)
    try:
        expected = schema.validate({"a": value})
    except LargeArguments:  # Recursive with unions.
        expected = {"a": [Left(child=Left()), 3]}
    assert large(schema)(value) == expected


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (list[int], ["x"] * 90_000, "a.0: Input should be a valid integer"),
        (dict[str, int], {str(n): "x" for n in range(90_000)}, "and 2 more"),
        (dict[str, Node], {str(n): 1 for n in range(90_000)}, "and 2 more"),
        (Dog, {"kind": "dog", **dict.fromkeys(map(str, range(900)), 1)}, "Too many unknown"),
        (set[LaxInt], [str(n * PRIME) for n in range(9000)], "have the same hash"),
        (set[UUID], [str(UUID(int=n * PRIME)) for n in range(9000)], "have the same hash"),
        (dict[int, int], {str(n * PRIME): 0 for n in range(9000)}, "have the same hash"),
        (Json[list[int]], f"[{','.join('1' * 200_000)}]", "Not valid JSON, or too much of it"),
        (Json[int], 1, "Not valid JSON"),
        (list[Point], [{"x": 1, "z": 2}] * 30_000, "a.0.z: Unexpected"),
    ],
)
def test_errors_in_large_arguments_are_few(annotation: Any, value: Any, problem: str) -> None:
    validate = large(input_of(annotation))
    start = process_time()
    with pytest.raises(InvalidArguments, match=problem) as caught:
        validate(value)
    assert process_time() - start < 2
    assert len(caught.value.problems) < 2000


def test_unions_in_a_recursive_model_take_a_bounded_number_of_steps() -> None:
    schema = input_of(Left)
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"child": value}
    with pytest.raises(LargeArguments):  # In the event loop.
        schema.validate({"a": value})
    start = process_time()
    with pytest.raises(InvalidArguments, match="too many values"):
        large(schema)(value)
    assert process_time() - start < 5


def test_repeated_values_of_a_set_are_no_collision() -> None:
    assert large(input_of(set[int]))([1] * 10_000) == {"a": {1}}


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_collector_is_left_as_it_was(was_enabled: bool) -> None:
    validate = large(input_of(Node))
    if not was_enabled:
        gc.disable()
    try:
        validate({})
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, True),
        ({"a": 1, "b": "text", "c": None}, True),
        ({"a": [1] * (MAX_NODES - 1)}, True),
        ({"a": [1] * MAX_NODES}, False),
        ({"a": {"b": [[1] * 300, [1] * 300]}}, False),
        ({"a": dict.fromkeys(map(str, range(600)))}, False),
        ({"a": "x" * 10_000}, True),
        ({"a": ["x" * 20_000, "x" * 20_000]}, False),
    ],
)
def test_size_of_arguments_counts_values_and_text(arguments: Any, expected: bool) -> None:
    assert is_small(arguments, MAX_NODES) is expected


@pytest.mark.parametrize("annotation", [int, list[int], Node])
def test_large_arguments_are_not_validated_in_the_event_loop(annotation: Any) -> None:
    schema = input_of(annotation)
    with pytest.raises(LargeArguments):
        schema.validate({"a": [1] * 1000, **dict.fromkeys(map(str, range(600)), 1)})


@pytest.mark.parametrize(
    ("annotation", "is_linear"),
    [
        (list[int], True),
        (list[list[int]], True),
        (dict[str, list[int]], True),
        (dict[int, int], False),
        (set[int], False),
        (list[int | str], False),
        (list[Annotated[str, Field(pattern="^a+$")]], False),
        (Node, False),
    ],
)
def test_more_values_of_linear_types_are_validated_in_the_event_loop(
    annotation: Any, is_linear: bool
) -> None:
    is_small = smallness_of(create_model("Input", a=annotation))
    assert is_small({"a": [1] * 400})
    assert is_small({"a": [[1] * 4000, {"b": [1] * 4000}]}) is is_linear
    assert not is_small({"a": [1] * 10_000})


@pytest.mark.parametrize(
    ("annotation", "is_deep"),
    [(list[Any], False), (list[list[int]], True), (dict[str, list[int]], True)],
)
def test_values_that_are_deeper_than_their_type_are_not_counted(
    annotation: Any, is_deep: bool
) -> None:
    is_small = smallness_of(create_model("Input", a=annotation))
    assert is_small({"a": [[[1] * 10_000]]})
    assert is_small({"a": [[1] * 10_000]}) is not is_deep


def test_many_wrong_values_of_a_linear_type_are_not_validated_in_the_event_loop() -> None:
    with pytest.raises(LargeArguments):
        input_of(list[int]).validate({"a": ["x"] * 2000})


class Backtracking(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    code: Annotated[str, Field(pattern="^(?!x)(a+)+$")]


@pytest.mark.parametrize(
    "annotation",
    [Backtracking, list[Backtracking], Annotated[str, Field(pattern=re.compile("^(a+)+$"))]],
)
def test_pattern_that_python_would_match_is_rejected(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match="engine of Python"):
        input_of(annotation)
