"""Tools as functions and classes: how they are listed, and the arguments that they receive."""

from __future__ import annotations

from typing import Any, NewType

import pytest
from pydantic import BaseModel, ConfigDict, RootModel

from django_mcp.core.components.base import CacheHint, ConfigurationError
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.tool import Tool, ToolComponent, tool_component
from django_mcp.core.server.component_lists import sort_key
from django_mcp.frame import Frame
from tests.spec import spec

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


def configuration_error(target: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        tool_component(target, **options)
    return str(caught.value)


def call(tool: ToolComponent, arguments: dict[str, Any], frame: Any = None) -> Any:
    assert tool.invoke is not None
    return tool.invoke(tool.validate_input(arguments), frame)


def greet(name: str) -> str:
    """Greets somebody.

    By name.
    """
    return f"Hello {name}"


class CountWords(Tool):
    """Counts words."""

    def execute(self, text: str) -> int:
        return len(text.split())


class TestToolFunction:
    def test_descriptor_contains_function_name_docstring_and_parameters(self) -> None:
        assert tool_component(greet).descriptor() == {
            "name": "greet",
            "description": "Greets somebody.\n\nBy name.",
            "inputSchema": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
                "additionalProperties": False,
            },
        }

    @spec("2026/TOOL-14")
    def test_tool_descriptor_contains_declared_options(self) -> None:
        tool = tool_component(
            greet,
            name="hello",
            title="Hello",
            description="Says hello",
            read_only=True,
            destructive=False,
            idempotent=True,
            open_world=False,
            meta={"example/team": "shop"},
            icons=["https://example.org/hello.png"],
            task_support="optional",
        )
        described = tool.descriptor()
        del described["inputSchema"]
        assert described == {
            "name": "hello",
            "title": "Hello",
            "description": "Says hello",
            "annotations": {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
            "execution": {"taskSupport": "optional"},
            "icons": [{"src": "https://example.org/hello.png"}],
            "_meta": {"example/team": "shop"},
        }

    def test_annotations_of_any_kind_are_listed_beside_the_hints(self) -> None:
        own = {"confidence": 0.9, "category": "billing", "tags": ["a"], "idempotentHint": True}
        tool = tool_component(greet, annotations=own, read_only=True, idempotent=True)
        assert tool.descriptor()["annotations"] == {**own, "readOnlyHint": True}
        assert tool.reads_only

        class Annotated(Tool):
            annotations: Any = {"category": "billing", "readOnlyHint": True}

            def execute(self) -> int:
                return 1

        class Computed(Annotated):
            def annotations(self) -> dict[str, Any]:
                return {"category": "computed"}

        assert tool_component(Annotated).annotations == {
            "category": "billing",
            "readOnlyHint": True,
        }
        assert tool_component(Annotated).reads_only
        assert tool_component(Computed).annotations == {"category": "computed"}

    def test_server_side_options_are_not_part_of_the_descriptor(self) -> None:
        def allowed(frame: Any) -> bool:
            return True

        tool = tool_component(
            greet, permission=allowed, scopes=["a", "b"], cache=CacheHint(5, "public"), order=-2
        )
        assert tool.permission is allowed
        assert tool.scopes == {"a", "b"}
        assert tool.cache is not None
        assert tool.cache.to_protocol() == {"ttlMs": 5, "cacheScope": "public"}
        assert tool.order == -2
        assert tool_component(greet, permission="shop.view_customer").permission
        assert tool_component(greet, scopes="a b").scopes == {"a", "b"}
        assert tool.descriptor() == tool_component(greet).descriptor()

    def test_tool_with_input_schema_receives_arguments_as_one_value(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}

        def with_frame(params: dict[str, Any], frame: Frame) -> Any:
            return params, frame

        def with_anything(params: Any, context: Any) -> Any:
            return params, context

        def nameless(params, context):  # type: ignore[no-untyped-def]
            return params, context

        def alone(params: dict[str, Any]) -> Any:
            return params

        def empty(frame: Frame) -> Any:
            return frame

        frame = Frame()
        for each in (with_frame, nameless):
            assert call(tool_component(each, input_schema=schema), {}, frame) == ({"n": 3}, frame)
        assert call(tool_component(alone, input_schema=schema), {"n": 1}, frame) == {"n": 1}
        assert call(tool_component(empty, input_schema=schema), {"n": 1}, frame) is frame
        assert call(tool_component(lambda: 7, input_schema=schema, name="it"), {}, frame) == 7
        assert "let it take (params, frame)" in configuration_error(
            with_anything, input_schema=schema
        )

    def test_tool_has_its_source_location(self) -> None:
        tool = tool_component(greet)
        assert tool.source == f"{__name__}:{greet.__code__.co_firstlineno}"

    def test_tool_without_a_valid_name_is_rejected(self) -> None:
        assert "give name=…" in configuration_error(lambda: None)
        assert "'say hello'" in configuration_error(greet, name="say hello")


class TestToolClass:
    def test_tool_class_is_named_by_its_class_name_in_snake_case(self) -> None:
        tool = tool_component(CountWords)
        assert tool.name == "count_words"
        assert tool.descriptor()["description"] == "Counts words."
        assert call(tool, {"text": "one two"}) == 2
        assert tool.source.startswith(__name__)
        assert not tool.source.endswith(":0")

    def test_tool_class_can_use_attributes_and_methods(self) -> None:
        class Everything(Tool):
            name = "every.thing"
            read_only = True
            order = 3
            icons = ("data:,x",)

            def title(self) -> str:
                return "A title"

            def description(self) -> str:
                return "All of it"

            def meta(self) -> dict[str, Any]:
                return {"k": 1}

            def task_support(self) -> str:
                return "required"

            def permission(self, frame: Any) -> bool:
                return bool(frame == "yes")

            def scopes(self) -> list[str]:
                return ["all"]

            def cache(self) -> CacheHint:
                return CacheHint(1)

            def output_schema(self) -> dict[str, Any]:
                return {"type": "integer"}

            def execute(self) -> int:
                return 1

        tool = tool_component(Everything)
        assert tool.descriptor() == {
            "name": "every.thing",
            "title": "A title",
            "description": "All of it",
            "inputSchema": NOTHING,
            "outputSchema": {"type": "integer"},
            "execution": {"taskSupport": "required"},
            "annotations": {"readOnlyHint": True},
            "icons": [{"src": "data:,x"}],
            "_meta": {"k": 1},
        }
        assert callable(tool.permission)
        assert tool.permission("yes")
        assert (tool.scopes, tool.cache, tool.order) == (frozenset({"all"}), CacheHint(1), 3)

    def test_tool_class_receives_an_instance_of_its_input_model(self) -> None:
        class Search(Tool):
            class Input(BaseModel):
                query: str
                limit: int = 10

            async def execute(self, params: Input, frame: Frame) -> Any:
                return params.query, params.limit, frame

        tool = tool_component(Search)
        assert tool.is_async
        assert tool.input_schema == {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer", "default": 10},
            },
            "required": ["query"],
            "additionalProperties": False,
        }
        assert isinstance(tool.validate_input({"query": "a"}), Search.Input)
        with pytest.raises(InvalidArguments, match=r"colour: unknown argument \(accepted: query"):
            tool.validate_input({"query": "a", "colour": "red"})

    def test_input_model_with_extra_ignore_accepts_unknown_arguments(self) -> None:
        class Lenient(BaseModel):
            model_config = ConfigDict(extra="ignore")
            a: int = 0

        tool = tool_component(lambda params: params.a, name="it", input_schema=Lenient)
        assert call(tool, {"a": 1, "b": 2}) == 1

    def test_tool_class_with_constructor_arguments_needs_an_instance(self) -> None:
        class Add(Tool):
            def __init__(self, number: int) -> None:
                self.number = number

            def execute(self, to: int) -> int:
                return to + self.number

        assert call(tool_component(Add(3), name="add_three"), {"to": 1}) == 4
        assert "register an instance of it" in configuration_error(Add)

    def test_registration_options_override_attributes_of_the_class(self) -> None:
        tool = tool_component(CountWords, name="wc", title="Words", description="")
        assert (tool.name, tool.title, tool.descriptor()["description"]) == ("wc", "Words", "")

    def test_tool_class_does_not_inherit_the_description_of_its_base(self) -> None:
        class CountLetters(CountWords):
            def execute(self, text: str) -> int:
                return len(text)

        assert tool_component(CountLetters).descriptor()["description"] == ""

    def test_params_parameter_without_an_input_schema_is_rejected(self) -> None:
        class Vague(Tool):
            def execute(self, params, frame):  # type: ignore[no-untyped-def]
                return params

        assert "declare Input or input_schema" in configuration_error(Vague)


