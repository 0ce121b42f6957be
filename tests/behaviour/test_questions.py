"""What clients are asked in each revision, and what is never asked of them."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp import ClientRefused, Frame, McpError, Server, UrlElicitationRequired
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.behaviour.conftest import Configure
from tests.refusals import refusal

pytestmark = pytest.mark.usefixtures("configure")

LIVE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
WITHOUT_FORMS = ("2024-11-05", "2025-03-26")
OLD_FORMS = "2025-06-18"
WITH_PAGES = ("2025-11-25", STATELESS)

CAPABILITY_MISSING = dict.fromkeys(LIVE, -32600) | {STATELESS: -32021}

with_forms = pytest.mark.parametrize("mcp_version", [OLD_FORMS, *WITH_PAGES])
with_pages = pytest.mark.parametrize("mcp_version", WITH_PAGES)


class Asked:
    """A user, or a model, who answers the same every time and remembers what was asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = [*answers]
        self.questions: list[dict[str, Any]] = []

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        self.questions.append(params)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def said(text: str = "Hm.") -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


# Forms.


class Order(BaseModel):
    name: str = Field("Ann", description="Whose it is", max_length=20)
    amount: int = Field(1, ge=1, le=9)
    size: Literal["s", "m"] = "m"
    gift: bool = True
    mail: str = Field(json_schema_extra={"format": "email"})


CHOICE = {
    "type": "object",
    "properties": {
        "size": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "m", "title": "Middle"}],
            "default": "m",
        }
    },
    "required": ["size"],
}
SEVERAL = {
    "type": "object",
    "properties": {"extras": {"type": "array", "items": {"enum": ["lid", "box"]}}},
}


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def order(frame: Frame) -> str:
        answer = await frame.client.aelicit("What would you like?", Order)
        if not answer.accepted:
            return answer.action
        return f"{answer.content.name}: {answer.content.amount}"

    @server.tool
    async def choose(frame: Frame) -> str:
        return str((await frame.client.aelicit("Which size?", CHOICE)).content)

    @server.tool
    async def choose_several(frame: Frame) -> str:
        return str((await frame.client.aelicit("Which extras?", SEVERAL)).content)

    @server.tool
    async def pay(frame: Frame) -> str:
        answer = await frame.client.aelicit_url("Please pay", "https://example.com/pay")
        return f"{answer.action} {answer.content}"

    return server


