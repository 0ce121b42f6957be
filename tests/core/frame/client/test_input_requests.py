"""Input requests in each revision, and those that are rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp import (
    ClientError,
    Frame,
    McpError,
    Server,
    UrlElicitationRequired,
    input_requests,
)
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.spec import spec
from tests.waiting import SECONDS

pytestmark = pytest.mark.usefixtures("configure")

SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
WITHOUT_ELICITATION = ("2024-11-05", "2025-03-26")
FORMS_ONLY = "2025-06-18"
WITH_URL_MODE = ("2025-11-25", STATELESS)

MISSING_CAPABILITY_CODE = -32021


async def assert_lacks(call: Awaitable[Any], version: str, capability: str | None = None) -> None:
    """Assert that the client is told, or its model, that it lacks a capability."""
    if version == STATELESS:
        error = await error_of(call)
        assert error.code == MISSING_CAPABILITY_CODE
        needed: Any = error.data["requiredCapabilities"]
        for name in (capability or "").split(".") if capability else ():
            needed = needed[name]
        return
    result = await call
    assert result["isError"]
    assert "cannot go on with this client" in result.text
    assert capability is None or f"the capability {capability}" in result.text


with_form_mode = pytest.mark.parametrize("mcp_version", [FORMS_ONLY, *WITH_URL_MODE])
with_url_mode = pytest.mark.parametrize("mcp_version", WITH_URL_MODE)


class RecordingResponder:
    """A user or a model that always gives the same answer, and records the requests."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = [*answers]
        self.received: list[dict[str, Any]] = []

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        self.received.append(params)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def sampling_result(text: str = "Hm.") -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}


# Form elicitation.


class Order(BaseModel):
    name: str = Field("Ann", description="Whose it is", max_length=20)
    amount: int = Field(1, ge=1, le=9)
    size: Literal["s", "m"] = "m"
    gift: bool = True
    mail: str = Field(json_schema_extra={"format": "email"})


class Comment(BaseModel):
    text: str


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


@spec("ELIC-06", "ELIC-07", "ELIC-11", "2026/ELI-03")
@with_form_mode
async def test_elicitation_schema_is_flat_and_limited_to_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder(accepted(name="Bo", amount=2, mail="bo@example.com"))

    async with client_for(shop(), elicitation=user) as client:
        result = await client.call_tool("order")

    (request,) = user.received
    properties = request["requestedSchema"]["properties"]
    assert result.text == "Bo: 2"
    assert request["message"] == "What would you like?"
    assert request["requestedSchema"]["required"] == ["mail"]
    assert properties["mail"] == {"type": "string", "format": "email"}
    assert properties["size"]["enum"] == ["s", "m"]
    assert properties["gift"] == {"type": "boolean", "default": True}
    has_defaults = {name for name, member in properties.items() if "default" in member}
    assert has_defaults == ({"gift"} if mcp_version == FORMS_ONLY else {*properties} - {"mail"})
    assert ("mode" in request) == (mcp_version != FORMS_ONLY)


@spec("ELIC-09", "ELIC-10", "2026/ELI-03")
@with_form_mode
async def test_choice_titles_are_encoded_for_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder(accepted(size="s"))

    async with client_for(shop(), elicitation=user) as client:
        result = await client.call_tool("choose")

    size = user.received[0]["requestedSchema"]["properties"]["size"]
    assert result.text == "{'size': 's'}"
    if mcp_version == FORMS_ONLY:
        names = {"enum": ["s", "m"], "enumNames": ["Small", "Middle"]}
        assert size == {"type": "string", **names}
    else:
        assert size == CHOICE["properties"]["size"]  # type: ignore[index]


