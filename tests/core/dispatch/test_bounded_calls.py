"""Calls in flight, and the threads that they wait for, are bounded."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_mcp import Server
from django_mcp.runtime import pools
from tests.event_loops import outcome
from tests.memory_stores import Configure
from tests.spec import spec
from tests.waiting import SECONDS, happens
from tests.wire.asgi import AsgiClient


@spec("cost-14")
async def test_stateless_calls_in_flight_of_one_caller_are_bounded(configure: Configure) -> None:
    configure(MAX_IN_FLIGHT=5)
    server = Server("shop")
    running: list[int] = []
    go_on = asyncio.Event()

    @server.tool
    async def work() -> str:
        running.append(1)
        await go_on.wait()
        return "done"

    peer = AsgiClient(server)
    calls = [asyncio.ensure_future(peer.post(peer.call("work"))) for _ in range(12)]
    await happens(lambda: len(running) == 12, 0.5)
    most = len(running)
    go_on.set()
    responses = await asyncio.gather(*calls)

    assert most == 5
    assert sorted(response.status for response in responses if response.status) == (
        [200] * 5 + [429] * 7
    )


async def test_calls_in_flight_of_one_ipv6_network_are_bounded(configure: Configure) -> None:
    configure(MAX_IN_FLIGHT=3)
    server = Server("shop")
    running: list[int] = []
    go_on = asyncio.Event()

    @server.tool
    async def work() -> str:
        running.append(1)
        await go_on.wait()
        return "done"

    peers = [
        AsgiClient(server, address=(f"2001:db8:1:2::{number:x}", 50000)) for number in range(1, 11)
    ]
    calls = [asyncio.ensure_future(peer.post(peer.call("work"))) for peer in peers]
    await happens(lambda: len(running) == 10, 0.5)
    most = len(running)
    go_on.set()
    responses = await asyncio.gather(*calls)

    assert most == 3
    assert sorted(response.status or 0 for response in responses) == [200] * 3 + [429] * 7


@spec("cost-15")
async def test_slow_sync_handlers_hold_up_no_permission_function(configure: Configure) -> None:
    configure(SYNC_THREAD_POOL_SIZE=1)
    server = Server("shop")
    go_on, begun = threading.Event(), threading.Event()

    @server.tool
    def block() -> str:
        begun.set()
        go_on.wait(SECONDS)
        return "done"

    @server.tool(permission=lambda frame: True)
    async def guarded() -> str:
        return "done"

    peer = AsgiClient(server)
    slow = asyncio.ensure_future(peer.tool("block"))
    try:
        assert await happens(begun.is_set)
        listed = await outcome(asyncio.wait_for(peer.post(peer.request("tools/list")), SECONDS / 4))
    finally:
        go_on.set()
        await slow

    assert not isinstance(listed, TimeoutError), "The list waits for the slow handler"


async def test_slow_sync_calls_of_one_caller_leave_threads_to_others(configure: Configure) -> None:
    configure(SYNC_THREAD_POOL_SIZE=6)
    server = Server("shop")
    go_on = threading.Event()
    begun: list[int] = []

    @server.tool
    def block() -> str:
        begun.append(1)
        go_on.wait(SECONDS)
        return "done"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    slow = AsgiClient(server, address=("192.0.2.1", 50000))
    calls = [asyncio.ensure_future(slow.post(slow.call("block"))) for _ in range(12)]
    other = AsgiClient(server, address=("192.0.2.2", 50000))
    try:
        assert await happens(lambda: len(begun) >= 3)
        sums = [outcome(asyncio.wait_for(other.post(other.call("add", a=1, b=2)), SECONDS / 4))]
        answers = await asyncio.gather(*sums)
        held = len(begun)
    finally:
        go_on.set()
        await asyncio.gather(*calls)

    assert [getattr(answer, "status", answer) for answer in answers] == [200]
    assert held == 3


@spec("cost-16")
async def test_handler_that_waits_too_long_for_a_thread_is_rejected(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(SYNC_THREAD_POOL_SIZE=1)
    monkeypatch.setattr(pools, "START_TIMEOUT", 0.3)
    server = Server("shop")
    go_on, begun = threading.Event(), threading.Event()

    @server.tool
    def block() -> str:
        begun.set()
        go_on.wait(SECONDS)
        return "done"

    peer = AsgiClient(server)
    slow = asyncio.ensure_future(peer.tool("block"))
    try:
        assert await happens(begun.is_set)
        second = await outcome(asyncio.wait_for(peer.post(peer.call("block")), SECONDS / 4))
    finally:
        go_on.set()
        await slow

    assert not isinstance(second, BaseException), f"Nothing was answered: {second!r}"
    assert second.status == 503
    assert second.headers.get("retry-after") is not None
