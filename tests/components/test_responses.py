"""Responses: built piece by piece, never changed in place."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from django_mcp.components.base import UnfitResult
from django_mcp.components.response import Response
from django_mcp.protocol.content import ImageContent, Message

URI = "shop://notes"


def test_every_step_gives_a_new_response() -> None:
    empty = Response.tool()
    assert empty.text("a") is not empty
    assert empty.to_protocol() == {"content": []}
    with pytest.raises(AttributeError):
        empty.is_error = True  # type: ignore[misc]


def test_a_tool_says_one_thing_after_another() -> None:
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


def test_a_structure_is_said_as_text_too() -> None:
    assert Response.tool().structured({"day": date(2026, 7, 28)}).to_protocol() == {
        "content": [{"type": "text", "text": '{"day":"2026-07-28"}'}],
        "structuredContent": {"day": "2026-07-28"},
    }


def test_null_is_a_structure() -> None:
    assert Response.tool().structured(None).to_protocol()["structuredContent"] is None


def test_an_error_is_said_as_it_is_with_its_mark() -> None:
    assert Response.tool().error("Out of stock").to_protocol() == {
        "content": [{"type": "text", "text": "Out of stock"}],
        "isError": True,
    }


def test_metadata_of_the_result_adds_up() -> None:
    for response in (
        Response.tool().meta({"a": 1}).meta({"b": 2}),
        Response.prompt().meta({"a": 1, "b": 2}),
        Response.completion().meta({"a": 1, "b": 2}),
    ):
        assert response.to_protocol()["_meta"] == {"a": 1, "b": 2}
    assert Response.resource().meta({"a": 1}).to_protocol(URI)["_meta"] == {"a": 1}


def test_a_prompt_is_a_conversation() -> None:
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


def test_contents_of_a_resource_replace_each_other() -> None:
    response = Response.resource().text("first").blob(b"A", mime_type="image/x").text("last")
    assert response.to_protocol(URI) == {
        "contents": [{"uri": URI, "mimeType": "text/plain", "text": "last"}]
    }


def test_a_resource_that_says_nothing_is_empty() -> None:
    assert Response.resource().to_protocol(URI) == {
        "contents": [{"uri": URI, "mimeType": "text/plain", "text": ""}]
    }


def test_a_resource_says_its_type_and_what_it_is_called() -> None:
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


def test_a_resource_brings_others_along() -> None:
    response = Response.resource().add("shop://a", text="A").add("shop://b", blob=b"B")
    assert [item["uri"] for item in response.to_protocol(URI)["contents"]] == [
        "shop://a",
        "shop://b",
    ]
    own = response.text("Folder").to_protocol(URI)["contents"]
    assert [item["uri"] for item in own] == [URI, "shop://a", "shop://b"]


def test_a_completion_says_at_most_a_hundred_values() -> None:
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
def test_a_mistake_is_reported_where_it_is_written(build: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        build()


def test_what_json_cannot_say_is_reported_where_it_is_written() -> None:
    with pytest.raises(UnfitResult):
        Response.tool().structured({"a": object()})


def test_each_kind_has_its_own_methods_only() -> None:
    assert not hasattr(Response.tool(), "user")
    assert not hasattr(Response.prompt(), "structured")
    assert not hasattr(Response.resource(), "error")
    assert not hasattr(Response.completion(), "text")
