"""Signatures of handlers: their JSON Schema for clients, and the conversion of arguments."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from django_mcp.core.components import signature as signatures
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.signature import Header
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.frame import Frame
from tests.spec import spec

if TYPE_CHECKING:
    from django_mcp.core.frame.session import Session


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    city: str = "Bern"


@dataclass
class Point:
    x: int
    y: int = 0


class Node(BaseModel):
    name: str
    children: list[Node] = []


def properties(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = tool_component(function, name="it").input_schema["properties"]
    return found


def clean(function: Any, arguments: dict[str, Any]) -> Any:
    return tool_component(function, name="it").validate_input(arguments)


def validation_error(function: Any, arguments: dict[str, Any]) -> str:
    with pytest.raises(InvalidArguments) as caught:
        clean(function, arguments)
    return caught.value.problems


def configuration_error(function: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        tool_component(function, name="it")
    return str(caught.value)


def add(a: int, b: int = 2) -> None: ...


def described(
    name: Annotated[str, Field(description="Who", min_length=2)],
    tags: list[str] = Field(default=[], max_length=3),  # noqa: B008 - as in a pydantic model
) -> None: ...


def dated(day: date, moment: datetime | None = None) -> None: ...


def coloured(colour: Colour, size: Literal["s", "m"] = "s") -> None: ...


def addressed(address: Address, point: Point | None = None) -> None: ...


def rich(price: Decimal, key: UUID, days: set[int], pair: tuple[int, str]) -> None: ...


def awkward(schema: str, copy: bool, _hidden: int, model_config: str = "x") -> Any:
    return schema, copy, _hidden, model_config


class TestInputSchema:
    def test_input_schema_is_an_object_without_generated_titles(self) -> None:
        assert tool_component(add).input_schema == {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
            "required": ["a"],
            "additionalProperties": False,
        }

    @spec("TOOL-06", "2026/TOOL-05")
    def test_input_schema_without_parameters_allows_no_properties(self) -> None:
        def now() -> None: ...

        assert tool_component(now).input_schema == {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        }

    def test_input_schema_contains_field_constraints(self) -> None:
        assert properties(described) == {
            "name": {"type": "string", "description": "Who", "minLength": 2},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "default": []},
        }

    def test_input_schema_contains_the_date_format(self) -> None:
        assert properties(dated)["day"] == {"type": "string", "format": "date"}

    def test_input_schema_lists_enum_and_literal_values(self) -> None:
        schema = tool_component(coloured).input_schema
        assert schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
        assert schema["properties"]["size"]["enum"] == ["s", "m"]

    def test_frame_parameter_is_not_part_of_the_input_schema(self) -> None:
        def f(a: int, frame: Frame) -> None: ...
        def g(a: int, where: Frame | None = None) -> None: ...
        def h(a: int, frame) -> None: ...  # type: ignore[no-untyped-def]

        assert [list(properties(each)) for each in (f, g, h)] == [["a"]] * 3

    def test_string_parameter_named_frame_is_part_of_the_input_schema(self) -> None:
        def f(frame: str) -> None: ...

        assert list(properties(f)) == ["frame"]
        assert clean(f, {"frame": "oak"}) == {"frame": "oak"}

    def test_header_annotation_is_part_of_the_input_schema(self) -> None:
        def f(region: Annotated[str, Header("Region")], plain: str = "") -> None: ...

        assert properties(f)["region"] == {"type": "string", "x-mcp-header": "Region"}
        assert len(tool_component(f).param_headers) == 1

    def test_input_schema_of_a_recursive_model_has_an_object_root(self) -> None:
        def f(params: Any) -> None: ...

        tool = tool_component(f, input_schema=Node)
        assert tool.input_schema["type"] == "object"
        assert tool.validate_input({"name": "a", "children": [{"name": "b"}]}).name == "a"

    def test_input_schema_of_a_strict_recursive_model_has_an_object_root(self) -> None:
        class Branch(BaseModel):
            model_config = ConfigDict(extra="forbid")
            branches: list[Branch] = []

        Branch.model_rebuild(_types_namespace={"Branch": Branch})
        tool = tool_component(lambda params: params, name="it", input_schema=Branch)
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["properties"]["branches"]["items"] == {"$ref": "#/$defs/Branch"}

    def test_model_without_json_schema_is_rejected(self) -> None:
        class Hook(BaseModel):
            call: Callable[[], None]

        with pytest.raises(ConfigurationError, match="A field of .*Hook has a type without"):
            tool_component(lambda params: None, name="it", input_schema=Hook)


class TestArgumentValues:
    def test_missing_arguments_receive_their_defaults(self) -> None:
        assert clean(add, {"a": 1}) == {"a": 1, "b": 2}

    def test_mutable_defaults_are_not_shared_between_calls(self) -> None:
        tool = tool_component(described)
        first = tool.validate_input({"name": "Ada"})
        first["tags"].append("x")
        assert tool.validate_input({"name": "Ada"})["tags"] == []

    def test_arguments_are_converted_to_their_annotated_types(self) -> None:
        assert clean(dated, {"day": "2026-07-28", "moment": "2026-07-28T10:00:00+02:00"}) == {
            "day": date(2026, 7, 28),
            "moment": datetime.fromisoformat("2026-07-28T10:00:00+02:00"),
        }
        assert clean(coloured, {"colour": "blue"}) == {"colour": Colour.BLUE, "size": "s"}
        assert clean(addressed, {"address": {"street": "A 1"}, "point": {"x": 1}}) == {
            "address": Address(street="A 1"),
            "point": Point(1),
        }
        assert clean(
            rich,
            {
                "price": "1.10",
                "key": "12345678-1234-5678-1234-567812345678",
                "days": [1, 1],
                "pair": [1, "a"],
            },
        ) == {
            "price": Decimal("1.10"),
            "key": UUID("12345678-1234-5678-1234-567812345678"),
            "days": {1},
            "pair": (1, "a"),
        }

    def test_parameters_can_use_names_reserved_by_pydantic(self) -> None:
        tool = tool_component(awkward)
        arguments = {"schema": "s", "copy": True, "_hidden": 1}
        assert list(tool.input_schema["properties"]) == [
            "schema",
            "copy",
            "_hidden",
            "model_config",
        ]
        assert tool.invoke is not None
        assert tool.invoke(tool.validate_input(arguments), None) == ("s", True, 1, "x")

    def test_aliased_argument_is_passed_under_the_parameter_name(self) -> None:
        def f(from_: Annotated[str, Field(alias="from")]) -> str:
            return from_

        assert list(properties(f)) == ["from"]
        assert clean(f, {"from": "Bern"}) == {"from_": "Bern"}


class TestInvalidArguments:
    def test_error_message_names_each_invalid_argument(self) -> None:
        assert validation_error(add, {"b": "two"}) == (
            "a: required, but missing; b: Input should be a valid integer"
        )

    def test_unknown_argument_error_lists_the_accepted_arguments(self) -> None:
        assert validation_error(add, {"a": 1, "c": 2}) == "c: unknown argument (accepted: a, b)"

    def test_argument_of_a_function_without_parameters_is_rejected(self) -> None:
        def now() -> None: ...

        assert validation_error(now, {"zone": "UTC"}) == "zone: unknown argument (accepted: none)"

    def test_nested_argument_error_contains_a_dotted_path(self) -> None:
        assert validation_error(addressed, {"address": {"city": 3}}) == (
            "address.street: required, but missing; address.city: Input should be a valid string"
        )

    def test_value_outside_bounds_or_choices_is_rejected(self) -> None:
        assert "at least 2 characters" in validation_error(described, {"name": "A"})
        assert "'red' or 'blue'" in validation_error(coloured, {"colour": "green"})
        assert "'s' or 'm'" in validation_error(coloured, {"colour": "red", "size": "xl"})

    def test_model_level_error_is_reported_without_an_argument_name(self) -> None:
        class Period(BaseModel):
            start: int
            end: int

            @model_validator(mode="after")
            def in_order(self) -> Period:
                if self.end < self.start:
                    raise ValueError("a period ends after it starts")
                return self

        tool = tool_component(lambda params: None, name="it", input_schema=Period)
        with pytest.raises(InvalidArguments) as caught:
            tool.validate_input({"start": 2, "end": 1})
        assert str(caught.value) == "Value error, a period ends after it starts"

    def test_error_message_does_not_repeat_long_values(self) -> None:
        long = "x" * 10_000
        assert long not in validation_error(add, {"a": long})
        assert len(validation_error(add, {"a": 1, long: 1})) < 500

    def test_error_message_is_limited_to_a_few_arguments(self) -> None:
        problems = validation_error(add, {"a": 1, **{f"x{i}": i for i in range(50)}})
        assert problems.endswith("; and 42 more")


class TestInvocation:
    def test_frame_is_passed_under_the_name_of_its_parameter(self) -> None:
        def f(a: int, where: Frame) -> Any:
            return a, where

        tool, frame = tool_component(f), Frame()
        assert tool.invoke is not None
        assert tool.invoke({"a": 1}, frame) == (1, frame)

    def test_frame_imported_under_type_checking_is_detected(self) -> None:
        scope: dict[str, Any] = {}
        exec("def f(a: int, frame: 'Frame') -> None: ...", scope)
        assert signatures.read(scope["f"]).frame == "frame"

    async def test_async_callables_are_detected_at_registration(self) -> None:
        async def f(a: int) -> int:
            return a

        class Called:
            async def __call__(self, a: int) -> int:
                return a

        for each in (f, functools.partial(f), Called(), functools.partial(Called())):
            tool = tool_component(each, name="it")
            assert tool.is_async
            assert tool.invoke is not None
            assert await tool.invoke({"a": 1}, None) == 1
        assert not tool_component(add).is_async

    def test_arguments_bound_by_a_partial_are_not_in_the_input_schema(self) -> None:
        def greet(greeting: str, name: str, mark: str = "!") -> str:
            return f"{greeting} {name}{mark}"

        tool = tool_component(functools.partial(greet, "Hello", mark="?"), name="greet")
        assert list(tool.input_schema["properties"]) == ["name"]
        assert tool.invoke is not None
        assert tool.invoke(tool.validate_input({"name": "Ada"}), None) == "Hello Ada?"


class TestUnsupportedSignature:
    def test_variadic_positional_parameter_is_rejected(self) -> None:
        def f(*numbers: int) -> None: ...

        assert "write numbers: list[…]" in configuration_error(f)

    def test_positional_only_parameter_is_rejected(self) -> None:
        def f(a: int, /) -> None: ...

        assert "take the / out" in configuration_error(f)

    def test_variadic_keyword_parameter_is_rejected(self) -> None:
        def f(**more: int) -> None: ...

        assert "name them, or declare input_schema" in configuration_error(f)

    def test_parameter_type_unknown_to_pydantic_is_rejected(self) -> None:
        def f(a: TestInputSchema) -> None: ...

        f.__annotations__["a"] = TestInputSchema
        assert "has a type without a JSON form" in configuration_error(f)

    def test_annotation_undefined_at_run_time_is_rejected(self) -> None:
        def f(a: Session) -> None: ...

        assert "name 'Session' is not defined" in configuration_error(f)
        assert "not under TYPE_CHECKING" in configuration_error(f)

    def test_generator_function_is_rejected(self) -> None:
        def f() -> Iterator[int]:
            yield 1

        async def g() -> AsyncIterator[int]:
            yield 1

        assert "returns one value" in configuration_error(f)
        assert "returns one value" in configuration_error(g)

    def test_builtin_function_without_usable_signature_is_rejected(self) -> None:
        assert "by position only" in configuration_error(len)
        assert "builtins.max" in configuration_error(max)


def test_decorated_function_has_the_input_schema_of_the_wrapped_one() -> None:
    @functools.wraps(add)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return add(*args, **kwargs)

    assert tool_component(wrapper).input_schema == tool_component(add).input_schema


def test_bound_method_has_no_self_in_its_input_schema() -> None:
    class Shop:
        def search(self, query: str) -> str:
            return query

    tool: ToolComponent = tool_component(Shop().search)
    assert list(tool.input_schema["properties"]) == ["query"]
    assert tool.name == "search"
