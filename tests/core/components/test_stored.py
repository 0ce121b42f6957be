"""Session components stored as JSON, and restored by any worker."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from django_mcp.core.components.base import CacheHint, Component, ConfigurationError, InvalidOutput
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.components.tool import Tool, ToolComponent, tool_component
from django_mcp.frame import Frame

AnyComponent = TypeVar("AnyComponent", bound=Component)


class Sum(BaseModel):
    a: int
    b: int = 1


def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


def add_params(params: dict[str, int], frame: Frame) -> int:
    return params["a"] + params["b"]


def allowed(frame: Any) -> bool:
    return True


def suggest(value: str) -> list[str]:
    return [value]


class Shout(Tool):
    """Shouts."""

    def execute(self, text: str) -> str:
        return text.upper()


def again(component: AnyComponent) -> AnyComponent:
    """Return the component as another worker restores it from the stored JSON."""
    kind: Any = type(component)
    copy: AnyComponent = kind.from_spec(json.loads(json.dumps(component.to_spec())))
    return copy


def configuration_error(kind: Any, spec: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        kind.from_spec(spec)
    return str(caught.value)


class TestStoredTool:
    def test_stored_tool_without_a_handler_validates_but_has_no_invoke(self) -> None:
        tool = ToolComponent.from_spec({"kind": "tool", "name": "sum", "input_schema": Sum})
        assert tool.invoke is None
        assert tool.descriptor() == {
            "name": "sum",
            "description": "",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
                "required": ["a"],
                "additionalProperties": False,
            },
        }
        assert tool.validate_input({"a": 2}) == {"a": 2, "b": 1}
        with pytest.raises(InvalidArguments):
            tool.validate_input({"a": "two"})
        assert tool.source == ""

    def test_stored_tool_without_a_schema_accepts_no_arguments(self) -> None:
        tool = ToolComponent.from_spec({"name": "now"})
        assert tool.validate_input({}) == {}
        with pytest.raises(InvalidArguments):
            tool.validate_input({"zone": "UTC"})

    def test_stored_tool_survives_a_json_round_trip(self) -> None:
        tool = ToolComponent.from_spec(
            {
                "kind": "tool",
                "name": "sum",
                "title": "Sum",
                "description": lambda: "Adds",
                "input_schema": Sum,
                "output_schema": Sum,
                "read_only": True,
                "meta": {"k": 1},
                "icons": ["data:,x"],
                "task_support": "optional",
                "permission": allowed,
                "scopes": {"a"},
                "cache": CacheHint(3),
                "order": 2,
                "complete": {"a": suggest},
                "handler": add_params,
            }
        )
        copy = again(tool)
        assert copy.descriptor() == tool.descriptor()
        assert copy.permission is allowed
        assert (copy.scopes, copy.cache, copy.order) == (frozenset("a"), CacheHint(3), 2)
        assert copy.complete["a"].function is suggest
        assert copy.invoke is not None
        assert copy.invoke(copy.validate_input({"a": 2}), Frame()) == 3
        with pytest.raises(InvalidOutput):
            copy.validate_output({"a": "x"})

    @pytest.mark.parametrize("handler", [add, f"{__name__}:add", f"{__name__}.add"])
    def test_stored_tool_derives_its_schema_from_its_handler(self, handler: Any) -> None:
        tool = ToolComponent.from_spec({"name": "sum", "handler": handler})
        for each in (tool, again(tool)):
            assert each.invoke is not None
            assert each.descriptor() == tool_component(add, name="sum").descriptor()
            assert each.invoke(each.validate_input({"a": 2}), None) == 3

    def test_stored_tool_can_have_a_class_as_handler(self) -> None:
        tool = again(ToolComponent.from_spec({"handler": Shout}))
        assert tool.name == "shout"
        assert tool.invoke is not None
        assert tool.invoke({"text": "a"}, None) == "A"

    def test_stored_tool_keeps_its_permission_codename(self) -> None:
        spec = {"name": "sum", "permission": "shop.view_customer"}
        assert ToolComponent.from_spec(spec).permission == "shop.view_customer"

    def test_equal_specs_return_the_same_component(self) -> None:
        tool = ToolComponent.from_spec({"kind": "tool", "name": "sum", "input_schema": Sum})
        assert again(tool) is again(tool)

    def test_to_spec_rejects_a_tool_declared_in_code(self) -> None:
        with pytest.raises(ConfigurationError, match="was registered for one session"):
            tool_component(add).to_spec()


class TestStoredResource:
    def test_stored_resource_is_named_by_the_end_of_its_uri(self) -> None:
        resource = ResourceComponent.from_spec({"kind": "resource", "uri": "file:///docs/a.txt"})
        assert again(resource).descriptor() == {
            "uri": "file:///docs/a.txt",
            "name": "a.txt",
            "mimeType": "text/plain",
        }
        assert resource.invoke is None
        assert resource.validate_input({"uri": "file:///docs/a.txt"}) == {}

    def test_stored_template_without_a_name_is_rejected(self) -> None:
        spec = {"kind": "resource_template", "template": "file:///{path}", "name": "file"}
        template = TemplateComponent.from_spec(spec)
        assert again(template).descriptor() == {
            "uriTemplate": "file:///{path}",
            "name": "file",
            "mimeType": "text/plain",
        }
        assert template.validate_input({"path": "a", "uri": "file:///a"}) == {"path": "a"}
        assert "needs a name" in configuration_error(
            TemplateComponent, {"template": "file:///{path}"}
        )


class TestStoredPrompt:
    @pytest.mark.parametrize(
        "arguments",
        [
            Sum,
            [{"name": "a", "required": True}, {"name": "b"}],
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
        ],
    )
    def test_stored_prompt_accepts_a_model_a_list_or_a_schema(self, arguments: Any) -> None:
        prompt = PromptComponent.from_spec({"name": "sum", "arguments": arguments})
        copy = again(prompt)
        assert copy.invoke is None
        assert copy.descriptor() == prompt.descriptor()
        assert [a["name"] for a in copy.arguments] == ["a", "b"]

    def test_stored_prompt_without_arguments_lists_none(self) -> None:
        assert PromptComponent.from_spec({"name": "hi"}).descriptor() == {"name": "hi"}


class TestConfigurationErrors:
    def test_handler_that_cannot_be_imported_is_rejected(self) -> None:
        def inside() -> None: ...

        for handler in (inside, lambda: None, Frame().assign):
            assert "at the top of a module" in configuration_error(
                ToolComponent, {"name": "it", "handler": handler}
            )

    def test_dotted_path_without_a_handler_is_rejected(self) -> None:
        for path in (f"{__name__}:missing", "tests.no.such.module", "tests.no path"):
            assert "There is no handler at" in configuration_error(
                ToolComponent, {"name": "it", "handler": path}
            )

    @pytest.mark.parametrize("path", ["json:loads", f"{__name__}:json.loads"])
    def test_function_of_no_installed_app_is_rejected(self, path: str) -> None:
        for option, value in (("handler", path), ("permission", path), ("complete", {"a": path})):
            assert "'json' belongs to no installed app" in configuration_error(
                ToolComponent, {"name": "it", option: value}
            )

    def test_unknown_option_is_rejected(self) -> None:
        assert "no option 'colour'" in configuration_error(
            ToolComponent, {"name": "it", "colour": 1}
        )

    def test_input_schema_of_an_unsupported_type_is_rejected(self) -> None:
        assert "pydantic model" in configuration_error(
            ToolComponent, {"name": "i", "input_schema": Frame}
        )
