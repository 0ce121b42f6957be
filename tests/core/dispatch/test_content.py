"""Content blocks in the format of each revision."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from django_mcp import Frame, Response, Server
from django_mcp.core.components.responses import PromptResponse, ToolResponse
from django_mcp.core.protocol.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    Message,
    ResourceLink,
    TextContent,
)
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec

BYTES = b"\x00\x01"
ENCODED = base64.b64encode(BYTES).decode()

AUDIO = {"type": "audio", "data": ENCODED, "mimeType": "audio/wav"}
AUDIO_AS_RESOURCE = {
    "type": "resource",
    "resource": {"uri": "urn:mcp:audio", "mimeType": "audio/wav", "blob": ENCODED},
}
LINK_AS_TEXT = {"type": "text", "text": "Hours: shop://hours\nWhen we are open"}


async def blocks(client_for: ClientFor, answer: ToolResponse) -> list[dict[str, Any]]:
    """The content blocks of a tool's result."""
    server = Server("shop")
    server.tool(name="show")(lambda: answer)

    async with client_for(server) as client:
        content: list[dict[str, Any]] = (await client.call_tool("show"))["content"]
    return content


@spec("TOOL-20")
@pytest.mark.every_combination
async def test_text_and_image_blocks_are_sent_in_every_revision(client_for: ClientFor) -> None:
    answer = Response.tool().text("Hello").image(BYTES, "image/png").image(ENCODED, "image/gif")

    assert await blocks(client_for, answer) == [
        {"type": "text", "text": "Hello"},
        {"type": "image", "data": ENCODED, "mimeType": "image/png"},
        {"type": "image", "data": ENCODED, "mimeType": "image/gif"},
    ]


@spec("TOOL-22", "2026/TOOL-12")
@pytest.mark.every_combination
async def test_embedded_resources_are_sent_in_every_revision(client_for: ClientFor) -> None:
    answer = (
        Response.tool()
        .embedded_resource("shop://hours", text="always", mime_type="text/plain")
        .embedded_resource("shop://logo", blob=BYTES, mime_type="image/png")
    )

    assert await blocks(client_for, answer) == [
        {
            "type": "resource",
            "resource": {"uri": "shop://hours", "mimeType": "text/plain", "text": "always"},
        },
        {
            "type": "resource",
            "resource": {"uri": "shop://logo", "mimeType": "image/png", "blob": ENCODED},
        },
    ]


@spec("TOOL-19")
async def test_audio_is_sent_as_embedded_resource_in_2024_11_05(
    client_for: ClientFor, mcp_version: str
) -> None:
    answer = Response.tool().audio(BYTES, "audio/wav")

    expected = AUDIO_AS_RESOURCE if mcp_version == "2024-11-05" else AUDIO
    assert await blocks(client_for, answer) == [expected]


@spec("TOOL-19")
async def test_resource_link_is_sent_as_text_before_2025_06_18(
    client_for: ClientFor, mcp_version: str
) -> None:
    answer = Response.tool().resource_link(
        "shop://hours",
        "Hours",
        title="Opening hours",
        description="When we are open",
        icons=["https://example.com/clock.png"],
    )

    (block,) = await blocks(client_for, answer)

    if mcp_version in ("2024-11-05", "2025-03-26"):
        assert block == LINK_AS_TEXT
    else:
        assert (block["type"], block["title"]) == ("resource_link", "Opening hours")
        assert ("icons" in block) == (mcp_version != "2025-06-18")


@spec("TOOL-24")
async def test_last_modified_annotation_is_omitted_before_2025_06_18(
    client_for: ClientFor, mcp_version: str
) -> None:
    annotations = Annotations(audience=["user"], priority=1, last_modified="2026-07-28T00:00:00Z")

    (block,) = await blocks(client_for, Response.tool().text("Hello", annotations=annotations))

    expected: dict[str, Any] = {"audience": ["user"], "priority": 1}
    if mcp_version >= "2025-06-18":
        expected["lastModified"] = "2026-07-28T00:00:00Z"
    assert block["annotations"] == expected


@spec("META-08")
async def test_block_meta_is_omitted_before_2025_06_18(
    client_for: ClientFor, mcp_version: str
) -> None:
    (block,) = await blocks(
        client_for, Response.tool().add(TextContent("Hello", meta={"com.example/key": 1}))
    )

    assert ("_meta" in block) == (mcp_version >= "2025-06-18")


async def test_returned_content_blocks_are_sent_unchanged(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def one() -> ImageContent:
        return ImageContent(BYTES, "image/png")

    @server.tool
    def several() -> list[str | TextContent | ImageContent]:
        return ["Look:", ImageContent(BYTES, "image/png")]

    async with client_for(server) as client:
        results = [await client.call_tool(name) for name in ("one", "several")]

    kinds = [[block["type"] for block in result["content"]] for result in results]
    assert kinds == [["image"], ["text", "image"]]


@spec("PROMPT-05", "PROMPT-06", "PROMPT-08", "2026/PRM-04")
async def test_prompt_messages_are_converted_to_the_negotiated_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.prompt
    def listen() -> PromptResponse:
        return (
            Response.prompt("Listens")
            .user(AudioContent(BYTES, "audio/wav"))
            .assistant("Nice")
            .add(Message("user", ResourceLink("shop://hours", "Hours", "When", "When we are open")))
            .user(EmbeddedResource("shop://logo", blob=BYTES))
        )

    async with client_for(server) as client:
        result = await client.get_prompt("listen")

    kinds = [(each["role"], each["content"]["type"]) for each in result["messages"]]
    assert kinds == [
        ("user", "resource" if mcp_version == "2024-11-05" else "audio"),
        ("assistant", "text"),
        ("user", "resource_link" if mcp_version >= "2025-06-18" else "text"),
        ("user", "resource"),
    ]
    assert result["description"] == "Listens"


@spec("PROMPT-04")
@pytest.mark.parametrize("content", [{"type": "tool_use", "id": "1"}, {"type": "image"}])
async def test_prompt_message_that_is_no_content_returns_internal_error(
    client_for: ClientFor, content: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")
    server.prompt(name="ask")(lambda: [{"role": "user", "content": content}])

    async with client_for(server) as client:
        error = await error_of(client.get_prompt("ask"))

    assert error.code == -32603
    assert "A prompt returned a mapping that is no message" in caplog.text


@spec("RPC-05")
@pytest.mark.parametrize("mcp_version", ["2024-11-05", "2025-11-25"])
async def test_middleware_result_without_its_members_returns_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(frame: Frame, call_next: Any) -> Any:
        if frame.message.method == "prompts/get":
            return {"messages": [{"role": "user"}]}, frame
        return await call_next(frame)

    server = Server("shop", middleware=[answer])
    server.prompt(name="ask")(lambda: "Hi")

    async with client_for(server) as client:
        error = await error_of(client.get_prompt("ask"))

    assert error.code == -32603
    assert "'prompts/get' failed" in caplog.text
