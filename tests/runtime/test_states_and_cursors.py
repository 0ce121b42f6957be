"""Request states and cursors belong to one server and one caller."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any

import pytest
from pytest_django import Settings

from django_mcp import Frame, Server
from tests.by_hand.people import ByHeader, Person, bearer, problems
from tests.by_hand.shop import FORM
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import Message, text_of

__all__ = ["configure"]

ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}


YES = {"action": "accept", "content": {"sure": True}}


def ordering(name: str, tier: str | None = None) -> Server:
    """A server whose tool remembers something and asks."""
    server = Server(name)

    @server.tool(requests_input=True)
    async def order(frame: Frame) -> Any:
        if tier is not None:
            frame = frame.assign("tier", tier)
        answer = await frame.client.aelicit("Sure?", FORM, key="sure")
        return f"{answer.action} {frame.assigns.get('tier')}"

    return server


def retried(peer: AsgiClient, required: Message, tool: str = "order") -> Message:
    return peer.call(
        tool, params={"requestState": required["requestState"], "inputResponses": {"sure": YES}}
    )


@spec("isolation-01")
async def test_state_of_one_server_is_rejected_by_another() -> None:
    office, shop = AsgiClient(ordering("office", "gold")), AsgiClient(ordering("shop"))
    office.capabilities = shop.capabilities = ELICITS
    required = (await office.tool("order")).result

    response = await shop.post(retried(shop, required))

    assert response.error["code"] == -32602


@spec("isolation-02")
async def test_state_of_a_server_at_another_path_is_rejected() -> None:
    first, second = ordering("office", "gold"), ordering("office")
    first.path, second.path = "/first", "/second"
    one, other = AsgiClient(first, capabilities=ELICITS), AsgiClient(second, capabilities=ELICITS)
    required = (await one.tool("order")).result

    response = await other.post(retried(other, required))

    assert response.error["code"] == -32602


def readable(text: str) -> str:
    """What anybody can read of a signed text."""
    found = [text]
    for part in re.split(r"[:.]", text):
        try:
            found.append(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("latin-1"))
        except ValueError:
            continue
    return " ".join(found)


@spec("isolation-03")
async def test_state_cannot_be_read_by_its_client() -> None:
    peer = AsgiClient(ordering("office", "secret-tier"), capabilities=ELICITS)

    required = (await peer.tool("order")).result

    assert "secret-tier" not in readable(required["requestState"])


@spec("isolation-04")
async def test_answers_without_a_state_are_not_accepted() -> None:
    peer = AsgiClient(ordering("office"), capabilities=ELICITS)

    response = await peer.tool("order", params={"inputResponses": {"sure": YES}})

    assert response.result["resultType"] == "input_required"
    assert [*response.result["inputRequests"]] == ["sure"]


@spec("isolation-05")
async def test_answer_that_was_not_requested_is_not_accepted() -> None:
    server = Server("shop")

    @server.tool(requests_input=True)
    async def order(frame: Frame) -> str:
        first = await frame.client.aelicit("First?", FORM, key="sure")
        second = await frame.client.aelicit("Second?", FORM, key="really")
        return f"{first.action} {second.action}"

    peer = AsgiClient(server, capabilities=ELICITS)
    required = (await peer.tool("order")).result
    assert [*required["inputRequests"]] == ["sure"]

    both = {"sure": YES, "really": YES}
    response = await peer.tool(
        "order", params={"requestState": required["requestState"], "inputResponses": both}
    )

    assert response.result["resultType"] == "input_required"
    assert [*response.result["inputRequests"]] == ["really"]


async def test_state_of_a_call_that_was_cut_off_can_be_used_again(configure: Configure) -> None:
    configure(REQUEST_STATE_SINGLE_USE=True)
    server = Server("shop")
    go_on, begun = asyncio.Event(), asyncio.Event()

    @server.tool(requests_input=True)
    async def order(frame: Frame) -> str:
        answer = await frame.client.aelicit("Sure?", FORM, key="sure")
        begun.set()
        await go_on.wait()
        return f"{answer.action}"

    peer = AsgiClient(server, capabilities=ELICITS)
    required = (await peer.tool("order")).result
    async with peer.open_post(retried(peer, required)) as first:
        await begun.wait()
        first.disconnect()
        await first.wait_closed()
    go_on.set()
    second = await peer.post(retried(peer, required))
    third = await peer.post(retried(peer, required))

    assert text_of(second.result) == "accept"
    assert third.error["code"] == -32602


@pytest.mark.parametrize(
    "cache", ["locmem.LocMemCache", "dummy.DummyCache", "filebased.FileBasedCache"]
)
@pytest.mark.django_db  # Checks of models look at the database.
def test_cache_that_cannot_hold_used_states_is_an_error(
    cache: str, configure: Configure, settings: Settings
) -> None:
    backend = f"django.core.cache.backends.{cache}"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "/tmp/nowhere"}}
    configure()
    before = {message.id for message in problems(deploy=True)}
    configure(REQUEST_STATE_SINGLE_USE=True)

    found = [each for each in problems(deploy=True) if each.id not in before]

    assert [each for each in found if each.is_serious()], "There is no such check"


def paged(**options: Any) -> Server:
    """A server with two pages of tools."""
    server = Server("shop", page_size=1, **options)

    @server.tool
    def first_tool() -> str:
        return ""

    @server.tool
    def second_tool() -> str:
        return ""

    return server


@spec("isolation-06")
async def test_cursor_of_another_caller_is_rejected() -> None:
    server = paged(authenticators=[ByHeader(Person(1), Person(2))])
    one, other = AsgiClient(server, headers=bearer(1)), AsgiClient(server, headers=bearer(2))
    cursor = (await one.post(one.request("tools/list"))).result["nextCursor"]

    own = await one.post(one.request("tools/list", {"cursor": cursor}))
    foreign = await other.post(other.request("tools/list", {"cursor": cursor}))

    assert len(own.result["tools"]) == 1
    assert foreign.error["code"] == -32602


@spec("isolation-07")
async def test_cursor_cannot_be_read_by_its_client() -> None:
    peer = AsgiClient(paged())

    cursor = (await peer.post(peer.request("tools/list"))).result["nextCursor"]

    assert "first_tool" not in readable(cursor)
