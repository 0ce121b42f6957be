"""Conversion of the return values of handlers to results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypeAliasType

from django_mcp.core.components import results
from django_mcp.core.components.base import ConfigurationError, InvalidOutput, UnserializableResult
from django_mcp.core.components.prompt import prompt_component
from django_mcp.core.components.resource import resource_component
from django_mcp.core.components.responses import Response, ToolResponse
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.protocol.content import (
    EmbeddedResource,
    ImageContent,
    Message,
    ResourceLink,
    TextContent,
)
from django_mcp.core.protocol.errors import McpError, ToolError
from django_mcp.core.protocol.schema import compiler
from django_mcp.frame import Frame


class Status(Enum):
    OPEN = "open"


class Ticket(BaseModel):
    id: int
    title: str | None = None


class Everything(BaseModel):
    price: Decimal
    when: datetime
    day: date
    key: UUID
    status: Status
    tags: set[str]
    length: timedelta
    inner: list[Ticket]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> Decimal:
        return self.price * 2


@dataclass
class Point:
    x: int
    y: int


EVERYTHING = Everything(
    price=Decimal("1.10"),
    when=datetime(2026, 7, 28, 12, tzinfo=UTC),
    day=date(2026, 7, 28),
    key=UUID(int=1),
    status=Status.OPEN,
    tags={"a"},
    length=timedelta(minutes=1),
    inner=[Ticket(id=1)],
)


class Row:
    """Like a model instance: it has attributes, and more of them than the output schema."""

    def __init__(self, identity: int) -> None:
        self.id = identity
        self.title = f"Ticket {identity}"
        self.secret = "s"


class Query:
    """A lazy iterable without other methods."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


class Lazy:
    """A lazily translated string."""

    def casefold(self) -> str:
        return "bonjour"

    def __str__(self) -> str:
        return "Bonjour"


def plain() -> Any: ...


def tool_returning(annotation: Any, **options: Any) -> ToolComponent:
    def f() -> None: ...

    f.__annotations__["return"] = annotation
    return tool_component(f, **options)


def result(value: Any, tool: ToolComponent | None = None) -> dict[str, Any]:
    return results.tool_result(tool or tool_component(plain), value)


class TestToolWithoutOutputSchema:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("Hello", "Hello"),
            ("", ""),
            (3, "3"),
            (2.5, "2.5"),
            (True, "true"),
            (Decimal("1.10"), "1.10"),
            (date(2026, 7, 28), "2026-07-28"),
            (Status.OPEN, "open"),
            (Lazy(), "Bonjour"),
        ],
    )
    def test_simple_value_is_returned_as_text_content(self, value: Any, text: str) -> None:
        assert result(value) == {"content": [{"type": "text", "text": text}]}

    def test_none_is_returned_as_an_empty_result(self) -> None:
        assert result(None) == {"content": []}

    @pytest.mark.parametrize(
        ("value", "structure"),
        [
            ({"a": [1, None]}, {"a": [1, None]}),
            ([], []),
            (["a", "b"], ["a", "b"]),
            ((1, 2), [1, 2]),
            (Ticket(id=1), {"id": 1, "title": None}),
            (Point(1, 2), {"x": 1, "y": 2}),
            ({"day": date(2026, 7, 28)}, {"day": "2026-07-28"}),
            (Query({"id": 1}), [{"id": 1}]),
            ({"title": Lazy()}, {"title": "Bonjour"}),
        ],
    )
    def test_structure_is_returned_as_structured_content_and_json_text(
        self, value: Any, structure: Any
    ) -> None:
        assert result(value) == {
            "content": [{"type": "text", "text": json.dumps(structure, separators=(",", ":"))}],
            "structuredContent": structure,
        }

    def test_content_blocks_and_strings_are_returned_in_order(self) -> None:
        image = ImageContent("AA", "image/png")
        assert result(image) == {"content": [image.to_protocol()]}
        assert result(["See:", image, TextContent("!")]) == {
            "content": [
                {"type": "text", "text": "See:"},
                image.to_protocol(),
                {"type": "text", "text": "!"},
            ]
        }

    def test_returned_tool_error_sets_is_error(self) -> None:
        assert result(ToolError("Try later")) == {
            "content": [{"type": "text", "text": "Try later"}],
            "isError": True,
        }

    @pytest.mark.parametrize(
        ("value", "remedy"),
        [
            (b"\x00", "image"),
            (object(), "not JSON serializable"),
            ({"a": object()}, "not JSON serializable"),
            (Query(Row(1)), "not JSON serializable"),
            ([TextContent("a"), 3], "TextContent"),
            (Response.prompt().user("a"), r"Response\.tool\(\)"),
        ],
    )
    def test_unsupported_return_value_is_rejected(self, value: Any, remedy: str) -> None:
        with pytest.raises(UnserializableResult, match=remedy):
            result(value)

    def test_value_that_contains_itself_is_rejected(self) -> None:
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(UnserializableResult):
            result(circle)


