"""Cancellations that come before or after their request."""

from __future__ import annotations

import pytest

from tests.by_hand.catalog import cancelled, in_session
from tests.by_hand.processes import call, request, stdio
from tests.spec import spec
from tests.wire.messages import NEWEST_SESSION, STATELESS, text_of


async def test_cancellation_before_initialize_does_not_swallow_it() -> None:
    async with stdio() as server:
        server.write(cancelled("hello"))
        await server.initialize()


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_cancellation_after_the_answer_swallows_no_request_over_stdio(version: str) -> None:
    meta = {"version": version} if version == STATELESS else {}
    async with stdio() as server:
        if version != STATELESS:
            await server.initialize()
        for _ in range(2):
            server.write(call(5, "add", {"a": 1, "b": 2}, **meta))
            answer = await server.until(id=5)
            server.write(cancelled(5))

    assert text_of(answer["result"]) == "3"


@spec("answers-10")
async def test_cancellation_after_the_answer_swallows_no_request_over_http() -> None:
    peer = await in_session()
    for _ in range(2):
        response = await peer.post(peer.call("add", a=3, id=5))
        await peer.post(cancelled(5))

    assert text_of(response.result) == "3"


async def test_cancellation_before_a_listen_request_does_not_swallow_it() -> None:
    async with stdio() as server:
        server.write(cancelled("news"))
        wanted = {"notifications": {"toolsListChanged": True}}
        server.write(request("news", "subscriptions/listen", wanted, version=STATELESS))
        await server.until(method="notifications/subscriptions/acknowledged")
