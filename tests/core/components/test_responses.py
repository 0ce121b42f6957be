"""Responses: immutable, built step by step."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from django_mcp.core.components.base import UnserializableResult
from django_mcp.core.components.responses import Response
from django_mcp.core.protocol.content import ImageContent, Message

URI = "shop://notes"


def test_response_is_immutable_and_each_method_returns_a_new_one() -> None:
    empty = Response.tool()
    assert empty.text("a") is not empty
    assert empty.to_protocol() == {"content": []}
    with pytest.raises(AttributeError):
        empty.is_error = True  # type: ignore[misc]


def test_tool_response_keeps_content_blocks_in_order() -> None:
    response = (
        Response.tool()
        .text("Hi", annotations={"audience": ["user"], "priority": 0.5})
        .json({"day": date(2026, 7, 28)})
        .image(b"\x00", "image/png")
        .audio("AAAA", "audio/wav")
        .embedded_resource(URI, text="A", mime_type="text/x")
        .resource_link(URI, "notes", title="Notes", size=3)
        .add("more", ImageContent("AA", "image/png"))
    )
    assert response.to_protocol() == {
        "content": [
            {
                "type": "text",
                "text": "Hi",
                "annotations": {"audience": ["user"], "priority": 0.5},
            },
            {"type": "text", "text": '{"day":"2026-07-28"}'},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {
                "type": "resource",
                "resource": {"uri": URI, "mimeType": "text/x", "text": "A"},
            },
            {
                "type": "resource_link",
                "uri": URI,
                "name": "notes",
                "title": "Notes",
                "size": 3,
            },
            {"type": "text", "text": "more"},
            {"type": "image", "data": "AA", "mimeType": "image/png"},
        ]
    }


def test_structured_content_is_repeated_as_text() -> None:
    assert Response.tool().structured({"day": date(2026, 7, 28)}).to_protocol() == {
        "content": [{"type": "text", "text": '{"day":"2026-07-28"}'}],
        "structuredContent": {"day": "2026-07-28"},
    }


def test_none_is_valid_structured_content() -> None:
    assert Response.tool().structured(None).to_protocol()["structuredContent"] is None


def test_error_sets_is_error_and_keeps_the_message() -> None:
    assert Response.tool().error("Out of stock").to_protocol() == {
        "content": [{"type": "text", "text": "Out of stock"}],
        "isError": True,
    }


def test_meta_calls_are_merged_for_each_kind_of_response() -> None:
    for response in (
        Response.tool().meta({"a": 1}).meta({"b": 2}),
        Response.prompt().meta({"a": 1, "b": 2}),
        Response.completion().meta({"a": 1, "b": 2}),
    ):
        assert response.to_protocol()["_meta"] == {"a": 1, "b": 2}
    assert Response.resource().meta({"a": 1}).to_protocol(URI)["_meta"] == {"a": 1}


def test_prompt_response_contains_messages_with_roles() -> None:
    response = (
        Response.prompt("A review")
        .system("Be brief")
        .user("Look")
        .assistant(ImageContent("AA", "image/png"))
        .add(Message("user", "Thanks"))
    )
    assert response.to_protocol() == {
        "description": "A review",
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Be brief"}},
            {"role": "user", "content": {"type": "text", "text": "Look"}},
            {
                "role": "assistant",
                "content": {"type": "image", "data": "AA", "mimeType": "image/png"},
            },
            {"role": "user", "content": {"type": "text", "text": "Thanks"}},
        ],
    }


def test_last_contents_of_a_resource_response_replace_earlier_ones() -> None:
    response = Response.resource().text("first").blob(b"A", mime_type="image/x").text("last")
    assert response.to_protocol(URI) == {
        "contents": [{"uri": URI, "mimeType": "text/plain", "text": "last"}]
    }


def test_resource_response_without_contents_is_empty_text() -> None:
    assert Response.resource().to_protocol(URI) == {
        "contents": [{"uri": URI, "mimeType": "text/plain", "text": ""}]
    }


def test_resource_response_contains_mime_type_name_and_size() -> None:
    response = Response.resource().json([1]).name("Notes").description("All").size(3)
    assert response.to_protocol(URI) == {
        "contents": [
            {
                "uri": URI,
                "mimeType": "application/json",
                "text": "[1]",
                "name": "Notes",
                "description": "All",
                "size": 3,
            }
        ]
    }


def test_resource_response_can_contain_other_resources() -> None:
    response = Response.resource().add("shop://a", text="A").add("shop://b", blob=b"B")
    assert [item["uri"] for item in response.to_protocol(URI)["contents"]] == [
        "shop://a",
        "shop://b",
    ]
    own = response.text("Folder").to_protocol(URI)["contents"]
    assert [item["uri"] for item in own] == [URI, "shop://a", "shop://b"]


def test_completion_response_is_limited_to_100_values() -> None:
    completion = Response.completion(map(str, range(101))).to_protocol()["completion"]
    assert len(completion["values"]) == 100
    assert (completion["total"], completion["hasMore"]) == (101, True)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Response.tool().image(b"", "png"),
        lambda: Response.tool().text("a", annotations={"priority": 2}),
        lambda: Response.resource().text("a", mime_type="plain"),
        lambda: Response.resource().add("shop://a"),
        lambda: Response.completion(["a", "b"]).with_pagination(total=1),
        lambda: Response.prompt().user({"text": "a"}),  # type: ignore[arg-type]
    ],
)
def test_invalid_argument_raises_value_error_when_response_is_built(build: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        build()


def test_unserializable_structure_raises_when_response_is_built() -> None:
    with pytest.raises(UnserializableResult):
        Response.tool().structured({"a": object()})


def test_response_kinds_have_no_methods_of_other_kinds() -> None:
    assert not hasattr(Response.tool(), "user")
    assert not hasattr(Response.prompt(), "structured")
    assert not hasattr(Response.resource(), "error")
    assert not hasattr(Response.completion(), "text")


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("orders.csv", "text/csv"),
        ("orders.csv.gz", "application/gzip"),
        ("logo.svgz", "application/gzip"),
        ("orders.tar.xz", "application/x-xz"),
        ("orders", "application/octet-stream"),
    ],
)
def test_file_has_the_type_of_its_bytes(name: str, mime_type: str) -> None:
    assert Response.file(b"\x1f\x8b", name=name).mime_type == mime_type