class TestDescription:
    def test_callable_description_is_called_for_each_descriptor(self) -> None:
        calls: list[int] = []

        def describe() -> str:
            calls.append(1)
            return f"Listed {len(calls)} times"

        tool = tool_component(greet, description=describe)
        assert calls == []
        assert tool.descriptor()["description"] == "Listed 1 times"
        assert tool.descriptor()["description"] == "Listed 2 times"

    def test_lazy_translation_is_evaluated_in_the_descriptor(self) -> None:
        class Lazy:
            def casefold(self) -> str:
                return "bonjour"

            def __str__(self) -> str:
                return "Bonjour"

        tool = tool_component(greet, title=Lazy(), description=Lazy())
        assert tool.descriptor()["title"] == tool.descriptor()["description"] == "Bonjour"


class TestTitle:
    @spec("TOOL-12")
    @pytest.mark.parametrize(
        ("options", "shown", "listed"),
        [
            ({"title": "T"}, "T", "T"),
            ({}, "greet", None),
        ],
    )
    def test_display_title_is_the_title_then_the_name(
        self, options: Any, shown: str, listed: str | None
    ) -> None:
        tool = tool_component(greet, **options)
        assert tool.display_title == shown
        assert tool.descriptor().get("title") == listed


class TestHandWrittenSchema:
    @spec("2026/SCH-09")
    def test_hand_written_schema_is_listed_unchanged(self) -> None:
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"city": {"type": "string"}},
            "properties": {"city": {"$ref": "#/$defs/city"}},
            "anyOf": [{"required": ["city"]}],
        }
        tool = tool_component(lambda params: None, name="it", input_schema=schema)
        assert tool.descriptor()["inputSchema"] == schema

    def test_hand_written_schema_is_enforced_and_supplies_defaults(self) -> None:
        schema = {
            "properties": {"n": {"type": "integer", "maximum": 9}, "m": {"default": "x"}},
            "required": ["n"],
        }
        tool = tool_component(lambda params: params, name="it", input_schema=schema)
        assert tool.input_schema["type"] == "object"
        assert call(tool, {"n": 1}) == {"n": 1, "m": "x"}
        for bad in ({}, {"n": 10}, {"n": "1"}):
            with pytest.raises(InvalidArguments):
                tool.validate_input(bad)

    @spec("JSCH-06", "TOOL-05", "2026/TOOL-05")
    def test_hand_written_schema_that_is_not_an_object_is_rejected(self) -> None:
        assert "arguments are an object" in configuration_error(
            greet, input_schema={"type": "array"}
        )
        assert "cannot be used" in configuration_error(
            greet, input_schema={"type": "object", "$ref": "#/x"}
        )
        assert "give a pydantic model with fields, or a dict" in configuration_error(
            greet, input_schema="object"
        )

    @spec("2026/XH-04")
    def test_hand_written_schema_with_an_invalid_header_name_is_rejected(self) -> None:
        def schema(header: str) -> dict[str, Any]:
            return {"properties": {"region": {"type": "string", "x-mcp-header": header}}}

        tool = tool_component(lambda params: None, name="it", input_schema=schema("Region"))
        assert len(tool.param_headers) == 1
        assert "A header of" in configuration_error(
            lambda params: None, name="it", input_schema=schema("not a token")
        )


