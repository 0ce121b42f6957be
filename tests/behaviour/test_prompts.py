"""Getting prompts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from django_mcp import Frame, McpError, Prompt, Response, Server
from django_mcp.components.response import PromptResponse
from django_mcp.protocol.content import Message
from django_mcp.testing.plugin import ClientFor
from tests.refusals import refusal


async def got(
    client_for: ClientFor, server: Server, name: str, arguments: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """Who says what."""
    async with client_for(server) as client:
        result = await client.get_prompt(name, arguments)
    return [(each["role"], each["content"]["text"]) for each in result["messages"]]


async def test_a_string_is_said_by_the_user(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise(number: int) -> str:
        return f"Summarise ticket {number + 1}"

    assert await got(client_for, server, "summarise", {"number": "7"}) == [
        ("user", "Summarise ticket 8")
    ]


async def test_several_messages_are_a_conversation(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    async def interview() -> list[str | Message | dict[str, str]]:
        return ["Who?", Message("assistant", "Me."), {"role": "user", "content": "Why?"}]

    assert await got(client_for, server, "interview") == [
        ("user", "Who?"),
        ("assistant", "Me."),
        ("user", "Why?"),
    ]


async def test_a_response_is_built_piece_by_piece(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def interview(frame: Frame) -> tuple[PromptResponse, Frame]:
        return Response.prompt().system("Be kind").assistant("Yes"), frame

    assert await got(client_for, server, "interview") == [("user", "Be kind"), ("assistant", "Yes")]


async def test_a_class_with_an_input_model_is_given_an_instance(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    class Summarise(Prompt):
        """Summarises."""

        class Input(BaseModel):
            number: int
            tone: str = "dry"

        def get_messages(self, params: Input, frame: Frame) -> str:
            return f"{params.number} {params.tone}"

    assert await got(client_for, server, "summarise", {"number": "7"}) == [("user", "7 dry")]


async def test_arguments_are_listed_with_what_is_required(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise(number: int, tone: str = "dry") -> str:
        return ""

    async with client_for(server) as client:
        (prompt,) = await client.list_prompts()

    listed = [(each["name"], each["required"]) for each in prompt["arguments"]]
    assert listed == [("number", True), ("tone", False)]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"name": "nobody"}, "Unknown prompt: nobody"),
        ({}, "params.name must be a string"),
        ({"name": 7}, "params.name must be a string"),
        ({"name": "summarise", "arguments": []}, "params.arguments must be an object"),
        ({"name": "summarise"}, "number: required, but missing"),
        ({"name": "summarise", "arguments": {"number": "seven"}}, "number"),
        ({"name": "summarise", "arguments": {"number": "7", "more": "1"}}, "more"),
    ],
)
async def test_wrong_arguments_are_refused(
    client_for: ClientFor, params: dict[str, Any], said: str
) -> None:
    server = Server("desk")

    @server.prompt
    def summarise(number: int) -> str:
        return ""

    async with client_for(server) as client:
        error = await refusal(client.request("prompts/get", params))
        assert (await client.get_prompt("summarise", {"number": "7"}))["messages"]

    assert error.code == -32602
    assert said in error.message


async def test_an_exception_is_logged_and_told_blandly(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("desk")

    @server.prompt
    def summarise() -> str:
        raise RuntimeError("the password is xyzzy")

    async with client_for(server) as client:
        error = await refusal(client.get_prompt("summarise"))

    assert error.code == -32603
    assert "xyzzy" not in error.message
    assert "xyzzy" in caplog.text


async def test_what_is_no_message_is_an_internal_error(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise() -> Any:
        return {"role": "nobody", "content": "x"}

    async with client_for(server) as client:
        error = await refusal(client.get_prompt("summarise"))

    assert error.code == -32603


async def test_an_error_may_be_returned(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise() -> McpError:
        return McpError("Not now", code=7)

    async with client_for(server) as client:
        error = await refusal(client.get_prompt("summarise"))

    assert (error.code, error.message) == (7, "Not now")