@spec("ELIC-09", "ELIC-10", "2026/ELI-03")
async def test_multiple_choice_elicitation_is_rejected_before_2025_11_25(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder(accepted(extras=["box"]))

    async with client_for(shop(), elicitation=user) as client:
        if mcp_version in WITH_URL_MODE:
            assert (await client.call_tool("choose_several")).text == "{'extras': ['box']}"
            return
        await assert_lacks(client.call_tool("choose_several"), mcp_version)

    assert user.received == []


@spec("ELIC-14", "2026/ELI-05")
@with_form_mode
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_or_cancelled_elicitation_is_returned_to_the_handler(
    client_for: ClientFor, action: str
) -> None:
    async with client_for(shop(), elicitation={"action": action}) as client:
        assert (await client.call_tool("order")).text == action


@spec("ELIC-16", "2026/MRTR-13", "2026/ELI-10")
@with_form_mode
async def test_elicitation_is_repeated_after_an_invalid_response(client_for: ClientFor) -> None:
    misfits = [accepted(name="Bo", amount=99, mail="x"), {"action": "perhaps"}]
    user = RecordingResponder(*misfits, accepted(amount=3, mail="bo@example.com"))

    async with client_for(shop(), elicitation=user) as client:
        assert (await client.call_tool("order")).text == "Ann: 3"

    assert len(user.received) == 3


@with_form_mode
async def test_repeated_form_names_only_the_last_problems(client_for: ClientFor) -> None:
    misfits = [accepted(amount=99, mail="x"), accepted(amount=0, mail="x")]
    user = RecordingResponder(*misfits, accepted(amount=3, mail="bo@example.com"))

    async with client_for(shop(), elicitation=user) as client:
        assert (await client.call_tool("order")).text == "Ann: 3"

    question = "What would you like?"
    assert [request["message"] for request in user.received] == [
        question,
        f"{question}\n\namount: Input should be less than or equal to 9",
        f"{question}\n\namount: Input should be greater than or equal to 1",
    ]


@pytest.mark.parametrize("mcp_version", [FORMS_ONLY])
async def test_form_that_stays_invalid_is_reported_to_the_model(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    user = RecordingResponder(accepted(amount=99, mail="x"))

    async with client_for(shop(), elicitation=user) as client:
        result = await client.call_tool("order")

    assert result["isError"]
    assert "response is invalid: amount: Input should be less than" in result.text
    assert len(user.received) == 3
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("mcp_version", [FORMS_ONLY, STATELESS])
async def test_long_text_in_a_form_is_accepted(client_for: ClientFor) -> None:
    server = shop()

    @server.tool
    async def comment(frame: Frame) -> int:
        return len((await frame.client.aelicit("What was wrong?", Comment)).content.text)

    async with client_for(server, elicitation=accepted(text="a" * 40_000)) as client:
        assert (await client.call_tool("comment")).text == "40000"


@spec("LIFE-14", "LIFE-15", "SAMP-01", "ELIC-01", "2026/ERR-05", "2026/META-03", "2026/MRTR-04")
async def test_elicitation_is_rejected_without_client_capability(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder(accepted())

    async with client_for(shop(), elicitation=user, capabilities={}) as client:
        for name in ("order", "choose", "pay"):
            await assert_lacks(client.call_tool(name), mcp_version, "elicitation")

    assert user.received == []


@spec("LIFE-21", "ELIC-05", "2026/MRTR-04", "2026/ELI-02")
@with_url_mode
async def test_empty_elicitation_capability_allows_only_forms(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder(accepted(size="s"))

    async with client_for(shop(), elicitation=user, capabilities={"elicitation": {}}) as client:
        await client.call_tool("choose")
        await assert_lacks(client.call_tool("pay"), mcp_version, "elicitation.url")

    assert len(user.received) == 1


@spec("ELIC-05", "2026/ELI-02")
@with_url_mode
async def test_form_elicitation_is_rejected_for_clients_with_only_url_mode(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder({"action": "accept"})
    only_url_mode: dict[str, Any] = {"elicitation": {"url": {}}}

    async with client_for(shop(), elicitation=user, capabilities=only_url_mode) as client:
        await assert_lacks(client.call_tool("choose"), mcp_version, "elicitation.form")
        assert (await client.call_tool("pay")).text == "accept None"


# URL elicitation.


@spec("ELIC-04", "ELIC-12", "ELIC-15", "2026/ELI-04")
@with_url_mode
async def test_url_elicitation_has_a_unique_id_only_in_2025_11_25(
    client_for: ClientFor, mcp_version: str
) -> None:
    user = RecordingResponder({"action": "accept", "content": {"ignored": True}})

    async with client_for(shop(), elicitation=user) as client:
        results = [await client.call_tool("pay") for _ in range(2)]

    first, second = user.received
    ids = {request.pop("elicitationId", None) for request in (first, second)}
    page = {"mode": "url", "message": "Please pay", "url": "https://example.com/pay"}
    assert [result.text for result in results] == ["accept None"] * 2
    assert first == second == page
    assert ids == {None} if mcp_version == STATELESS else len(ids) == 2


async def test_url_elicitation_is_rejected_in_2025_06_18(client_for: ClientFor) -> None:
    user = RecordingResponder({"action": "accept"})

    async with client_for(shop(), elicitation=user, version=FORMS_ONLY) as client:
        await assert_lacks(client.call_tool("pay"), FORMS_ONLY)

    assert user.received == []


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


@spec("ELIC-19", "ELIC-21", "ELIC-40")
@pytest.mark.parametrize("back", [True, False], ids=["returned", "raised"])
async def test_url_elicitation_required_is_converted_to_the_revision(
    client_for: ClientFor, mcp_version: str, back: bool
) -> None:
    user = RecordingResponder({"action": "accept"})

    async with client_for(gate(), elicitation=user) as client:
        if mcp_version == STATELESS:
            assert (await client.call_tool("enter", {"back": back})).text == "Welcome."
            url = "https://example.com/pay"
            assert user.received == [{"mode": "url", "url": url, "message": "Please pay first"}]
            return
        call = client.call_tool("enter", {"back": back})
        if mcp_version != "2025-11-25":
            await assert_lacks(call, mcp_version, "elicitation.url")
            assert (await client.call_tool("enter")).text == "Welcome."
            return
        error = await error_of(call)
        assert (await client.call_tool("enter")).text == "Welcome."

    (page,) = error.data["elicitations"]
    assert error.code == -32042
    assert page == {
        "mode": "url",
        "elicitationId": "visit-1",
        "url": "https://example.com/pay",
        "message": "Please pay first",
    }


@spec("ELIC-20")
@with_url_mode
async def test_url_elicitation_required_is_rejected_without_url_capability(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(gate(), capabilities={"elicitation": {"form": {}}}) as client:
        await assert_lacks(client.call_tool("enter"), mcp_version, "elicitation.url")


# Sampling.


def studio(**options: Any) -> Server:
    """A server whose tool requests sampling of ``messages``."""
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
TOOL_USE = {"type": "tool_use", "id": "use-1", "name": "look", "input": {}}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "use-1", "content": [TEXT]}


@spec("SAMP-02")
@pytest.mark.every_combination
async def test_sampling_request_contains_its_options_in_every_revision(
    client_for: ClientFor,
) -> None:
    model = RecordingResponder({**sampling_result("A cat."), "stopReason": "endTurn"})
    options = {"system_prompt": "Be brief", "temperature": 0.5, "stop_sequences": ["."]}
    server = studio(**options, model_preferences={"hints": [{"name": "small"}]})

    async with client_for(server, sampling=model) as client:
        result = await client.call_tool("think", {"messages": [message(TEXT)]})

    assert result.text == "A cat. (endTurn)"
    assert model.received == [
        {
            "messages": [message(TEXT)],
            "maxTokens": 50,
            "systemPrompt": "Be brief",
            "temperature": 0.5,
            "stopSequences": ["."],
            "modelPreferences": {"hints": [{"name": "small"}]},
        }
    ]


@spec("SAMP-03")
async def test_multi_block_sampling_message_is_split_before_2025_11_25(
    client_for: ClientFor, mcp_version: str
) -> None:
    model = RecordingResponder(sampling_result())

    async with client_for(studio(), sampling=model) as client:
        await client.call_tool("think", {"messages": [message(TEXT, IMAGE)]})

    together = [message(TEXT, IMAGE)]
    apart = [message(TEXT), message(IMAGE)]
    messages = model.received[0]["messages"]
    assert messages == (together if mcp_version in WITH_URL_MODE else apart)


@spec("SAMP-03")
async def test_sampling_with_audio_is_rejected_in_2024_11_05(
    client_for: ClientFor, mcp_version: str
) -> None:
    model = RecordingResponder(sampling_result())

    async with client_for(studio(), sampling=model) as client:
        call = client.call_tool("think", {"messages": [message(AUDIO)]})
        if mcp_version == "2024-11-05":
            await assert_lacks(call, mcp_version)
        else:
            await call

    assert len(model.received) == (mcp_version != "2024-11-05")


@spec("SAMP-01")
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"form": {}}, "roots": {}}])
async def test_sampling_is_rejected_without_client_capability(
    client_for: ClientFor, mcp_version: str, capabilities: dict[str, Any]
) -> None:
    model = RecordingResponder(sampling_result())

    async with client_for(studio(), sampling=model, capabilities=capabilities) as client:
        call = client.call_tool("think", {"messages": [message(TEXT)]})
        await assert_lacks(call, mcp_version, "sampling")

    assert model.received == []


@spec("SAMP-03")
@pytest.mark.parametrize(
    "block",
    [
        {"type": "resource", "resource": {"uri": "shop://x", "text": "x"}},
        {"type": "resource_link", "uri": "shop://x", "name": "x"},
        {"text": "x"},
    ],
)
async def test_sampling_with_content_that_no_revision_has_is_rejected(
    client_for: ClientFor, block: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = RecordingResponder(sampling_result())

    async with client_for(studio(), sampling=model) as client:
        answer = await client.call_tool("think", {"messages": [message(TEXT), message(block)]})

    assert answer["isError"]
    assert model.received == []
    assert "convert it to one of audio, image, text, tool_result, tool_use" in caplog.text


@spec("SAMP-01", "SAMP-04", "2026/MRTR-04", "2026/SMP-01")
@pytest.mark.parametrize("declared", [{}, {"tools": {}}], ids=["without tools", "with tools"])
async def test_sampling_with_tools_requires_the_sampling_tools_capability(
    client_for: ClientFor, mcp_version: str, declared: dict[str, Any]
) -> None:
    model = RecordingResponder(sampling_result())
    server = studio(tools=[{"name": "look", "inputSchema": {"type": "object"}}])

    async with client_for(server, sampling=model, capabilities={"sampling": declared}) as client:
        call = client.call_tool("think", {"messages": [message(TEXT)]})
        if declared and mcp_version in WITH_URL_MODE:
            await call
        else:
            await assert_lacks(call, mcp_version, "sampling.tools")

    assert len(model.received) == bool(declared and mcp_version in WITH_URL_MODE)


@spec("SAMP-07", "SAMP-08", "SAMP-09", "SAMP-12", "2026/SMP-02")
@with_url_mode
async def test_sampling_messages_with_unmatched_tool_use_are_rejected(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    model = RecordingResponder(sampling_result())
    capabilities: dict[str, Any] = {"sampling": {"tools": {}}}
    used = message(TOOL_USE, role="assistant")
    wrong = [
        [message(TEXT), used],
        [message(TEXT), used, message(TEXT)],
        [message(TEXT), used, message(TOOL_RESULT, TEXT)],
        [message(TEXT), used, message({**TOOL_RESULT, "toolUseId": "use-2"})],
        [message(TOOL_RESULT)],
    ]

    async with client_for(studio(), sampling=model, capabilities=capabilities) as client:
        right = [message(TEXT), used, message(TOOL_RESULT)]
        await client.call_tool("think", {"messages": right})
        for messages in wrong:
            assert (await client.call_tool("think", {"messages": messages}))["isError"]

    assert [request["messages"] for request in model.received] == [right]
    assert caplog.text.count("\nValueError: ") == len(wrong)


@spec("SAMP-05", "SAMP-06", "2026/SMP-01")
async def test_include_context_is_sent_without_capability_before_2025_11_25(
    client_for: ClientFor, mcp_version: str
) -> None:
    model = RecordingResponder(sampling_result())

    async with client_for(studio(include_context="thisServer"), sampling=model) as client:
        await client.call_tool("think", {"messages": [message(TEXT)]})

    assert ("includeContext" in model.received[0]) == (mcp_version not in WITH_URL_MODE)


@spec("SAMP-06")
@with_url_mode
async def test_include_context_is_sent_when_the_client_declares_it(client_for: ClientFor) -> None:
    model = RecordingResponder(sampling_result())
    server = studio(include_context="thisServer")
    capabilities: dict[str, Any] = {"sampling": {"context": {}}}

    async with client_for(server, sampling=model, capabilities=capabilities) as client:
        await client.call_tool("think", {"messages": [message(TEXT)]})

    assert model.received[0]["includeContext"] == "thisServer"


@spec("SAMP-12", "2026/SMP-03")
@pytest.mark.parametrize(
    "content", [None, {"type": "text", "text": 5}, [{"type": "text", "text": "a"}, "b"]]
)
async def test_sampling_is_repeated_after_an_invalid_response(
    client_for: ClientFor, content: Any
) -> None:
    invalid = {"role": "assistant", "model": "m", "content": content}
    model = RecordingResponder(invalid, sampling_result("Well."))

    async with client_for(studio(), sampling=model) as client:
        result = await client.call_tool("think", {"messages": [message(TEXT)]})

    assert result.text.startswith("Well.")
    assert len(model.received) == 2


@pytest.mark.parametrize(
    ("messages", "options", "remedy"),
    [
        ([{"role": "user", "content": "hi"}], {}, "is no message: write a text"),
        ([{"role": "user"}], {}, "is no message: write a text"),
        ({"role": "user", "content": TEXT}, {}, "is no message: write a text"),
        ("hi", {"top_p": 1}, "no option 'top_p' of sampling: there are system_prompt"),
    ],
)
def test_sampling_request_of_anything_else_names_the_remedy(
    messages: Any, options: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        input_requests.sample(messages, max_tokens=5, **options)


# Roots.


@spec("ROOT-02", "2026/ROO-01")
async def test_roots_request_is_repeated_when_a_root_is_not_a_file_uri(
    client_for: ClientFor,
) -> None:
    server = Server("files")

    @server.tool
    async def list_roots(frame: Frame) -> list[str]:
        return [root.uri for root in await frame.client.alist_roots()]

    misfits = {"roots": [{"uri": "https://example.com"}]}
    user = RecordingResponder(misfits, {"roots": [{"uri": "file:///home/ann", "name": "Home"}]})

    async with client_for(server, roots=user) as client:
        result = await client.call_tool("list_roots")

    assert result.text == '["file:///home/ann"]'
    assert len(user.received) == 2


# Invalid and missing responses.


@spec("SAMP-14", "ROOT-04", "ROOT-07", "ELIC-39")
@pytest.mark.parametrize("mcp_version", SESSION_VERSIONS)
@pytest.mark.parametrize("code", [-1, -32601, -32602, -32603])
async def test_error_response_of_the_client_is_raised_in_the_handler(
    client_for: ClientFor, code: int
) -> None:
    server = Server("studio")

    @server.tool
    async def think(frame: Frame) -> str:
        try:
            await frame.client.acreate_message("Well?", 50)
        except ClientError as error:
            return f"{error.code}: {error.message}"
        return "no error"

    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise McpError("No, thanks", code=code)

    async with client_for(server, sampling=refuse) as client:
        assert (await client.call_tool("think")).text == f"{code}: No, thanks"


@spec("SAMP-14")
@pytest.mark.parametrize("mcp_version", SESSION_VERSIONS)
async def test_uncaught_client_error_code_is_not_returned_to_the_client(
    client_for: ClientFor,
) -> None:
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
        error = await error_of(client.get_prompt("think"))

    assert result["isError"]
    assert "refused what it was asked: Method not found" in result.text
    assert error.code == -32603


@spec("2026/MRTR-01")
@pytest.mark.parametrize("mcp_version", [STATELESS])
async def test_input_request_in_a_completion_returns_internal_error(
    client_for: ClientFor, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    @server.hook
    async def handle_completion(ref: Any, argument: Any, frame: Frame) -> list[str]:
        return [str(await frame.client.aelicit("Which?", CHOICE))]

    server.prompt(name="order")(lambda size: "Well")

    async with client_for(server, elicitation=RecordingResponder(accepted(size="s"))) as client:
        error = await error_of(client.complete("order", "size"))

    assert error.code == -32603
    assert "may not request input" in caplog.text


# Timeouts and ids.


@spec("LIFE-24", "LIFE-25")
@pytest.mark.parametrize("mcp_version", SESSION_VERSIONS)
@pytest.mark.parametrize("mcp_transport", ["http", "stdio"])
async def test_input_request_timeout_raises_and_cancels_the_request(client_for: ClientFor) -> None:
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
        async with asyncio.timeout(SECONDS):
            await given_up.wait()
        return sampling_result("Too late.")

    async with client_for(server, sampling=ponder) as client:
        result = await client.call_tool("think")

    (withdrawn,) = [
        message["params"]
        for message in client.notifications
        if message["method"] == "notifications/cancelled"
    ]
    assert result.text == "The client did not answer sampling/createMessage in 0.05 s"
    assert withdrawn["reason"] == "No answer came in time"


@spec("RPC-02", "RPC-03", "RPC-04")
@pytest.mark.parametrize("mcp_version", SESSION_VERSIONS)
@pytest.mark.parametrize("mcp_transport", ["http", "stdio"])
async def test_input_request_ids_are_unique_in_a_session(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("studio")

    @server.tool
    async def think(frame: Frame) -> str:
        sampling_result = [await frame.client.acreate_message("Well?", 50) for _ in range(3)]
        return str(len(sampling_result))

    ids: list[Any] = []
    client = client_for(server, sampling=sampling_result())
    answer = client.answer_request

    async def answer_request(message: dict[str, Any]) -> dict[str, Any]:
        ids.append(message["id"])
        return await answer(message)

    monkeypatch.setattr(client, "answer_request", answer_request)
    async with client:
        await asyncio.gather(*(client.call_tool("think") for _ in range(3)))

    assert len(set(ids)) == len(ids) == 9
    assert all(isinstance(each, str) and each for each in ids)