class TestSortOrder:
    def test_tools_are_sorted_by_order_then_by_name(self) -> None:
        tools = [
            tool_component(greet, name=name, order=order)
            for name, order in (("c", 0), ("b", 10), ("a", 2), ("d", -1), ("e", -10), ("b2", 0))
        ]
        ordered = sorted(tools, key=sort_key)
        assert [tool.name for tool in ordered] == ["e", "d", "b2", "c", "a", "b"]
        assert all(isinstance(part, str) for tool in tools for part in sort_key(tool))


def may_greet(frame: Any) -> bool:
    return True


async def adescribe() -> str:
    return "Greet."


class TestConfigurationErrors:
    @spec("2026/CCH-02", "2026/CCH-03")
    @pytest.mark.parametrize(
        ("options", "remedy"),
        [
            ({"colour": "red"}, "There is no option 'colour'"),
            ({"task_support": "maybe"}, '"forbidden", "optional" or "required"'),
            ({"permission": "customers"}, "app_label.codename"),
            ({"icons": ["ftp://x"]}, "src of an icon"),
            ({"meta": "x"}, "give a dict"),
            ({"cache": 5}, "give a CacheHint"),
            ({"cache": {"ttl_ms": -1}}, "milliseconds"),
            ({"cache": {"ttl_ms": 1, "scope": "all"}}, '"private" or "public"'),
            ({"order": 10**9}, "smaller integer"),
            ({"order": "first"}, "smaller integer"),
            ({"complete": {"colour": greet}}, "none of its arguments"),
            ({"complete": 5}, 'write {"argument": …}'),
            ({"complete": ["name"]}, 'write {"argument": …}'),
            ({"complete": {"name": "xyz"}}, "give a list of values"),
            ({"complete": {"name": 5}}, "give a list of values"),
            ({"scopes": 5}, "write a list"),
            ({"cache": {"ttl": 1}}, "give a CacheHint"),
            ({"cache": {"scope": "public"}}, "give a CacheHint"),
            ({"meta": {"a/b": object()}}, "is no JSON"),
            ({"description": lambda language: "Greet."}, "takes arguments"),
            ({"description": adescribe}, "is async"),
            ({"input_schema": RootModel[list[int]]}, "a pydantic model with fields"),
            ({"read_only": "no"}, "read_only of"),
            ({"destructive": 1}, "write True or False"),
            ({"idempotent": []}, "write True or False"),
            ({"open_world": "yes"}, "write True or False"),
            ({"requests_input": "yes"}, "write True or False"),
            ({"always_load": 1}, "write True or False"),
        ],
    )
    def test_invalid_option_is_rejected_with_a_remedy(self, options: Any, remedy: str) -> None:
        assert remedy in configuration_error(greet, **options)

    @pytest.mark.parametrize(
        ("options", "remedy"),
        [
            ({"read_only": True, "annotations": {"readOnlyHint": False}}, "write one of them"),
            ({"annotations": {"readOnlyHint": "yes"}}, "write True or False"),
            ({"annotations": ["a"]}, "give a dict"),
            ({"annotations": {"a": object()}}, "are no JSON"),
        ],
    )
    def test_annotations_that_contradict_or_are_no_json_are_rejected(
        self, options: Any, remedy: str
    ) -> None:
        assert remedy in configuration_error(greet, **options)

    def test_function_as_a_permission_in_a_class_is_rejected_with_a_remedy(self) -> None:
        class Greet(Tool):
            permission = may_greet

            def execute(self) -> None: ...

        class Guarded(Tool):
            permission = staticmethod(may_greet)

            def execute(self) -> None: ...

        assert "staticmethod" in configuration_error(Greet)
        assert tool_component(Guarded).permission is may_greet

    def test_output_schema_may_be_a_new_type(self) -> None:
        tool = tool_component(greet, output_schema=NewType("Count", int))
        assert tool.output_schema == {"type": "integer"}

    def test_object_that_is_not_a_tool_is_rejected(self) -> None:
        class NoTool:
            pass

        class Lazy(Tool):
            pass

        assert "derive it from Tool" in configuration_error(NoTool)
        assert "has no method execute" in configuration_error(Lazy)
        assert "give a function" in configuration_error("greet")
