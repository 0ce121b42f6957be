"""Permissions that depend on the caller alone: asked once for all pages of a list."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.dispatch import list_answers
from django_mcp.testing import Client, ErrorResponse
from tests.core.dispatch.guarded import Member

COUNT = 30


class OfCaller:
    """Admits callers to every third tool."""

    is_of_caller = True

    def __init__(self, number: int, asked: Counter[int]) -> None:
        self.number = number
        self.asked = asked
        self.is_admitted = number % 3 == 0

    def __call__(self, frame: Frame) -> bool:
        self.asked[self.number] += 1
        return self.is_admitted


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_answers, "_store", list_answers._Store())


@pytest.fixture
def asked() -> Counter[int]:
    return Counter()


@pytest.fixture
def guards(asked: Counter[int]) -> list[OfCaller]:
    return [OfCaller(number, asked) for number in range(COUNT)]


@pytest.fixture
def server(guards: list[OfCaller]) -> Server:
    server = Server("office", page_size=4)
    for guard in guards:
        name = f"tool_{guard.number:02}"
        server.tool(name=name, group="all", permission=guard)(lambda: "done")
    return server


def connect(server: Server, **options: Any) -> Client:
    return Client(server, transport="http", user=Member(is_permitted=True), **options)


EXPECTED = [f"tool_{number:02}" for number in range(0, COUNT, 3)]


@pytest.mark.parametrize("query", ["", "groups=all"])
async def test_each_permission_is_asked_once_for_all_pages(
    server: Server, asked: Counter[int], query: str
) -> None:
    async with connect(server, query=query, version="2026-07-28") as client:
        assert [tool["name"] for tool in await client.list_tools()] == EXPECTED
        assert set(asked.values()) == {1}
        assert len(asked) == COUNT
        assert [tool["name"] for tool in await client.list_tools()] == EXPECTED
        assert set(asked.values()) == {2}
    assert not list_answers._store._kept


async def test_call_and_next_list_ask_again(server: Server, guards: list[OfCaller]) -> None:
    async with connect(server) as client:
        await client.request("tools/list")
        guards[0].is_admitted = False
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            await client.call_tool("tool_00")
        assert [tool["name"] for tool in await client.list_tools()] == EXPECTED[1:]


async def test_answers_are_bounded_and_pages_without_them_ask_again(
    server: Server, asked: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_answers, "MAX_ANSWERS", 20)
    async with connect(server) as client:
        for _ in range(50):
            await client.request("tools/list")
        assert sum(len(kept.answers) for kept in list_answers._store._kept.values()) <= 20
        monkeypatch.setattr(list_answers, "MAX_ANSWERS", 0)
        assert [tool["name"] for tool in await client.list_tools()] == EXPECTED
    assert not list_answers._store._kept


async def test_answers_of_other_scopes_are_not_used(server: Server, asked: Counter[int]) -> None:
    async with connect(server) as client:
        page = await client.request("tools/list")
    first = sum(asked.values())
    async with connect(server, scopes=["more"]) as client:
        await client.request("tools/list", {"cursor": page["nextCursor"]})
    assert sum(asked.values()) > first + 4
