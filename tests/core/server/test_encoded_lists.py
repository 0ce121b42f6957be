"""Lists that are encoded once for all who are sent the same, and what must not be kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

import pytest
from django.utils.functional import lazystr
from pydantic import Field

from django_mcp import Frame, Server
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.dispatch.invocation import Answer
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.revisions import NEWEST, REVISIONS
from django_mcp.core.server import component_lists
from django_mcp.testing import Client

if TYPE_CHECKING:
    from django_mcp.core.server.server import CallNext


def nothing() -> None:
    """Does nothing."""


def shop(*names: str, **options: Any) -> Server:
    server = Server("shop")
    for name in names:
        server.tool(name=name, **options)(nothing)
    return server


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools that are described from now on."""
    found: list[str] = []
    original: Callable[[ToolComponent], dict[str, Any]] = ToolComponent.descriptor

    def descriptor(tool: ToolComponent) -> dict[str, Any]:
        found.append(tool.name)
        return original(tool)

    monkeypatch.setattr(ToolComponent, "descriptor", descriptor)
    return found


def encoded(server: Server) -> bytes:
    return server.components.encoded_list(NEWEST, server.components.of_kind("tool"))


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.version)
def test_encoded_list_has_the_descriptors_of_the_revision(revision: Any) -> None:
    server = shop("a", "b", title="Nothing", output_schema={"type": "integer"})
    listed = server.components.of_kind("tool")

    json = server.components.encoded_list(revision, listed)

    expected = [server.components.descriptor(revision, each) for each in listed]
    assert jsonrpc.decode(json) == expected


def test_unchanged_components_are_described_for_one_list_only(described: list[str]) -> None:
    server = shop("a", "b")

    first = encoded(server)
    described.clear()

    assert encoded(server) is first
    assert described == []


def test_changed_component_is_listed_as_it_is_now() -> None:
    server = shop("a", "b")
    before = encoded(server)

    server.components.replace(tool_component(nothing, name="b", description="Changed"))
    changed = encoded(server)
    server.components.remove("tool", "a")

    assert b"Changed" not in before
    assert b"Changed" in changed
    assert [each["name"] for each in jsonrpc.decode(encoded(server))] == ["b"]


def test_computed_description_is_not_kept_and_others_are(described: list[str]) -> None:
    server = shop("a", "b")
    texts = iter(["one", "two"])
    server.tool(name="c", description=lambda: next(texts))(nothing)

    first = encoded(server)
    described.clear()
    second = encoded(server)

    assert (b"one" in first, b"two" in second) == (True, True)
    assert set(described) == {"c"}


def test_encoded_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    server = shop("a", "b", "c")
    listed = server.components.of_kind("tool")
    size = len(server.components.encoded_list(NEWEST, listed[:1]))
    monkeypatch.setattr(component_lists, "MAX_LISTS", 2 * size)

    ones = [server.components.encoded_list(NEWEST, [each]) for each in listed]
    again = [server.components.encoded_list(NEWEST, [each]) for each in listed]

    assert again == ones
    assert server.components.encoded_list(NEWEST, listed) == b"[%b]" % b",".join(
        one[1:-1] for one in ones
    )


async def test_each_caller_is_listed_what_is_visible_to_them() -> None:
    server = shop("public")
    allowed = {"a": True, "b": False}

    def is_allowed(name: str) -> Callable[[Frame], bool]:
        return lambda frame: allowed[name]

    for name in allowed:
        server.tool(name=name, permission=is_allowed(name))(nothing)
    seen = []
    async with Client(server, transport="http") as client:
        for allowed["b"] in (False, True, False):
            seen.append([each["name"] for each in await client.list_tools()])

    assert seen == [["a", "public"], ["a", "b", "public"], ["a", "public"]]


async def test_middleware_receives_values_that_it_may_change() -> None:
    lists: list[Any] = []

    async def changing(frame: Frame, call_next: CallNext) -> Answer:
        result, after = await call_next(frame)
        if isinstance(result, dict) and "tools" in result:
            lists.append([each["inputSchema"].get("changed") for each in result["tools"]])
            result["tools"][0]["inputSchema"]["changed"] = True
        return result, after

    server = Server("shop", middleware=[changing])
    server.tool(name="a")(nothing)
    async with Client(server, transport="http") as client:
        for _ in range(2):
            (listed,) = await client.list_tools()

    assert listed["inputSchema"]["changed"] is True
    assert lists == [[None], [None]]


HALF = "x\ud800"


def strange(a: Annotated[str, Field(description=HALF)]) -> None:
    """Have an argument with a text that is none."""


@pytest.mark.parametrize(
    "register",
    [
        lambda server: server.tool(description=HALF)(nothing),
        lambda server: server.tool(title=HALF)(nothing),
        lambda server: server.tool(strange),
        lambda server: server.prompt(strange),
        lambda server: server.tool(icons=[f"https://a.example/{HALF}"])(nothing),
        lambda server: server.resource("a://b", mime_type=f"text/{HALF}")(nothing),
        lambda server: server.describe(title=HALF),
        lambda server: Server("shop", instructions=HALF),
    ],
)
def test_text_with_a_lone_surrogate_is_refused_when_it_is_registered(
    register: Callable[[Server], Any],
) -> None:
    with pytest.raises(ConfigurationError, match="half of a surrogate pair"):
        register(Server("shop"))


async def test_computed_text_with_a_lone_surrogate_takes_no_other_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    title = cast(str, lazystr(HALF))
    server = Server("computed", title=title, instructions=lambda: HALF)
    server.tool(name="a", title=title, description=lambda: HALF)(nothing)
    server.tool(name="b")(nothing)
    async with Client(server, transport="http") as client:
        first, _ = await client.list_tools(), await client.list_tools()
        found = await client.request("server/discover")
    (tool, other) = first
    assert (tool["title"], tool["description"], other["name"]) == ("x\\ud800", "x\\ud800", "b")
    assert found["instructions"] == "x\\ud800"
    assert caplog.text.count("The description of the tool 'a' at ") == 1
