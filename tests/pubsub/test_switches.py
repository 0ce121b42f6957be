"""Components that are switched off: what clients see of them, and how workers learn of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from django_mcp import Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.components.base import Component
from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.thread_pool import PoolEnded
from django_mcp.core.protocol.errors import McpError
from django_mcp.models import SwitchedOff
from django_mcp.pubsub import catch_up, switches
from django_mcp.registry import Entry
from django_mcp.runtime import pools
from django_mcp.testing import Client
from tests.waiting import SECONDS, until

TOOLS = "notifications/tools/list_changed"
follow = switches.follow
"""Before a fixture of all tests replaces it."""
in_database = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server("shop", authenticators=[AnonymousAuthentication()])
    server.tool(name="order", group="orders")(lambda: "ordered")
    server.tool(name="refund", group="orders")(lambda: "refunded")
    server.resource("shop://news", name="news")(lambda: "Nothing new")
    server.resource("shop://item/{number}", name="item")(lambda number: number)
    server.prompt(name="greet")(lambda: "Hello")
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    return server


@pytest.fixture
def refund(shop: Server) -> Entry:
    return Entry(shop, component(shop, "tool", "refund"))


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(catch_up, "INTERVAL", 0.02)
    yield
    for _, objects in loops.STATE.items():
        objects.pop(switches.Follower, None)


def component(server: Server, kind: str, key: str) -> Component:
    declared = server.components.registered_at(kind, key)
    assert declared is not None
    return declared


async def names(client: Client) -> list[str]:
    return [tool["name"] for tool in await client.list_tools()]


async def error_of(client: Client, method: str, params: dict[str, Any]) -> McpError:
    with pytest.raises(McpError) as raised:
        await client.request(method, params)
    return raised.value


def is_usable(server: Server, kind: str, key: str) -> bool:
    return server.components.find(kind, key) is not None


# What a client sees.


async def test_tool_that_is_switched_off_is_answered_like_an_unknown_one(shop: Server) -> None:
    async with Client(shop) as client:
        before = await names(client)
        shop.components.switch_off({("tool", "refund")})
        after = await names(client)
        refused = await error_of(client, "tools/call", {"name": "refund", "arguments": {}})
        unknown = await error_of(client, "tools/call", {"name": "nothing", "arguments": {}})

    assert before == ["order", "refund"]
    assert after == ["order"]
    assert refused.code == unknown.code
    assert str(refused).replace("refund", "nothing") == str(unknown)


@pytest.mark.parametrize(
    ("kind", "key", "method", "params"),
    [
        ("resource", "shop://news", "resources/read", {"uri": "shop://news"}),
        ("resource_template", "shop://item/{number}", "resources/read", {"uri": "shop://item/1"}),
        ("prompt", "greet", "prompts/get", {"name": "greet"}),
    ],
)
async def test_resource_or_prompt_that_is_switched_off_is_unknown(
    shop: Server, kind: str, key: str, method: str, params: dict[str, str]
) -> None:
    async with Client(shop) as client:
        assert await client.request(method, params)
        shop.components.switch_off({(kind, key)})
        assert await error_of(client, method, params)
        shop.components.switch_off(set())
        assert await client.request(method, params)


async def test_connected_client_is_told_of_the_changed_list_once(shop: Server) -> None:
    async with Client(shop) as client, client.listen():
        shop.components.switch_off({("tool", "refund"), ("tool", "order")})
        await client.wait_for(TOOLS)
        shop.components.switch_off({("tool", "refund"), ("tool", "order")})
        shop.components.switch_off({("tool", "refund")})
        await client.wait_for(TOOLS)

    changes = [sent["method"] for sent in client.notifications if "list_changed" in sent["method"]]
    assert changes == [TOOLS, TOOLS]


async def test_tool_that_is_registered_while_it_is_switched_off_stays_hidden(shop: Server) -> None:
    shop.components.switch_off({("tool", "later"), ("tool", "refund")})
    shop.register_tool("later", lambda: "late")
    shop.register_tool("refund", lambda: "again")

    assert not is_usable(shop, "tool", "later")
    assert not is_usable(shop, "tool", "refund")
    assert {item.key for item in shop.components.all() if item.kind == "tool"} == {
        "later",
        "order",
        "refund",
    }


def test_group_has_only_what_is_switched_on(shop: Server) -> None:
    assert len(shop.components.of_group("orders")) == 2
    shop.components.switch_off({("tool", "refund")})
    assert [item.name for item in shop.components.of_group("orders")] == ["order"]


# How workers learn of it.


@in_database
def test_switch_is_kept_in_the_database_with_its_user(shop: Server, refund: Entry) -> None:
    assert switches.switch_off([refund], by="boss") == 1
    assert switches.switch_off([refund], by="other") == 0
    row = switches.row_of(refund)
    assert row is not None
    assert (row.by, row.server, row.kind, row.key) == ("boss", "shop", "tool", "refund")
    assert not is_usable(shop, "tool", "refund")

    assert switches.switch_on([refund]) == 1
    assert switches.switch_on([refund]) == 0
    assert is_usable(shop, "tool", "refund")


@in_database
def test_switch_counts_after_the_commit(shop: Server, refund: Entry) -> None:
    with transaction.atomic():
        switches.switch_off([refund], by="boss")
        assert is_usable(shop, "tool", "refund")
    assert not is_usable(shop, "tool", "refund")


@in_database
@pytest.mark.usefixtures("thread_sensitive")
async def test_worker_reads_the_table_before_its_first_message_and_again_later(
    shop: Server, refund: Entry
) -> None:
    """Rows that another process writes, with no hint that arrives."""
    await write(refund)
    follow()
    await switches.loaded()
    assert not is_usable(shop, "tool", "refund")

    await database_sync_to_async(SwitchedOff.objects.all().delete)()
    await until(lambda: is_usable(shop, "tool", "refund"))


@in_database
@pytest.mark.usefixtures("thread_sensitive")
async def test_failure_of_the_database_leaves_what_was_switched_off(
    shop: Server, refund: Entry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await write(refund)
    follow()
    await switches.loaded()

    def fail() -> switches.Rows:
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr(switches, "_read", fail)
        await until(lambda: switches.NOT_READ in caplog.messages)
        assert not is_usable(shop, "tool", "refund")
    await database_sync_to_async(SwitchedOff.objects.all().delete)()
    await until(lambda: is_usable(shop, "tool", "refund"))


async def test_first_message_does_not_wait_for_a_database_that_hangs(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()

    def hang() -> switches.Rows:
        answers.wait(SECONDS)
        return {}

    monkeypatch.setattr(switches, "_read", hang)
    monkeypatch.setattr(switches, "FIRST_READ", 0.01)
    follow()
    try:
        async with asyncio.timeout(SECONDS):
            await switches.loaded()
    finally:
        answers.set()
    assert switches.NOT_READ in caplog.messages
    assert is_usable(shop, "tool", "refund")


@in_database
def test_site_without_the_table_has_nothing_switched_off(shop: Server) -> None:
    with connection.schema_editor() as editor:
        editor.delete_model(SwitchedOff)
    try:
        switches.refresh()
    finally:
        with connection.schema_editor() as editor:
            editor.create_model(SwitchedOff)
    assert is_usable(shop, "tool", "refund")


async def write(entry: Entry) -> None:
    item = entry.component
    row = SwitchedOff(
        id=switches._id_of(entry),
        server=entry.server.name,
        kind=item.kind,
        key=item.key,
        at=timezone.now(),
    )
    await row.asave()


async def test_read_after_the_end_of_the_threads_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def ended(*_: Any) -> None:
        raise PoolEnded("This pool of threads was shut down")

    monkeypatch.setattr(pools, "run_in_threads_of", ended)
    await switches.read()
    assert not caplog.messages
