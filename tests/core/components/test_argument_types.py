"""The table of types that arguments may have, and the bounds of what validating them costs."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    JsonValue,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    create_model,
    field_validator,
)
from pydantic_core import core_schema
from typing_extensions import TypedDict

from django_mcp import ConfigurationError
from django_mcp.core.components import argument_types
from django_mcp.core.components.argument_types import KNOWN, REFUSED
from django_mcp.core.components.invalid_arguments import InvalidArguments, LargeArguments
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.components.tool import tool_component
from tests.rows import rows

PRIME = 2**61 - 1
"""All multiples of it have one hash."""


class Node(BaseModel):
    nodes: list[Node] = []


class Left(BaseModel):
    child: Left | Right | None = None


class Right(BaseModel):
    child: Left | Right | None = None


class Leaf(BaseModel):
    field: str


class And(BaseModel):
    every: list[And | Or | Leaf]


class Or(BaseModel):
    some: list[And | Or | Leaf]


class Tree(BaseModel):
    """Its types are told apart by a field."""

    kind: Literal["tree"]
    branches: list[Annotated[Tree | Twig, Field(discriminator="kind")]] = []


class Twig(BaseModel):
    kind: Literal["twig"]
    next: Tree | None = None


class Chain(BaseModel):
    next: Chain | int | None = None


NUMBERS: Any = {f"a{n}": (int, ...) for n in range(60)}
Wide: Any = create_model("Wide", **NUMBERS)


class Pair(NamedTuple):
    first: int
    second: str = ""


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


@rows(
    ("annotation", "value"),
    [
        (LaxInt, "1"),
        (list[LaxInt], [1, "2"]),
        (list[int], [1, 2.0]),
        (list[int], "[1, 2]"),
        (deque[int], [1, 2]),
        (tuple[int, str], [1, "2"]),
        (tuple[int, ...], [1, 2]),
        (set[LaxInt], [1, 2, 2, "2"]),
        (frozenset[str], ["a", "a"]),
        (set[tuple[int, int]], [[1, 2], [1, 2]]),
        (dict[str, list[int]], {"a": [1]}),
        (dict[int, Any], {"1": {"a": None}}),
        (dict[UUID, int], {str(UUID(int=5)): 1}),
        (OrderedDict[Decimal, int], {"1.5": 1}),
        (Counter[str], {"a": 1}),
        (Node, {"nodes": [{"nodes": [{}]}]}),
        (list[Pet], [{"kind": "cat"}, {"kind": "dog"}]),
        (Open, {"anything": 1}),
        (Typed, {"type": 1, "of": [{"type": 2}]}),
        (Point, {"x": 1, "others": [{"x": 2}]}),
        (Pair, [1, "b"]),
        (JsonValue, {"a": [1, None, {"b": 2.5}]}),
        (Annotated[list[Decimal], Field(max_length=2)] | None, ["1.5"]),
    ],
)
def test_large_arguments_have_the_values_of_small_ones(annotation: Any, value: Any) -> None:
    schema = input_of(annotation)
    assert large(schema)(value) == schema.validate({"a": value})


@rows(
    ("annotation", "value", "problem"),
    [
        (list[int], ["x"] * 90_000, "a.0: Input should be a valid integer"),
        (deque[int], ["x"] * 20_000, "a.0: Input should be a valid integer"),
        (dict[str, int], {str(n): "x" for n in range(90_000)}, "a.0: Input should be"),
        (dict[str, Node], {str(n): 1 for n in range(90_000)}, "a.0: Input should be"),
        (dict[str, Wide], {str(n): {} for n in range(90_000)}, "a.0.a0: required"),
        (list[Point], [{"x": 1, "z": 2}] * 30_000, "a.0.z: Unexpected"),
        (Dog, {"kind": "dog", **dict.fromkeys(map(str, range(9000)), 1)}, "there are 9000 prob"),
    ],
)
def test_errors_in_large_arguments_are_few(annotation: Any, value: Any, problem: str) -> None:
    with pytest.raises(InvalidArguments, match=problem) as caught:
        large(input_of(annotation))(value)
    assert len(caught.value.problems) < 2000
    complete = caught.value.__cause__
    assert isinstance(complete, ValidationError)
    assert complete.error_count() <= 9000


class Compared:
    """A value that counts how often it is compared; all have one hash."""

    comparisons = 0

    def __init__(self, value: str) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return isinstance(other, Compared) and other.value == self.value


Comparable = Annotated[Any, PlainValidator(Compared), WithJsonSchema({"type": "string"})]


@rows(
    ("annotation", "value"),
    [
        (set[Comparable], [str(n) for n in range(3000)]),
        (dict[Comparable, int], {str(n): 0 for n in range(3000)}),
        (OrderedDict[Comparable, int], {str(n): 0 for n in range(3000)}),
        (Counter[Comparable], {str(n): 0 for n in range(3000)}),
        (list[frozenset[Comparable]], [[str(n) for n in range(3000)]]),
    ],
)
def test_values_of_one_hash_are_compared_a_bounded_number_of_times(
    annotation: Any, value: Any
) -> None:
    Compared.comparisons = 0
    with pytest.raises(InvalidArguments, match="at most 500 members"):
        large(input_of(annotation))(value)
    assert Compared.comparisons < 500**2


@rows(
    ("annotation", "value"),
    [
        (set[LaxInt], [str(n * PRIME) for n in range(9000)]),
        (set[UUID], [str(UUID(int=n * PRIME)) for n in range(9000)]),
        (dict[int, int], {str(n * PRIME): 0 for n in range(9000)}),
        (OrderedDict[Decimal, int], {str(n * PRIME): 0 for n in range(9000)}),
        (set[tuple[int, int]], [[n, n] for n in range(9000)]),
    ],
)
def test_members_whose_hash_a_sender_can_choose_are_few(annotation: Any, value: Any) -> None:
    schema = input_of(annotation)
    with pytest.raises(InvalidArguments, match="at most 500 members"):
        large(schema)(value)


@rows(
    "annotation",
    [
        set[int],
        set[str],
        set[date],
        set[Literal["a", "b"]],
        dict[str, UUID],
        dict[Annotated[int, Field(ge=0, lt=2**31)], int],
        set[Annotated[int | None, Field()]],
        set[Any],
    ],
)
def test_members_whose_hash_nobody_can_choose_are_as_many_as_a_message_has(annotation: Any) -> None:
    core: Any = create_model("Input", a=annotation).__pydantic_core_schema__
    prepared = argument_types.prepared(core, strict_numbers=True)
    assert argument_types.has_chosen_hash(prepared) is False


@rows("annotation", [Left, list[Right], And])
def test_recursive_union_without_a_discriminator_is_refused(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match="discriminator"):
        input_of(annotation)


@rows("annotation", [Tree, list[Tree], Chain])
def test_recursive_union_with_one_way_down_is_accepted(annotation: Any) -> None:
    assert input_of(annotation).schema["properties"]


def test_every_core_schema_of_pydantic_is_known_or_refused() -> None:
    every = set(get_args(core_schema.CoreSchemaType))
    assert every - KNOWN.keys() - REFUSED.keys() == set()
    assert not KNOWN.keys() & REFUSED.keys()


def test_table_names_every_member_of_a_core_schema_that_holds_others() -> None:
    kinds = KNOWN.keys() & set(get_args(core_schema.CoreSchemaType))
    missing = {kind: holding_members(kind) - {*KNOWN[kind].inner} for kind in kinds}
    assert {kind: names for kind, names in missing.items() if names} == {}


def test_table_names_every_core_schema_that_can_stop_at_the_first_error() -> None:
    kinds = KNOWN.keys() & set(get_args(core_schema.CoreSchemaType))
    assert {kind for kind in kinds if "fail_fast" in members_of(kind)} == {
        kind for kind in kinds if KNOWN[kind].fails_fast
    }


def members_of(kind: str) -> dict[str, str]:
    """The members of a core schema, with their annotations as pydantic writes them."""
    return {
        name: str(annotation)
        for declared in vars(core_schema).values()
        for name, annotation in getattr(declared, "__annotations__", {}).items()
        if f"['{kind}']" in str(declared.__annotations__.get("type"))
        and not declared.__name__.endswith("SerSchema")
    }


def holding_members(kind: str) -> set[str]:
    pattern = re.compile(r"CoreSchema\b|Field\b|ArgumentsParameter")
    holding = {name for name, written in members_of(kind).items() if pattern.search(written)}
    # They describe what a function takes and returns, and the default of a field.
    holding -= {"json_schema_input_schema", "return_schema", "computed_fields"}
    return holding - ({"schema"} if kind == "missing-sentinel" else set())


@rows(
    ("annotation", "remedy"),
    [
        (Json[list[int]], "annotate the type inside the brackets"),
        (list[Json[Any]], "annotate the type inside the brackets"),
        (Iterable[int], "annotate list"),
    ],
)
def test_type_whose_cost_is_not_bounded_is_refused(annotation: Any, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        input_of(annotation)


def test_type_that_a_later_pydantic_adds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: kind for name, kind in KNOWN.items() if name != "uuid"}
    monkeypatch.setattr(argument_types, "KNOWN", known)
    with pytest.raises(ConfigurationError, match="'uuid' of pydantic, whose cost is not known"):
        input_of(list[UUID])


class Color(Enum):
    RED = "red"
    NONE = None
    FIRST = 1


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    value: Any


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (date, "2024-01-31", date(2024, 1, 31)),
        (date | int, "2024-01-31", date(2024, 1, 31)),
        (UUID, str(UUID(int=1)), UUID(int=1)),
        (Decimal, 1.5, Decimal("1.5")),
        (Color, "red", Color.RED),
        (tuple[int, ...], [1], (1,)),
        (set[int], [1], {1}),
        (deque[int], [1], deque([1])),
        (Counter[str], {"a": 1}, Counter("a")),
        (dict[int, int], {"1": 1}, {1: 1}),
        (PurePath, "a", PurePath("a")),
    ],
)
def test_strict_type_takes_what_json_has(annotation: Any, given: Any, value: Any) -> None:
    model = create_model("Input", __base__=Strict, value=(annotation, ...))
    assert input_of(model).validate({"a": {"value": given}})["a"].value == value
    if not isinstance(annotation, UnionType):
        strict = input_of(Annotated[annotation, Field(strict=True)])
        assert strict.validate({"a": given}) == {"a": value}


def test_strict_number_is_no_string() -> None:
    model = create_model("Input", __base__=Strict, value=(int, ...))
    with pytest.raises(InvalidArguments):
        input_of(model).validate({"a": {"value": "1"}})


def test_strict_that_pydantic_cannot_apply_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Unable to apply constraint 'strict'"):
        input_of(Annotated[Literal["a"], Field(strict=True)])


@pytest.mark.parametrize("annotation", [Literal[Color.RED, Color.NONE, Color.FIRST, "x"], Color])
def test_member_of_an_enum_is_given_as_its_value(annotation: Any) -> None:
    schema = input_of(list[annotation])
    assert schema.validate({"a": ["red", None, 1]}) == {"a": [Color.RED, Color.NONE, Color.FIRST]}
    others: tuple[Any, ...] = ("RED", 2, [], {})
    for other in others:
        with pytest.raises(InvalidArguments):
            schema.validate({"a": [other]})


def test_few_wrong_arguments_are_all_described() -> None:
    with pytest.raises(InvalidArguments) as caught:
        input_of(list[int]).validate({"a": ["x", 1, "y"]})
    assert "a.0" in caught.value.problems
    assert "a.2" in caught.value.problems


@rows("annotation", [int, list[int], Node])
def test_large_arguments_are_not_validated_in_the_event_loop(annotation: Any) -> None:
    schema = input_of(annotation)
    with pytest.raises(LargeArguments):
        schema.validate({"a": [1] * 10_000, **dict.fromkeys(map(str, range(600)), 1)})


class Backtracking(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    code: Annotated[str, Field(pattern="^(?!x)(a+)+$")]


@rows(
    "annotation",
    [Backtracking, list[Backtracking], Annotated[str, Field(pattern=re.compile("^(a+)+$"))]],
)
def test_pattern_that_python_would_match_is_rejected(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match="engine of Python"):
        input_of(annotation)
