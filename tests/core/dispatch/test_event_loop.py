"""Messages that cost much to check do not hold the event loop."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from pytest_django import Settings

from django_mcp import ConfigurationError, Server
from tests.by_hand import stores
from tests.by_hand.costs import COLLIDING, NOTING, schema, session, taking
from tests.event_loops import unblocked
from tests.memory_stores import Configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import Message, encoded


class Node(BaseModel):
    """A recursive model."""

    nodes: list[Node] = []


MANY = 90_000
"""Fewer values than a message may have."""


async def assert_unblocked(server: Server, value: Any) -> None:
    peer = AsgiClient(server)
    await peer.tool("take", a=[])  # What is made at the first call is made.
    exchange = peer.open_post(peer.call("take", a=value))
    async with unblocked(), exchange:
        await exchange.reply()


async def _post(peer: AsgiClient, scope: Message, body: bytes) -> None:
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    async def send(message: Message) -> None:
        """Drop it."""

    await peer.application(scope, incoming.get, send)


@spec("cost-01")
async def test_integers_of_one_hash_in_a_set_do_not_hold_the_loop() -> None:
    await assert_unblocked(taking(set[int]), COLLIDING)


async def test_integers_of_one_hash_in_a_dict_do_not_hold_the_loop() -> None:
    await assert_unblocked(taking(dict[int, int]), {str(number): 0 for number in COLLIDING})


@spec("cost-02")
async def test_integers_of_one_hash_that_must_be_unique_do_not_hold_the_loop() -> None:
    unique = schema({"type": "array", "uniqueItems": True})
    await assert_unblocked(taking(schema=unique), COLLIDING)


@spec("cost-03")
async def test_many_wrong_items_do_not_hold_the_loop() -> None:
    await assert_unblocked(taking(list[int]), ["x"] * MANY)


@spec("cost-04")
async def test_many_wrong_items_take_little_memory() -> None:
    peer = AsgiClient(taking(list[Annotated[int, Field(ge=1)]]))
    await peer.tool("take", a=[])
    message = peer.call("take", a=[0] * 30_000)
    scope, body = peer.scope(message), encoded(message)
    gc.collect()
    tracemalloc.start()
    try:
        await _post(peer, scope, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(body), f"{len(body)} bytes took {peak}"


async def test_many_items_under_a_written_schema_do_not_hold_the_loop() -> None:
    integers = schema({"type": "array", "items": {"type": "integer"}})
    await assert_unblocked(taking(schema=integers), [1] * MANY)


@spec("cost-05")
async def test_recursive_schema_does_not_hold_the_loop() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    await assert_unblocked(
        taking(schema=schema({"$ref": "#/$defs/tree"}, tree=tree)), [[]] * 20_000
    )


async def test_recursive_model_does_not_hold_the_loop() -> None:
    await assert_unblocked(taking(Node), {"nodes": [{}] * MANY})


async def test_schema_that_applies_itself_twice_does_not_hold_the_loop() -> None:
    tree = {
        "allOf": [
            {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        ]
    }
    try:
        server = taking(schema=schema({"$ref": "#/$defs/tree"}, tree=tree))
    except ConfigurationError:
        return  # It is rejected where it is registered.
    deep: list[Any] = []
    for _ in range(12):
        deep = [deep]
    await assert_unblocked(server, deep)


@spec("cost-06")
async def test_pattern_with_look_around_does_not_hold_the_loop() -> None:
    try:
        server = taking(schema=schema({"type": "string", "pattern": "^(?!x)(a+)+$"}))
    except ConfigurationError:
        return  # It is rejected where it is registered.
    await assert_unblocked(server, "a" * 23 + "!")


@spec("cost-07")
async def test_more_json_values_than_a_message_may_have_are_rejected() -> None:
    peer = AsgiClient(taking(list[Any]))

    async with unblocked(0.2):
        response = await peer.post(peer.call("take", a=[0] * 100_001))

    assert response.error["code"] == -32600


@spec("cost-08")
async def test_integer_beyond_64_bits_is_rejected() -> None:
    peer = AsgiClient(taking(Any))

    for number in (2**63, -(2**63) - 1):
        response = await peer.post(peer.call("take", a=number))
        assert response.error["code"] == -32600


def note(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@pytest.fixture
def noting(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores which count."""
    monkeypatch.setattr(stores.NotingSessionStore, "updates", 0)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 0.0)
    monkeypatch.setattr(stores.NotingEventStore, "read", 0)
    configure(STORES=NOTING)


@spec("cost-09")
@pytest.mark.parametrize(
    "message",
    [1, note("notifications/initialized"), note("notifications/cancelled", requestId=7)],
    ids=["nonsense", "initialized", "cancelled"],
)
@pytest.mark.usefixtures("noting")
async def test_batch_of_more_than_500_messages_is_rejected_as_a_whole(message: Any) -> None:
    peer = await session()
    before = stores.NotingSessionStore.updates

    response = await peer.post(encoded([message] * 501))

    assert stores.NotingSessionStore.updates == before
    assert [each.get("error", {}).get("code") for each in response.messages] == [-32600]


async def test_large_batch_of_nonsense_does_not_hold_the_loop() -> None:
    peer = await session()

    async with unblocked():
        response = await peer.post(encoded([1] * 20_000))

    assert len(response.body) < 10_000


@pytest.mark.usefixtures("noting")
async def test_initialized_that_is_sent_again_writes_nothing() -> None:
    peer = await session()
    before = stores.NotingSessionStore.updates

    await peer.post(encoded([note("notifications/initialized")] * 400))

    assert stores.NotingSessionStore.updates - before <= 1


@spec("cost-10")
@pytest.mark.usefixtures("noting")
async def test_many_cancellations_with_several_workers_write_little(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "tests.by_hand.layers.EmptyLayer"}}
    peer = await session()
    before = stores.NotingSessionStore.updates
    many = [note("notifications/cancelled", requestId=number) for number in range(400)]

    await peer.post(encoded(many))

    assert stores.NotingSessionStore.updates - before == 1
