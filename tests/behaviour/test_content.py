"""Blocks of content, in the words of each revision."""

from __future__ import annotations

import base64
from typing import Any

from django_mcp import Response, Server
from django_mcp.components.response import PromptResponse, ToolResponse
from django_mcp.protocol.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    Message,
    ResourceLink,
    TextContent,
)
from django_mcp.testing.plugin import ClientFor

BYTES = b"\x00\x01"
ENCODED = base64.b64encode(BYTES).decode()

AUDIO = {"type": "audio", "data": ENCODED, "mimeType": "audio/wav"}
AUDIO_ENCLOSED = {
    "type": "resource",
    "resource": {"uri": "urn:mcp:audio", "mimeType": "audio/wav", "blob": ENCODED},
}
LINK_AS_TEXT = {"type": "text", "text": "Hours: shop://hours\nWhen we are open"}


async def blocks(client_for: ClientFor, answer: ToolResponse) -> list[dict[str, Any]]:
    """The blocks which arrive of ``answer``."""
    server = Server("shop")
    server.tool(name="show")(lambda: answer)

    async with client_for(server) as client:
        content: list[dict[str, Any]] = (await client.call_tool("show"))["content"]
    return content


async def test_text_and_images_are_known_everywhere(client_for: ClientFor) -> None:
    answer = Response.tool().text("Hello").image(BYTES, "image/png").image(ENCODED, "image/gif")

    assert await blocks(client_for, answer) == [
        {"type": "text", "text": "Hello"},
        {"type": "image", "data": ENCODED, "mimeType": "image/png"},
        {"type": "image", "data": ENCODED, "mimeType": "image/gif"},
    ]


async def test_embedded_resources_are_known_everywhere(client_for: ClientFor) -> None:
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


async def test_audio_is_enclosed_for_clients_which_know_none(
    client_for: ClientFor, mcp_version: str
) -> None:
    answer = Response.tool().audio(BYTES, "audio/wav")

    expected = AUDIO_ENCLOSED if mcp_version == "2024-11-05" else AUDIO
    assert await blocks(client_for, answer) == [expected]


async def test_a_link_is_written_out_for_clients_which_know_none(
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


async def test_annotations_lose_what_the_revision_does_not_know(
    client_for: ClientFor, mcp_version: str
) -> None:
    annotations = Annotations(audience=["user"], priority=1, last_modified="2026-07-28T00:00:00Z")

    (block,) = await blocks(client_for, Response.tool().text("Hello", annotations=annotations))

    expected: dict[str, Any] = {"audience": ["user"], "priority": 1}
    if mcp_version >= "2025-06-18":
        expected["lastModified"] = "2026-07-28T00:00:00Z"
    assert block["annotations"] == expected


async def test_the_meta_of_a_block_is_left_out_where_there_is_none(
    client_for: ClientFor, mcp_version: str
) -> None:
    (block,) = await blocks(
        client_for, Response.tool().add(TextContent("Hello", meta={"com.example/key": 1}))
    )

    assert ("_meta" in block) == (mcp_version >= "2025-06-18")


async def test_blocks_may_be_returned_as_they_are(client_for: ClientFor) -> None:
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


async def test_the_messages_of_a_prompt_are_in_the_words_of_the_revision(
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
