"""Prompts: their arguments in lists, and the conversion of the strings that clients send."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp.core.components.base import ConfigurationError, UnserializableResult
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.prompt import Prompt, PromptComponent, prompt_component
from django_mcp.core.components.responses import PromptResponse, Response
from django_mcp.core.components.results import prompt_result
from django_mcp.frame import Frame
from tests.spec import spec


class Tone(Enum):
    KIND = "kind"
    STERN = "stern"


class Review(BaseModel):
    file: str
    depth: int = 1


def plan(
    topic: Annotated[str, Field(description="About what", title="Topic")],
    tone: Tone = Tone.KIND,
    days: int = 3,
    start: date | None = None,
    guests: list[str] = [],  # noqa: B006 - pydantic copies it
) -> str:
    """Plans something."""
    return topic


def review(
    tone: Literal["plain", "playful"],
    length: Annotated[Literal["short"] | None, Field(description="How long")] = None,
) -> str:
    return ""


def nothing() -> str:
    return ""


def configuration_error(target: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        prompt_component(target, **options)
    return str(caught.value)


def arguments(prompt: PromptComponent) -> Any:
    return prompt.descriptor()["arguments"]


class TestDescriptor:
    def test_description_of_an_argument_names_its_choices(self) -> None:
        assert [argument["description"] for argument in arguments(prompt_component(review))] == [
            "Required string parameter (one of: plain, playful)",
            "How long (one of: short)",
        ]

    def test_prompt_function_lists_its_parameters_as_arguments(self) -> None:
        assert prompt_component(plan).descriptor() == {
            "name": "plan",
            "description": "Plans something.",
            "arguments": [
                {"name": "topic", "title": "Topic", "description": "About what", "required": True},
                {
                    "name": "tone",
                    "description": "Optional parameter (one of: kind, stern)",
                    "required": False,
                },
                {"name": "days", "description": "Optional integer parameter", "required": False},
                {"name": "start", "description": "Optional parameter", "required": False},
                {"name": "guests", "description": "Optional array parameter", "required": False},
            ],
        }

    def test_prompt_function_without_parameters_lists_no_arguments(self) -> None:
        assert prompt_component(nothing, title="Nothing", icons=["data:,x"]).descriptor() == {
            "name": "nothing",
            "title": "Nothing",
            "icons": [{"src": "data:,x"}],
        }

    @pytest.mark.parametrize(
        "declared",
        [
            Review,
            [{"name": "file", "required": True}, {"name": "depth"}],
            {"properties": {"file": {}, "depth": {"type": "integer"}}, "required": ["file"]},
        ],
    )
    def test_arguments_can_be_a_model_a_list_or_a_schema(self, declared: Any) -> None:
        prompt = prompt_component(lambda params: params, name="it", arguments=declared)
        assert [(a["name"], a["required"]) for a in arguments(prompt)] == [
            ("file", True),
            ("depth", False),
        ]

    def test_declared_argument_is_listed_unchanged(self) -> None:
        listed = {"name": "file", "title": "File", "description": "Which", "required": True}
        assert arguments(prompt_component(lambda p: p, name="it", arguments=[listed])) == [listed]


class TestArgumentValidation:
    @spec("PROMPT-13")
    def test_argument_strings_are_converted_to_parameter_types(self) -> None:
        filled = prompt_component(plan).validate_input(
            {
                "topic": "5",
                "tone": "stern",
                "days": "2",
                "start": "2026-07-28",
                "guests": '["Ada"]',
            }
        )
        assert filled == {
            "topic": "5",
            "tone": Tone.STERN,
            "days": 2,
            "start": date(2026, 7, 28),
            "guests": ["Ada"],
        }

    def test_argument_strings_are_converted_to_schema_types(self) -> None:
        schema = {
            "properties": {
                "n": {"type": "integer"},
                "on": {"type": "boolean"},
                "s": {"type": "string"},
                "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "free": {},
                "all": True,
                "o": {"$ref": "#/$defs/o"},
            },
            "$defs": {"o": {"type": "object"}},
        }
        prompt = prompt_component(lambda params: params, name="it", arguments=schema)
        texts = {"n": "1", "on": "true", "s": "1", "any": "1", "free": "1", "all": "1", "o": "{}"}
        assert prompt.validate_input(texts) == {**texts, "n": 1, "on": True, "o": {}}

    @pytest.mark.parametrize(
        ("entered", "problem"),
        [
            ({}, "topic: required"),
            ({"topic": "a", "days": "many"}, "days: Input should be a valid integer"),
            ({"topic": "a", "guests": "Ada"}, "guests: Input should be a valid list"),
            ({"topic": "a", "place": "Bern"}, "place: unknown argument"),
        ],
    )
    def test_invalid_argument_is_rejected_with_its_name(self, entered: Any, problem: str) -> None:
        with pytest.raises(InvalidArguments, match=problem):
            prompt_component(plan).validate_input(entered)

    def test_missing_and_unknown_arguments_of_a_list_are_rejected(self) -> None:
        prompt = prompt_component(
            lambda params: params, name="it", arguments=[{"name": "file", "required": True}]
        )
        assert prompt.validate_input({"file": "a"}) == {"file": "a"}
        for bad in ({}, {"file": "a", "more": "b"}):
            with pytest.raises(InvalidArguments):
                prompt.validate_input(bad)


class TestPromptClass:
    def test_prompt_class_can_use_attributes_and_methods(self) -> None:
        class CodeReview(Prompt):
            """Reviews code."""

            title = "Code review"

            def arguments(self) -> list[dict[str, Any]]:
                return [{"name": "file", "required": True}]

            def get_messages(self, params: dict[str, str], frame: Frame) -> PromptResponse:
                return Response.prompt().user(params["file"])

            async def complete_file(
                self, value: str, arguments: dict[str, str], frame: Frame
            ) -> list[str]:
                return [value, *arguments]

        prompt = prompt_component(CodeReview)
        assert prompt.name == "code_review"
        assert prompt.descriptor()["title"] == "Code review"
        assert prompt.invoke is not None
        assert prompt.invoke(prompt.validate_input({"file": "a"}), Frame()).messages
        assert prompt.complete["file"].is_async

    def test_prompt_class_receives_an_instance_of_its_input_model(self) -> None:
        class CodeReview(Prompt):
            class Input(Review):
                pass

            async def get_messages(self, params: Input) -> str:
                return params.file * params.depth

        prompt = prompt_component(CodeReview)
        assert prompt.is_async
        assert prompt.validate_input({"file": "a", "depth": "2"}).depth == 2

    def test_prompt_class_lists_the_parameters_of_get_messages(self) -> None:
        class CodeReview(Prompt):
            def get_messages(self, file: str, frame: Frame) -> str:
                return file

        assert [a["name"] for a in arguments(prompt_component(CodeReview))] == ["file"]


class TestCompletion:
    async def test_completion_function_receives_its_declared_parameters(self) -> None:
        def value_only(value: str) -> list[str]:
            return [value]

        def with_arguments(value: str, chosen: dict[str, str]) -> list[str]:
            return [value, *chosen]

        def with_frame(value: str, frame: Frame) -> Any:
            return value, frame

        frame = Frame()

        def suggested(function: Any) -> Any:
            prompt = prompt_component(plan, complete={"topic": function})
            return prompt.complete["topic"].invoke("a", {"days": "2"}, frame)

        assert suggested(value_only) == ["a"]
        assert suggested(with_arguments) == ["a", "days"]
        assert suggested(with_frame) == ("a", frame)

    def test_async_completion_function_is_marked_as_async(self) -> None:
        async def slow(value: str) -> list[str]:
            return [value]

        assert prompt_component(plan, complete={"topic": slow}).complete["topic"].is_async
        quick = prompt_component(plan, complete={"topic": lambda value: [value]})
        assert not quick.complete["topic"].is_async

    def test_enum_and_literal_parameters_are_completed_automatically(self) -> None:
        def f(size: Literal["s", "m"], tone: Tone, free: str) -> str:
            return ""

        prompt = prompt_component(f)
        assert set(prompt.complete) == {"size", "tone"}
        assert prompt.complete["tone"].invoke("S", {}, None) == ["stern"]

    def test_invalid_completion_function_is_rejected(self) -> None:
        assert "none of its arguments" in configuration_error(plan, complete={"place": nothing})
        assert "let it take (value)" in configuration_error(plan, complete={"topic": nothing})


class TestConfigurationErrors:
    def test_invalid_prompt_is_rejected_with_a_remedy(self) -> None:
        def any_keyword(**more: str) -> str:
            return ""

        class NoPrompt(Prompt):
            pass

        assert "name them, or declare arguments" in configuration_error(any_keyword)
        assert "need names" in configuration_error(nothing, arguments=[{"description": "a"}])
        assert "has no method get_messages" in configuration_error(NoPrompt)
        assert "There is no option 'mime_type'" in configuration_error(nothing, mime_type="a/b")


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_tuple_of_a_role_and_a_text_is_no_two_messages(role: str) -> None:
    with pytest.raises(UnserializableResult, match=f"begins with '{role}'.*\"role\""):
        prompt_result(prompt_component(plan), (role, "hi"))
