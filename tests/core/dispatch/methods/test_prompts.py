"""prompts/get."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from django_mcp import Frame, McpError, Prompt, Response, Server
from django_mcp.core.components.responses import PromptResponse
from django_mcp.core.protocol.content import Message
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec


async def prompt_messages(
    client_for: ClientFor, server: Server, name: str, arguments: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """The role and the text of each message."""
    async with client_for(server) as client:
        result = await client.get_prompt(name, arguments)
    return [(each["role"], each["content"]["text"]) for each in result["messages"]]


async def test_returned_string_becomes_a_user_message(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise(number: int) -> str:
        return f"Summarise ticket {number + 1}"

    assert await prompt_messages(client_for, server, "summarise", {"number": "7"}) == [
        ("user", "Summarise ticket 8")
    ]


@spec("PROMPT-04")
async def test_returned_list_becomes_several_messages(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    async def interview() -> list[str | Message | dict[str, str]]:
        return ["Who?", Message("assistant", "Me."), {"role": "user", "content": "Why?"}]

    assert await prompt_messages(client_for, server, "interview") == [
        ("user", "Who?"),
        ("assistant", "Me."),
        ("user", "Why?"),
    ]


async def test_prompt_response_builder_creates_messages(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def interview(frame: Frame) -> tuple[PromptResponse, Frame]:
        return Response.prompt().system("Be kind").assistant("Yes"), frame

    assert await prompt_messages(client_for, server, "interview") == [
        ("user", "Be kind"),
        ("assistant", "Yes"),
    ]


async def test_prompt_class_receives_an_instance_of_its_input_model(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    class Summarise(Prompt):
        """Summarises."""

        class Input(BaseModel):
            number: int
            tone: str = "dry"

        def get_messages(self, params: Input, frame: Frame) -> str:
            return f"{params.number} {params.tone}"

    assert await prompt_messages(client_for, server, "summarise", {"number": "7"}) == [
        ("user", "7 dry")
    ]


async def test_listed_prompt_arguments_state_whether_they_are_required(
    client_for: ClientFor,
) -> None:
    server = Server("desk")

    @server.prompt
    def summarise(number: int, tone: str = "dry") -> str:
        return ""

    async with client_for(server) as client:
        (prompt,) = await client.list_prompts()

    listed = [(each["name"], each["required"]) for each in prompt["arguments"]]
    assert listed == [("number", True), ("tone", False)]


@spec("PROMPT-09", "PROMPT-10", "PROMPT-12", "2026/PRM-03", "2026/PRM-05")
@pytest.mark.parametrize(
    ("params", "expected_message"),
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
async def test_invalid_prompt_name_or_arguments_are_rejected(
    client_for: ClientFor, params: dict[str, Any], expected_message: str
) -> None:
    server = Server("desk")

    @server.prompt
    def summarise(number: int) -> str:
        return ""

    async with client_for(server) as client:
        error = await error_of(client.request("prompts/get", params))
        assert (await client.get_prompt("summarise", {"number": "7"}))["messages"]

    assert error.code == -32602
    assert expected_message in error.message


@spec("PROMPT-09", "2026/PRM-03")
async def test_exception_in_prompt_is_logged_and_returns_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("desk")

    @server.prompt
    def summarise() -> str:
        raise RuntimeError("the password is xyzzy")

    async with client_for(server) as client:
        error = await error_of(client.get_prompt("summarise"))

    assert error.code == -32603
    assert "xyzzy" not in error.message
    assert "xyzzy" in caplog.text


@spec("PROMPT-12", "2026/PRM-05")
async def test_invalid_prompt_message_returns_internal_error(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise() -> Any:
        return {"role": "nobody", "content": "x"}

    async with client_for(server) as client:
        error = await error_of(client.get_prompt("summarise"))

    assert error.code == -32603


async def test_mcp_error_returned_by_a_prompt_is_sent_to_the_client(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.prompt
    def summarise() -> McpError:
        return McpError("Not now", code=7)

    async with client_for(server) as client:
        error = await error_of(client.get_prompt("summarise"))

    assert (error.code, error.message) == (7, "Not now")