class TestReturnAnnotation:
    @pytest.mark.parametrize(
        "annotation",
        [
            None,
            str,
            bytes,
            Any,
            object,
            str | None,
            Annotated[str, "a comment"],
            Response,
            ToolResponse,
            TextContent,
            list[TextContent],
            list[str | ImageContent],
            tuple[str | TextContent, ...],
            Sequence[ResourceLink],
            Frame,
            tuple[str, Frame],
            tuple[ToolResponse | McpError, Frame],
            Response | tuple[Response, Frame],
            Ticket | Any,
            TypeAliasType("Said", str),
        ],
    )
    def test_text_or_content_annotation_has_no_output_schema(self, annotation: Any) -> None:
        assert tool_returning(annotation).output_schema is None

    @pytest.mark.parametrize(
        ("annotation", "schema"),
        [
            (int, {"type": "integer"}),
            (list[str], {"type": "array", "items": {"type": "string"}}),
            (tuple[int, Frame], {"type": "integer"}),
            (int | ToolError, {"type": "integer"}),
            (int | Response | tuple[int, Frame], {"type": "integer"}),
            (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            (Annotated[int, Field(ge=0)], {"type": "integer", "minimum": 0}),
            (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        ],
    )
    def test_other_return_annotation_becomes_the_output_schema(
        self, annotation: Any, schema: Any
    ) -> None:
        assert tool_returning(annotation).output_schema == schema
        assert tool_returning(annotation).descriptor()["outputSchema"] == schema

    def test_declared_output_schema_overrides_the_annotation(self) -> None:
        tool = tool_returning(int, output_schema={"type": "string"})
        assert tool.output_schema == {"type": "string"}

    def test_return_annotation_unknown_to_pydantic_is_rejected(self) -> None:
        with pytest.raises(ConfigurationError, match="has a type without a JSON form"):
            tool_returning(Row)

    def test_returned_object_is_serialized_with_the_annotated_model(self) -> None:
        assert result(Row(1), tool_returning(Ticket))["structuredContent"] == {
            "id": 1,
            "title": "Ticket 1",
        }
        assert result(Query(Row(1), Row(2)), tool_returning(list[Ticket]))["structuredContent"] == [
            {"id": 1, "title": "Ticket 1"},
            {"id": 2, "title": "Ticket 2"},
        ]

    def test_serialized_result_satisfies_the_output_schema(self) -> None:
        tool = tool_returning(Everything)
        structure = result(EVERYTHING, tool)["structuredContent"]
        assert tool.output_schema is not None
        assert compiler.compile(tool.output_schema).problems(structure) == ""
        assert structure["double"] == "2.20"
        assert structure["inner"] == [{"id": 1, "title": None}]

    def test_none_is_returned_as_null_if_annotation_allows_it(self) -> None:
        assert result(None, tool_returning(int | None)) == {
            "content": [{"type": "text", "text": "null"}],
            "structuredContent": None,
        }

    def test_value_that_violates_the_return_annotation_is_rejected(self) -> None:
        with pytest.raises(InvalidOutput, match="id: required, but missing"):
            result({"title": "a"}, tool_returning(Ticket))
        with pytest.raises(InvalidOutput):
            result(None, tool_returning(int))
        with pytest.raises(UnserializableResult):
            result({"a": object()}, tool_returning(dict[str, object]))


class TestDeclaredOutputSchema:
    tool = tool_component(
        plain,
        output_schema={
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    )

    def test_declared_output_schema_is_enforced(self) -> None:
        assert result({"n": 1}, self.tool)["structuredContent"] == {"n": 1}
        for bad in ({}, {"n": "1"}, "text", 3, None):
            with pytest.raises(InvalidOutput):
                result(bad, self.tool)

    def test_declared_output_schema_is_enforced_on_a_response(self) -> None:
        good = Response.tool().text("One").structured({"n": 1})
        assert result(good, self.tool)["structuredContent"] == {"n": 1}
        with pytest.raises(InvalidOutput):
            result(Response.tool().structured({"n": "1"}), self.tool)

    def test_output_schema_requires_structured_content(self) -> None:
        for bad in (Response.tool().text("1"), TextContent("1")):
            with pytest.raises(InvalidOutput, match="no structured content"):
                result(bad, self.tool)

    def test_output_schema_is_not_enforced_on_errors(self) -> None:
        assert result(Response.tool().error("No"), self.tool)["isError"] is True
        assert result(ToolError("No"), self.tool)["isError"] is True

    def test_output_schema_can_be_a_pydantic_model(self) -> None:
        tool = tool_component(plain, output_schema=Ticket)
        assert result(Response.tool().structured({"id": 1, "title": None}), tool)
        with pytest.raises(InvalidOutput):
            result(Response.tool().structured({"id": "x", "title": None}), tool)

    def test_validate_output_can_be_called_directly(self) -> None:
        assert self.tool.validate_output({"n": 1}) == {"n": 1}
        assert tool_component(plain).validate_output(3) == 3
        with pytest.raises(InvalidOutput):
            self.tool.validate_output({})


class TestResourceResult:
    uri = "shop://notes"

    def read(self, value: Any, **options: Any) -> Any:
        resource = resource_component(plain, self.uri, **options)
        return results.read_result(resource, self.uri, value)["contents"]

    @pytest.mark.parametrize(
        ("value", "contents"),
        [
            (None, {"mimeType": "text/plain", "text": ""}),
            ("Hello", {"mimeType": "text/plain", "text": "Hello"}),
            (Lazy(), {"mimeType": "text/plain", "text": "Bonjour"}),
            (b"\xfb\xff", {"mimeType": "application/octet-stream", "blob": "+/8="}),
            ({"a": 1}, {"mimeType": "application/json", "text": '{"a":1}'}),
            ([], {"mimeType": "application/json", "text": "[]"}),
            (Ticket(id=1), {"mimeType": "application/json", "text": '{"id":1,"title":null}'}),
        ],
    )
    def test_resource_mime_type_is_derived_from_the_value(self, value: Any, contents: Any) -> None:
        assert self.read(value) == [{"uri": self.uri, **contents}]

    @pytest.mark.parametrize("value", ["a", b"a", {"a": 1}, None])
    def test_declared_mime_type_overrides_the_derived_one(self, value: Any) -> None:
        assert self.read(value, mime_type="text/x")[0]["mimeType"] == "text/x"

    def test_list_of_embedded_resources_is_returned_as_contents(self) -> None:
        several = [EmbeddedResource("shop://a", "A"), EmbeddedResource("shop://b", blob=b"B")]
        assert self.read(several) == [
            {"uri": "shop://a", "mimeType": "text/plain", "text": "A"},
            {"uri": "shop://b", "mimeType": "application/octet-stream", "blob": "Qg=="},
        ]

    @pytest.mark.parametrize(
        "value", [object(), ImageContent("AA", "image/png"), Response.tool(), [Message("user", "")]]
    )
    def test_unsupported_return_value_is_rejected(self, value: Any) -> None:
        with pytest.raises(UnserializableResult):
            self.read(value)


class TestPromptResult:
    def messages(self, value: Any) -> Any:
        return results.prompt_result(prompt_component(plain), value)["messages"]

    def test_none_is_returned_as_an_empty_result(self) -> None:
        assert results.prompt_result(prompt_component(plain), None) == {"messages": []}

    @pytest.mark.parametrize(
        "value",
        [
            "Hi",
            ["Hi"],
            TextContent("Hi"),
            Message("user", "Hi"),
            {"role": "user", "content": "Hi"},
            ({"role": "user", "content": {"type": "text", "text": "Hi"}},),
            Response.prompt().user("Hi"),
        ],
    )
    def test_prompt_value_is_returned_as_a_user_message(self, value: Any) -> None:
        assert self.messages(value) == [{"role": "user", "content": {"type": "text", "text": "Hi"}}]

    def test_prompt_list_is_returned_as_messages_with_roles(self) -> None:
        messages = self.messages(["Hi", Message("assistant", "Hello"), Lazy()])
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert messages[2]["content"]["text"] == "Bonjour"

    @pytest.mark.parametrize(
        "value",
        [3, [3], {"content": "Hi"}, {"role": "system", "content": "Hi"}, Response.tool(), b"Hi"],
    )
    def test_unsupported_return_value_is_rejected(self, value: Any) -> None:
        with pytest.raises(UnserializableResult):
            self.messages(value)


class TestCompletionResult:
    def complete(self, value: Any) -> Any:
        return results.completion_result(value)["completion"]

    @pytest.mark.parametrize(
        ("value", "values"),
        [
            (None, []),
            ([], []),
            (["a", "b"], ["a", "b"]),
            (("a",), ["a"]),
            ((name for name in "ab"), ["a", "b"]),
            ("abc", ["abc"]),
            ([1, Lazy()], ["1", "Bonjour"]),
        ],
    )
    def test_completion_contains_values_and_total(self, value: Any, values: list[str]) -> None:
        assert self.complete(value) == {
            "values": values,
            "total": len(values),
            "hasMore": False,
        }

    def test_completion_contains_at_most_100_values(self) -> None:
        completion = self.complete([str(i) for i in range(250)])
        assert completion == {"values": [str(i) for i in range(100)], "total": 250, "hasMore": True}

    def test_completion_response_is_returned_unchanged(self) -> None:
        response = Response.completion(["a"]).add("b")
        assert self.complete(response) == {"values": ["a", "b"]}
        assert self.complete(response.with_pagination(9, True)) == {
            "values": ["a", "b"],
            "total": 9,
            "hasMore": True,
        }

    @pytest.mark.parametrize("value", [3, Response.tool(), object()])
    def test_unsupported_return_value_is_rejected(self, value: Any) -> None:
        with pytest.raises(UnserializableResult):
            self.complete(value)
