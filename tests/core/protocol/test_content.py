from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime
from typing import Any

import pytest

from django_mcp.core.protocol.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    Icon,
    ImageContent,
    Message,
    ResourceLink,
    TextContent,
    block,
)
from tests.rows import rows
from tests.spec import spec


def test_text_content_serializes_to_a_text_block() -> None:
    assert TextContent("Hello").to_protocol() == {"type": "text", "text": "Hello"}


@rows(
    "value", [Annotations(), Icon("data:,x"), TextContent("Hello"), ImageContent(b"", "image/png")]
)
def test_content_cannot_be_changed(value: Any) -> None:
    """Lists of components are encoded once, with the icons that they had then."""
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "other")


@spec("TOOL-20", "2026/TOOL-12")
def test_bytes_are_encoded_in_standard_base64() -> None:
    assert ImageContent(b"\xfb\xff", "image/png").to_protocol() == {
        "type": "image",
        "data": "+/8=",
        "mimeType": "image/png",
    }


def test_string_data_is_treated_as_base64() -> None:
    assert AudioContent("AAAA", "audio/wav").to_protocol() == {
        "type": "audio",
        "data": "AAAA",
        "mimeType": "audio/wav",
    }


@spec("TOOL-21")
def test_resource_link_omits_missing_fields() -> None:
    assert ResourceLink("file:///a", "a").to_protocol() == {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
    }


def test_resource_link_contains_all_given_fields() -> None:
    link = ResourceLink(
        "file:///a",
        "a",
        title="A",
        description="The a",
        mime_type="text/plain",
        size=3,
        icons=["https://example.org/a.png"],
        annotations={"priority": 1},
        meta={"k": 1},
    )
    assert link.to_protocol() == {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
        "title": "A",
        "description": "The a",
        "mimeType": "text/plain",
        "size": 3,
        "icons": [{"src": "https://example.org/a.png"}],
        "annotations": {"priority": 1},
        "_meta": {"k": 1},
    }


@spec("PROMPT-07", "2026/PRM-04")
def test_embedded_resource_contains_text_or_blob() -> None:
    text = EmbeddedResource("file:///a", "A", mime_type="text/x", meta={"k": 1})
    blob = EmbeddedResource("file:///a", blob=b"A")
    assert text.to_protocol() == {
        "type": "resource",
        "resource": {"uri": "file:///a", "mimeType": "text/x", "text": "A"},
        "_meta": {"k": 1},
    }
    assert blob.to_protocol()["resource"] == {"uri": "file:///a", "blob": "QQ=="}
    assert blob.contents("image/x")["mimeType"] == "image/x"


@spec("PROMPT-05", "PROMPT-06")
@rows(
    ("make", "problem"),
    [
        (lambda: EmbeddedResource("file:///a"), "either a text or a blob"),
        (lambda: EmbeddedResource("file:///a", "A", b"A"), "either a text or a blob"),
        (lambda: EmbeddedResource("", "A"), "needs a URI"),
        (lambda: ResourceLink("", "a"), "needs a URI"),
        (lambda: ResourceLink("file:///a", ""), "needs a name"),
        (lambda: ResourceLink("file:///a", "a", mime_type="png"), "two parts"),
        (lambda: ImageContent(b"", ""), "two parts"),
        (lambda: AudioContent(b"", "wav"), "two parts"),
        (lambda: TextContent("a", {"priority": 2}), "from 0"),
        (lambda: ImageContent(b"", "image/png", {"priority": True}), "from 0"),
        (lambda: TextContent("a", {"audience": ["everyone"]}), "audience"),
        (lambda: TextContent("a", {"audience": "user"}), "audience"),
        (lambda: TextContent("a", {"colour": "red"}), "not colour"),
        (lambda: Icon("javascript:alert()"), "https:"),
        (lambda: Icon("https://example.org/a.png", theme="blue"), "theme"),  # type: ignore[arg-type]
        (lambda: Icon.of({"source": "https://example.org/a.png"}), "an icon has"),
        (lambda: Message("system", "a"), "role"),  # type: ignore[arg-type]
        (lambda: Message("user", {"text": "a"}), "type"),
        (lambda: Message("user", {"type": "tool_use", "id": "1", "name": "x"}), "not 'tool_use'"),
        (lambda: Message("user", {"type": []}), "type"),
        (lambda: Message("user", {"type": "image", "data": "AA"}), "needs mimeType"),
    ],
)
def test_invalid_content_raises_value_error_at_construction(make: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


@spec("RES-09", "2026/RES-10")
def test_annotations_accept_snake_case_and_camel_case_keys() -> None:
    modified = datetime(2026, 7, 28, tzinfo=UTC)
    spelled = [
        Annotations(["user"], 0.5, modified),
        Annotations.of({"audience": ["user"], "priority": 0.5, "last_modified": modified}),
        Annotations.of({"audience": ["user"], "priority": 0.5, "lastModified": modified}),
    ]
    for each in spelled:
        assert TextContent("a", each).to_protocol()["annotations"] == {
            "audience": ["user"],
            "priority": 0.5,
            "lastModified": "2026-07-28T00:00:00+00:00",
        }


@spec("ICON-01", "2026/ICO-01")
def test_icon_accepts_a_uri_a_mapping_or_an_icon() -> None:
    described = {"src": "data:,x", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
    assert Icon.of("data:,x").to_protocol() == {"src": "data:,x"}
    assert Icon.of(described).to_protocol() == described
    assert Icon.of(Icon("data:,x")).to_protocol() == {"src": "data:,x"}


@spec("ICON-01", "2026/ICO-01")
@rows("source", ["javascript:alert(1)", "file:///etc/passwd", "ftp://x/y", "x"])
def test_icon_from_another_source_than_http_or_data_is_rejected(source: str) -> None:
    for icon in (source, {"src": source}):
        with pytest.raises(ValueError, match="src of an icon"):
            Icon.of(icon)


@spec("TOOL-24", "RES-09", "2026/RES-10")
@rows("priority", [-0.1, 1.1, 5, float("nan"), True, "1"])
def test_priority_that_is_no_number_from_0_to_1_is_rejected(priority: Any) -> None:
    with pytest.raises(ValueError, match="from 0"):
        Annotations.of({"priority": priority})


def test_message_accepts_a_string_content_or_a_block() -> None:
    assert Message("user", "Hi").to_protocol() == {
        "role": "user",
        "content": {"type": "text", "text": "Hi"},
    }
    assert Message("assistant", ImageContent("AA", "image/png")).to_protocol()["content"] == {
        "type": "image",
        "data": "AA",
        "mimeType": "image/png",
    }
    assert Message("user", {"type": "text", "text": "Hi"}).to_protocol()["content"] == {
        "type": "text",
        "text": "Hi",
    }


def test_string_is_converted_to_text_content() -> None:
    assert block("a") == TextContent("a")
    assert block(TextContent("a")) == TextContent("a")
