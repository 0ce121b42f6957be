"""Prompts: what users are asked for, and what becomes of the text they enter."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp.components.base import ArgumentsInvalid, ConfigurationError
from django_mcp.components.prompt import Prompt, PromptComponent, prompt_component
from django_mcp.components.response import PromptResponse, Response
from django_mcp.frame import Frame


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


def nothing() -> str:
    return ""


def complaint(target: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        prompt_component(target, **options)
    return str(caught.value)


def arguments(prompt: PromptComponent) -> Any:
    return prompt.descriptor()["arguments"]


class TestListing:
    def test_a_function_asks_for_its_parameters(self) -> None:
        assert prompt_component(plan).descriptor() == {
            "name": "plan",
            "description": "Plans something.",
            "arguments": [
                {"name": "topic", "title": "Topic", "description": "About what", "required": True},
                {"name": "tone", "description": "Optional parameter", "required": False},
                {"name": "days", "description": "Optional integer parameter", "required": False},
                {"name": "start", "description": "Optional parameter", "required": False},
                {"name": "guests", "description": "Optional array parameter", "required": False},
            ],
        }

    def test_a_function_may_ask_for_nothing(self) -> None:
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
    def test_arguments_may_be_declared_in_three_ways(self, declared: Any) -> None:
        prompt = prompt_component(lambda params: params, name="it", arguments=declared)
        assert [(a["name"], a["required"]) for a in arguments(prompt)] == [
            ("file", True),
            ("depth", False),
        ]

    def test_arguments_say_what_they_are_told_to(self) -> None:
        said = {"name": "file", "title": "File", "description": "Which", "required": True}
        assert arguments(prompt_component(lambda p: p, name="it", arguments=[said])) == [said]


class TestFillingIn:
    def test_text_becomes_what_the_parameters_are(self) -> None:
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

    def test_text_becomes_what_a_hand_written_schema_wants(self) -> None:
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
    def test_what_does_not_fit_is_said(self, entered: Any, problem: str) -> None:
        with pytest.raises(ArgumentsInvalid, match=problem):
            prompt_component(plan).validate_input(entered)

    def test_arguments_of_a_list_are_enforced(self) -> None:
        prompt = prompt_component(
            lambda params: params, name="it", arguments=[{"name": "file", "required": True}]
        )
        assert prompt.validate_input({"file": "a"}) == {"file": "a"}
        for bad in ({}, {"file": "a", "more": "b"}):
            with pytest.raises(ArgumentsInvalid):
                prompt.validate_input(bad)


class TestAClass:
    def test_says_everything_as_attributes_or_methods(self) -> None:
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
        assert prompt.takes_frame
        assert prompt.invoke is not None
        assert prompt.invoke(prompt.validate_input({"file": "a"}), Frame()).messages
        assert prompt.complete["file"].is_async

    def test_is_given_an_instance_of_its_input(self) -> None:
        class CodeReview(Prompt):
            class Input(Review):
                pass

            async def get_messages(self, params: Input) -> str:
                return params.file * params.depth

        prompt = prompt_component(CodeReview)
        assert prompt.is_async
        assert prompt.validate_input({"file": "a", "depth": "2"}).depth == 2

    def test_asks_for_the_parameters_of_its_method(self) -> None:
        class CodeReview(Prompt):
            def get_messages(self, file: str, frame: Frame) -> str:
                return file

        assert [a["name"] for a in arguments(prompt_component(CodeReview))] == ["file"]


class TestCompletion:
    async def test_is_given_what_it_asks_for(self) -> None:
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

    def test_is_awaited_by_whoever_runs_it_when_it_is_async(self) -> None:
        async def slow(value: str) -> list[str]:
            return [value]

        assert prompt_component(plan, complete={"topic": slow}).complete["topic"].is_async
        quick = prompt_component(plan, complete={"topic": lambda value: [value]})
        assert not quick.complete["topic"].is_async

    def test_of_a_parameter_with_few_values_is_known(self) -> None:
        def f(size: Literal["s", "m"], tone: Tone, free: str) -> str:
            return ""

        prompt = prompt_component(f)
        assert set(prompt.complete) == {"size", "tone"}
        assert prompt.complete["tone"].invoke("S", {}, None) == ["stern"]

    def test_of_something_else_is_a_mistake(self) -> None:
        assert "none of its arguments" in complaint(plan, complete={"place": nothing})
        assert "let it take (value)" in complaint(plan, complete={"topic": nothing})


class TestAMistake:
    def test_is_answered_with_the_remedy(self) -> None:
        def any_keyword(**more: str) -> str:
            return ""

        class NoPrompt(Prompt):
            pass

        assert "name them, or declare arguments" in complaint(any_keyword)
        assert "need names" in complaint(nothing, arguments=[{"description": "a"}])
        assert "has no method get_messages" in complaint(NoPrompt)
        assert "There is no option 'mime_type'" in complaint(nothing, mime_type="a/b")