@with_forms
async def test_a_form_is_flat_and_says_what_the_revision_knows(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = Asked(accepted(name="Bo", amount=2, mail="bo@example.com"))

    async with client_for(shop(), elicitation=user) as client:
        result = await client.call_tool("order")

    (asked,) = user.questions
    properties = asked["requestedSchema"]["properties"]
    assert text(result) == "Bo: 2"
    assert asked["message"] == "What would you like?"
    assert asked["requestedSchema"]["required"] == ["mail"]
    assert properties["mail"] == {"type": "string", "format": "email"}
    assert properties["size"]["enum"] == ["s", "m"]
    assert properties["gift"] == {"type": "boolean", "default": True}
    has_defaults = {name for name, member in properties.items() if "default" in member}
    assert has_defaults == ({"gift"} if mcp_version == OLD_FORMS else {*properties} - {"mail"})
    assert ("mode" in asked) == (mcp_version != OLD_FORMS)


@with_forms
async def test_titles_of_choices_are_told_as_the_revision_has_them(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = Asked(accepted(size="s"))

    async with client_for(shop(), elicitation=user) as client:
        result = await client.call_tool("choose")

    size = user.questions[0]["requestedSchema"]["properties"]["size"]
    assert text(result) == "{'size': 's'}"
    if mcp_version == OLD_FORMS:
        names = {"enum": ["s", "m"], "enumNames": ["Small", "Middle"]}
        assert size == {"type": "string", **names}
    else:
        assert size == CHOICE["properties"]["size"]  # type: ignore[index]


async def test_several_choices_are_asked_where_the_revision_has_them(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = Asked(accepted(extras=["box"]))

    async with client_for(shop(), elicitation=user) as client:
        if mcp_version in WITH_PAGES:
            assert text(await client.call_tool("choose_several")) == "{'extras': ['box']}"
            return
        error = await refusal(client.call_tool("choose_several"))

    assert error.code == CAPABILITY_MISSING[mcp_version]
    assert user.questions == []


@with_forms
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_reaches_the_handler_as_what_it_is(
    client_for: ClientFor, action: str
) -> None:
    async with client_for(shop(), elicitation={"action": action}) as client:
        assert text(await client.call_tool("order")) == action


@with_forms
async def test_an_answer_which_does_not_fit_is_asked_for_again(client_for: ClientFor) -> None:
    misfits = [accepted(name="Bo", amount=99, mail="x"), {"action": "perhaps"}]
    user = Asked(*misfits, accepted(amount=3, mail="bo@example.com"))

    async with client_for(shop(), elicitation=user) as client:
        assert text(await client.call_tool("order")) == "Ann: 3"

    assert len(user.questions) == 3


async def test_nothing_is_asked_of_a_client_which_declared_nothing(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = Asked(accepted())

    async with client_for(shop(), elicitation=user, capabilities={}) as client:
        for name in ("order", "choose", "pay"):
            error = await refusal(client.call_tool(name))
            assert error.code == CAPABILITY_MISSING[mcp_version]
            assert "elicitation" in error.data["requiredCapabilities"]

    assert user.questions == []


@with_pages
async def test_elicitation_alone_means_forms(client_for: ClientFor, mcp_version: str) -> None:
    user = Asked(accepted(size="s"))

    async with client_for(shop(), elicitation=user, capabilities={"elicitation": {}}) as client:
        await client.call_tool("choose")
        error = await refusal(client.call_tool("pay"))

    assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert len(user.questions) == 1


@with_pages
async def test_a_client_which_shows_pages_alone_is_shown_no_form(client_for: ClientFor) -> None:
    user = Asked({"action": "accept"})
    only_pages: dict[str, Any] = {"elicitation": {"url": {}}}

    async with client_for(shop(), elicitation=user, capabilities=only_pages) as client:
        await refusal(client.call_tool("choose"))
        assert text(await client.call_tool("pay")) == "accept None"


# Pages.


@with_pages
async def test_a_page_is_named_by_its_address_and_where_the_revision_has_it_by_an_id(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = Asked({"action": "accept", "content": {"ignored": True}})

    async with client_for(shop(), elicitation=user) as client:
        results = [await client.call_tool("pay") for _ in range(2)]

    first, second = user.questions
    ids = {asked.pop("elicitationId", None) for asked in (first, second)}
    page = {"mode": "url", "message": "Please pay", "url": "https://example.com/pay"}
    assert [text(result) for result in results] == ["accept None"] * 2
    assert first == second == page
    assert ids == {None} if mcp_version == STATELESS else len(ids) == 2


async def test_a_page_is_asked_of_nobody_whose_revision_has_none(client_for: ClientFor) -> None:
    user = Asked({"action": "accept"})

    async with client_for(shop(), elicitation=user, version=OLD_FORMS) as client:
        error = await refusal(client.call_tool("pay"))

    assert error.code == CAPABILITY_MISSING[OLD_FORMS]
    assert user.questions == []


def gate() -> Server:
    server = Server("gate")
    paid: list[bool] = []

    @server.tool
    def enter(back: bool = False) -> str:
        if not paid:
            paid.append(True)
            error = UrlElicitationRequired.at(
                "https://example.com/pay", "Please pay first", elicitation_id="visit-1"
            )
            if back:
                return error  # type: ignore[return-value]
            raise error
        return "Welcome."

    return server


@pytest.mark.parametrize("back", [True, False], ids=["returned", "raised"])
async def test_a_request_may_need_a_visit_first(
    client_for: ClientFor, mcp_version: str, back: bool
) -> None:
    user = Asked({"action": "accept"})

    async with client_for(gate(), elicitation=user) as client:
        if mcp_version == STATELESS:
            assert text(await client.call_tool("enter", {"back": back})) == "Welcome."
            asked = {"mode": "url", "url": "https://example.com/pay", "message": "Please pay first"}
            assert user.questions == [asked]
            return
        error = await refusal(client.call_tool("enter", {"back": back}))
        assert text(await client.call_tool("enter")) == "Welcome."

    if mcp_version != "2025-11-25":
        assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
        assert error.code == CAPABILITY_MISSING[mcp_version]
        return
    (page,) = error.data["elicitations"]
    assert error.code == -32042
    assert page == {
        "mode": "url",
        "elicitationId": "visit-1",
        "url": "https://example.com/pay",
        "message": "Please pay first",
    }


@with_pages
async def test_who_cannot_visit_pages_is_not_sent_to_one(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(gate(), capabilities={"elicitation": {"form": {}}}) as client:
        error = await refusal(client.call_tool("enter"))

    assert error.code == CAPABILITY_MISSING[mcp_version]
    assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


# Samples of the client's model.


def studio(**options: Any) -> Server:
    """A server whose tool asks the model what ``messages`` say."""
    server = Server("studio")

    @server.tool
    async def think(messages: list[dict[str, Any]], frame: Frame) -> str:
        answer = await frame.client.acreate_message(messages, 50, **options)
        return f"{answer.text} ({answer.stop_reason})"

    return server


def message(*blocks: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": blocks[0] if len(blocks) == 1 else [*blocks]}


TEXT = {"type": "text", "text": "What is this?"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
USE = {"type": "tool_use", "id": "use-1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "use-1", "content": [TEXT]}


async def test_the_model_is_asked_in_every_revision(client_for: ClientFor) -> None:
    model = Asked({**said("A cat."), "stopReason": "endTurn"})
    options = {"system_prompt": "Be brief", "temperature": 0.5, "stop_sequences": ["."]}
    server = studio(**options, model_preferences={"hints": [{"name": "small"}]})

    async with client_for(server, sampling=model) as client:
        result = await client.call_tool("think", {"messages": [message(TEXT)]})

    assert text(result) == "A cat. (endTurn)"
    assert model.questions == [
        {
            "messages": [message(TEXT)],
            "maxTokens": 50,
            "systemPrompt": "Be brief",
            "temperature": 0.5,
            "stopSequences": ["."],
            "modelPreferences": {"hints": [{"name": "small"}]},
        }
    ]


async def test_several_blocks_are_several_messages_where_a_message_has_one(
    client_for: ClientFor, mcp_version: str
) -> None:
    model = Asked(said())

    async with client_for(studio(), sampling=model) as client:
        await client.call_tool("think", {"messages": [message(TEXT, IMAGE)]})

    together = [message(TEXT, IMAGE)]
    apart = [message(TEXT), message(IMAGE)]
    messages = model.questions[0]["messages"]
    assert messages == (together if mcp_version in WITH_PAGES else apart)


async def test_a_model_is_played_nothing_where_messages_have_no_audio(
    client_for: ClientFor, mcp_version: str
) -> None:
    model = Asked(said())

    async with client_for(studio(), sampling=model) as client:
        calling = client.call_tool("think", {"messages": [message(AUDIO)]})
        if mcp_version == "2024-11-05":
            error = await refusal(calling)
            assert error.code == CAPABILITY_MISSING[mcp_version]
        else:
            await calling

    assert len(model.questions) == (mcp_version != "2024-11-05")


@pytest.mark.parametrize("declared", [{}, {"tools": {}}], ids=["without tools", "with tools"])
async def test_tools_are_offered_to_those_who_declared_them(
    client_for: ClientFor, mcp_version: str, declared: dict[str, Any]
) -> None:
    model = Asked(said())
    server = studio(tools=[{"name": "look", "inputSchema": {"type": "object"}}])

    async with client_for(server, sampling=model, capabilities={"sampling": declared}) as client:
        calling = client.call_tool("think", {"messages": [message(TEXT)]})
        if declared and mcp_version in WITH_PAGES:
            await calling
        else:
            error = await refusal(calling)
            assert error.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}

    assert len(model.questions) == bool(declared and mcp_version in WITH_PAGES)


@with_pages
async def test_what_a_model_used_is_answered_and_nothing_is_said_beside(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    model = Asked(said())
    capabilities: dict[str, Any] = {"sampling": {"tools": {}}}
    used = message(USE, role="assistant")
    wrong = [
        [message(TEXT), used],
        [message(TEXT), used, message(TEXT)],
        [message(TEXT), used, message(RESULT, TEXT)],
        [message(TEXT), used, message({**RESULT, "toolUseId": "use-2"})],
        [message(RESULT)],
    ]

    async with client_for(studio(), sampling=model, capabilities=capabilities) as client:
        right = [message(TEXT), used, message(RESULT)]
        await client.call_tool("think", {"messages": right})
        for messages in wrong:
            assert (await client.call_tool("think", {"messages": messages}))["isError"]

    assert [asked["messages"] for asked in model.questions] == [right]
    assert caplog.text.count("\nValueError: ") == len(wrong)


async def test_context_is_asked_for_where_nobody_has_to_declare_it(
    client_for: ClientFor, mcp_version: str
) -> None:
    model = Asked(said())

    async with client_for(studio(include_context="thisServer"), sampling=model) as client:
        await client.call_tool("think", {"messages": [message(TEXT)]})

    assert ("includeContext" in model.questions[0]) == (mcp_version not in WITH_PAGES)


@with_pages
async def test_context_is_asked_for_where_the_client_declared_it(client_for: ClientFor) -> None:
    model = Asked(said())
    server = studio(include_context="thisServer")
    capabilities: dict[str, Any] = {"sampling": {"context": {}}}

    async with client_for(server, sampling=model, capabilities=capabilities) as client:
        await client.call_tool("think", {"messages": [message(TEXT)]})

    assert model.questions[0]["includeContext"] == "thisServer"


async def test_what_a_model_cannot_have_said_is_asked_for_again(client_for: ClientFor) -> None:
    model = Asked({"role": "assistant"}, said("Well."))

    async with client_for(studio(), sampling=model) as client:
        result = await client.call_tool("think", {"messages": [message(TEXT)]})

    assert text(result).startswith("Well.")
    assert len(model.questions) == 2


# Roots.


async def test_roots_are_places_in_the_file_system(client_for: ClientFor) -> None:
    server = Server("files")

    @server.tool
    async def places(frame: Frame) -> list[str]:
        return [root.uri for root in await frame.client.alist_roots()]

    misfits = {"roots": [{"uri": "https://example.com"}]}
    user = Asked(misfits, {"roots": [{"uri": "file:///home/ann", "name": "Home"}]})

    async with client_for(server, roots=user) as client:
        result = await client.call_tool("places")

    assert text(result) == '["file:///home/ann"]'
    assert len(user.questions) == 2


# What a client answers instead.


@pytest.mark.parametrize("mcp_version", LIVE)
@pytest.mark.parametrize("code", [-1, -32601, -32602, -32603])
async def test_an_error_of_the_client_reaches_the_handler(client_for: ClientFor, code: int) -> None:
    server = Server("studio")

    @server.tool
    async def think(frame: Frame) -> str:
        try:
            await frame.client.acreate_message("Well?", 50)
        except ClientRefused as error:
            return f"{error.code}: {error.message}"
        return "no error"

    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise McpError("No, thanks", code=code)

    async with client_for(server, sampling=refuse) as client:
        assert text(await client.call_tool("think")) == f"{code}: No, thanks"


@pytest.mark.parametrize("mcp_version", LIVE)
async def test_an_error_of_the_client_is_never_one_of_ours(client_for: ClientFor) -> None:
    server = Server("studio")

    @server.tool
    async def think(frame: Frame) -> str:
        return (await frame.client.acreate_message("Well?", 50)).text

    @server.prompt(name="think")
    async def think_first(frame: Frame) -> str:
        return (await frame.client.acreate_message("Well?", 50)).text

    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise McpError("Method not found", code=-32601)

    async with client_for(server, sampling=refuse) as client:
        result = await client.call_tool("think")
        error = await refusal(client.get_prompt("think"))

    assert result["isError"]
    assert "refused what it was asked: Method not found" in text(result)
    assert error.code == -32603


@pytest.mark.parametrize("mcp_version", [STATELESS])
async def test_nothing_but_a_call_may_be_answered_with_a_question(
    client_for: ClientFor, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    async def suggest(ref: Any, argument: Any, frame: Frame) -> list[str]:
        return [str(await frame.client.aelicit("Which?", CHOICE))]

    server = Server("shop", handle_completion=suggest)
    server.prompt(name="order")(lambda size: "Well")

    async with Client(server, elicitation=Asked(accepted(size="s"))) as client:
        error = await refusal(client.complete("order", "size"))

    assert error.code == -32603
    assert "may not ask" in caplog.text


# How long a question waits, and whose it is.


@pytest.mark.parametrize("mcp_version", LIVE)
@pytest.mark.parametrize("mcp_transport", ["http", "stdio"])
async def test_a_question_may_have_a_time_of_its_own(client_for: ClientFor) -> None:
    server = Server("studio")
    given_up = asyncio.Event()

    @server.tool
    async def think(frame: Frame) -> str:
        try:
            await frame.client.acreate_message("Well?", 50, timeout=0.05)
        except TimeoutError as error:
            given_up.set()
            return str(error)
        return "no error"

    async def ponder(params: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(10):
            await given_up.wait()
        return said("Too late.")

    async with client_for(server, sampling=ponder) as client:
        result = await client.call_tool("think")

    (withdrawn,) = [
        heard["params"]
        for heard in client.notifications
        if heard["method"] == "notifications/cancelled"
    ]
    assert text(result) == "The client did not answer sampling/createMessage in 0.05 s"
    assert withdrawn["reason"] == "No answer came in time"


@pytest.mark.parametrize("mcp_version", LIVE)
@pytest.mark.parametrize("mcp_transport", ["http", "stdio"])
async def test_no_two_questions_of_a_session_have_one_id(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("studio")

    @server.tool
    async def think(frame: Frame) -> str:
        said = [await frame.client.acreate_message("Well?", 50) for _ in range(3)]
        return str(len(said))

    ids: list[Any] = []
    client = client_for(server, sampling=said())
    answer = client.asked

    async def asked(message: dict[str, Any]) -> dict[str, Any]:
        ids.append(message["id"])
        return await answer(message)

    monkeypatch.setattr(client, "asked", asked)
    async with client:
        await asyncio.gather(*(client.call_tool("think") for _ in range(3)))

    assert len(set(ids)) == len(ids) == 9
    assert all(isinstance(each, str) and each for each in ids)
