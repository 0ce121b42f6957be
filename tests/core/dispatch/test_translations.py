"""Lazy translations: anywhere in what a client receives, in the language of its request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from django.db.models import TextChoices
from django.utils import translation
from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, Field

from django_mcp import Frame, McpError, Server, ToolError
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor

YES, NO = _("Yes"), _("No")


class Answer(TextChoices):
    YES = "y", YES
    NO = "n", NO


class Form(BaseModel):
    sure: Annotated[bool, Field(description=YES)]


@pytest.fixture
def server() -> Server:
    return Server("desk", notify_lists_on_initialize=False)


@pytest.fixture(autouse=True)
def _language() -> Iterator[None]:
    with translation.override("de"):
        yield


def described(server: Server, kind: str, name: str) -> Any:
    (component,) = (item for item in server.components.of_kind(kind) if item.name == name)
    (entry,) = jsonrpc.decode(server.components.encoded_list(NEWEST, [component]))
    assert entry == server.components.descriptor(NEWEST, component)
    return entry


class TestLists:
    def test_schema_is_listed_in_the_active_language(self, server: Server) -> None:
        @server.tool
        def ask(word: Annotated[str, Field(description=YES, title=NO)]) -> str:
            return word

        def shown() -> Any:
            return described(server, "tool", "ask")["inputSchema"]["properties"]["word"]

        assert shown() == {"type": "string", "description": "Ja", "title": "Nein"}
        with translation.override("fr"):
            assert shown()["description"] == "Oui"

    def test_labels_of_choices_are_listed_in_the_active_language(self, server: Server) -> None:
        @server.tool
        def ask(answer: Answer) -> str:
            return answer

        def titles() -> list[str]:
            schema = described(server, "tool", "ask")["inputSchema"]
            return [each["title"] for each in schema["properties"]["answer"]["oneOf"]]

        assert titles() == ["Ja", "Nein"]
        with translation.override("fr"):
            assert titles() == ["Oui", "Non"]

    def test_arguments_of_a_prompt_are_listed_in_the_active_language(self, server: Server) -> None:
        @server.prompt
        def summary(word: Annotated[str, Field(description=YES)]) -> str:
            return word

        def shown() -> Any:
            return described(server, "prompt", "summary")["arguments"][0]["description"]

        assert shown() == "Ja"
        with translation.override("fr"):
            assert shown() == "Oui"

    def test_meta_and_hand_written_schemas_may_contain_translations(self, server: Server) -> None:
        properties = {"word": {"type": "string", "description": YES}}

        @server.tool(input_schema={"properties": properties}, meta={"example.com/label": NO})
        def ask(params: Any) -> str:
            return "asked"

        listed = described(server, "tool", "ask")
        assert listed["inputSchema"]["properties"]["word"]["description"] == "Ja"
        assert listed["_meta"] == {"example.com/label": "Nein"}

    def test_list_without_translations_is_made_once(self, server: Server) -> None:
        @server.tool
        def ask(word: Annotated[str, Field(description="A word")]) -> str:
            return word

        listed = server.components.of_kind("tool")
        first = server.components.encoded_list(NEWEST, listed)
        assert server.components.encoded_list(NEWEST, listed) is first

    async def test_every_client_can_list_the_tool(
        self, server: Server, client_for: ClientFor
    ) -> None:
        @server.tool
        def ask(answer: Answer, word: Annotated[str, Field(description=YES)] = "") -> str:
            return word

        async with client_for(server) as client:
            (listed,) = await client.list_tools()
        assert listed["inputSchema"]["properties"]["word"]["description"] in ("Ja", "Yes")

    async def test_server_is_described_in_the_active_language(self) -> None:
        server = Server("desk", title=YES, instructions=NO)  # type: ignore[arg-type]
        info = server.get_server_info(NEWEST)
        assert (info["title"], server.get_instructions()) == ("Ja", "Nein")
        with translation.override("fr"):
            assert server.get_server_info(NEWEST)["title"] == "Oui"


class TestMessages:
    async def test_log_and_progress_messages_are_translated(
        self, server: Server, client_for: ClientFor
    ) -> None:
        @server.tool
        def work(frame: Frame) -> str:
            with translation.override("de"):
                frame.client.log("info", YES)  # type: ignore[arg-type]
                frame.client.log("info", data={"answer": NO})
                frame.client.progress(1, 2, YES)  # type: ignore[arg-type]
            return "done"

        async with client_for(server) as client:
            assert "isError" not in await client.call_tool("work")
        assert [log["data"] for log in client.logs] == ["Ja", {"answer": "Nein"}]
        assert [each.get("message", "Ja") for each in client.progress] == ["Ja"]

    async def test_errors_are_translated(self, server: Server, client_for: ClientFor) -> None:
        @server.tool
        def tool_error() -> str:
            raise ToolError(YES)

        @server.tool
        def protocol_error() -> str:
            raise McpError(YES, data={"reason": NO})  # type: ignore[arg-type]

        async with client_for(server) as client:
            result = await client.call_tool("tool_error")
            assert result.text in ("Ja", "Yes")
            with pytest.raises(McpError) as caught:
                await client.call_tool("protocol_error")
        assert caught.value.message in ("Ja", "Yes")
        assert caught.value.data["reason"] in ("Nein", "No")

    async def test_form_is_translated(self, server: Server) -> None:
        requests: list[Any] = []

        def answer(params: Any) -> Any:
            requests.append(params)
            return {"action": "accept", "content": {"sure": True}}

        @server.tool(requests_input=True)
        def ask(frame: Frame) -> bool:
            with translation.override("de"):
                return frame.client.elicit(NO, Form).accepted  # type: ignore[call-overload, no-any-return]

        async with Client(server, elicitation=answer) as client:
            await client.call_tool("ask")
        assert requests[0]["message"] == "Nein"
        assert requests[0]["requestedSchema"]["properties"]["sure"]["description"] == "Ja"

    async def test_results_are_translated(self, server: Server, client_for: ClientFor) -> None:
        @server.tool
        def answers() -> dict[str, Any]:
            with translation.override("de"):
                return {"list": [str(YES), NO], "label": Answer.YES.label}

        @server.tool
        def typed() -> list[str]:
            return [YES]  # type: ignore[list-item]

        async with client_for(server) as client:
            untyped = await client.call_tool("answers")
            listed = await client.call_tool("typed")
        assert untyped.text.startswith('{"list":["Ja","')
        assert listed.text in ('["Ja"]', '["Yes"]')
