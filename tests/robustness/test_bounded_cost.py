"""The cost of one request is bounded.

What holds the event loop is seen with small inputs already; its processor time counts, which is
the same on a busy machine.
"""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from pytest_django import Settings

from django_mcp import ConfigurationError, Frame, Server
from django_mcp.runtime import pools
from tests.constants import SetConstants
from tests.memory_stores import Configure
from tests.robustness import stores
from tests.robustness.peer import (
    META,
    NEWEST_SESSION,
    STATELESS,
    Message,
    Peer,
    accelerated,
    encoded,
    outcome,
    unblocked,
)
from tests.robustness.processes import call, migrate, worker
from tests.spec import spec
from tests.waiting import happens

BATCHES = "2025-03-26"
PRIME = 2**61 - 1
"""All multiples of it have one hash."""
MEGABYTE = 1_000_000


class Node(BaseModel):
    """A recursive model."""

    nodes: list[Node] = []


def taking(annotation: Any = None, schema: Message | None = None) -> Server:
    """A server whose tool takes one argument ``a``."""
    server = Server("shop")
    if schema is not None:

        @server.tool(input_schema=schema)
        async def take(arguments: Any) -> str:
            return "taken"
    else:

        async def take_one(a: Any) -> str:
            return "taken"

        take_one.__annotations__ = {"a": annotation, "return": str}
        server.tool(name="take")(take_one)
    return server


def schema(inner: Any, **definitions: Any) -> Message:
    return {"type": "object", "properties": {"a": inner}, "$defs": definitions}


# Row 18. The event loop.

COLLIDING = [number * PRIME for number in range(1, 9001)]
MANY = 90_000
"""Fewer values than a message may have."""


async def assert_unblocked(server: Server, value: Any) -> None:
    peer = Peer(server)
    await peer.tool("take", {"a": []})  # What is made at the first call is made.
    exchange = peer.open(peer.call("take", {"a": value}))
    async with unblocked(), exchange:
        response = await exchange.whole(30)
    assert response.raised is None


async def _post(peer: Peer, scope: Message, body: bytes) -> None:
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
    peer = Peer(taking(list[Annotated[int, Field(ge=1)]]))
    await peer.tool("take", {"a": []})
    message = peer.call("take", {"a": [0] * 30_000})
    scope, body = peer.scope("POST", message), encoded(message)
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
    peer = Peer(taking(list[Any]))

    async with unblocked(0.2):
        response = await peer.send(peer.call("take", {"a": [0] * 100_001}))

    assert response.error["code"] == -32600


@spec("cost-08")
async def test_integer_beyond_64_bits_is_rejected() -> None:
    peer = Peer(taking(Any))

    for number in (2**63, -(2**63) - 1):
        response = await peer.send(peer.call("take", {"a": number}))
        assert response.error["code"] == -32600


async def session(version: str = BATCHES, **facts: Any) -> Peer:
    server = Server("shop")

    @server.tool
    async def add(a: int = 0) -> int:
        return a

    peer = Peer(server, version, **facts)
    await peer.initialize()
    return peer


def note(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@pytest.fixture
def noting(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores which count."""
    monkeypatch.setattr(stores.NotingSessionStore, "updates", 0)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 0.0)
    monkeypatch.setattr(stores.NotingEventStore, "read", 0)
    configure(STORES=NOTING)


NOTING = {
    "sessions": {"BACKEND": "tests.robustness.stores.NotingSessionStore"},
    "events": {"BACKEND": "tests.robustness.stores.NotingEventStore"},
}


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

    response = await peer.send(encoded([message] * 501))

    assert stores.NotingSessionStore.updates == before
    assert [each.get("error", {}).get("code") for each in response.messages] == [-32600]


async def test_large_batch_of_nonsense_does_not_hold_the_loop() -> None:
    peer = await session()

    async with unblocked():
        response = await peer.send(encoded([1] * 20_000), timeout=20)

    assert len(response.body) < 10_000


@pytest.mark.usefixtures("noting")
async def test_initialized_that_is_sent_again_writes_nothing() -> None:
    peer = await session()
    before = stores.NotingSessionStore.updates

    await peer.send(encoded([note("notifications/initialized")] * 400))

    assert stores.NotingSessionStore.updates - before <= 1


@spec("cost-10")
@pytest.mark.usefixtures("noting")
async def test_many_cancellations_with_several_workers_write_little(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "tests.robustness.layers.EmptyLayer"}}
    peer = await session()
    before = stores.NotingSessionStore.updates
    many = [note("notifications/cancelled", requestId=number) for number in range(400)]

    await peer.send(encoded(many))

    assert stores.NotingSessionStore.updates - before == 1


# Row 19. What is remembered.


@contextmanager
def small_growth(bytes_: int) -> Iterator[None]:
    """Fails when more than this stays in memory after the block."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < bytes_, f"{grown} bytes are kept"


LONG = 100_000


async def test_cancelled_ids_of_any_length_are_not_remembered() -> None:
    peer = await session(NEWEST_SESSION)
    with small_growth(MEGABYTE):
        for number in range(30):
            await peer.notify("notifications/cancelled", requestId=f"{number}" + "x" * LONG)


async def test_session_ids_of_any_length_are_not_remembered() -> None:
    peer = await session(NEWEST_SESSION)
    with small_growth(MEGABYTE):
        for number in range(30):
            peer.session = f"{number}" + "x" * LONG
            assert (await peer.send(peer.request("ping"))).status == 404


@spec("cost-13")
async def test_listen_stream_keeps_nothing_of_its_request_but_what_it_needs() -> None:
    peer = Peer(Server("shop"))
    async with peer.open(peer.listen(0, toolsListChanged=True)) as first:
        await first.status()  # What is made at the first stream is made.
    message = peer.listen(1, toolsListChanged=True)
    message["params"]["unknown"] = [[] for _ in range(30_000)]
    body, scope = encoded(message), peer.scope("POST", message)
    del message
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    begun = asyncio.Event()

    async def send(_: Message) -> None:
        begun.set()

    with small_growth(200_000):
        incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
        del body
        task = asyncio.ensure_future(peer.application(scope, incoming.get, send))
        async with asyncio.timeout(5):
            await begun.wait()
    incoming.put_nowait({"type": "http.disconnect"})
    await asyncio.wait([task], timeout=1)
    task.cancel()


@spec("cost-11")
@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
@pytest.mark.parametrize("what", ["id", "progress token", "tool name", "uri"])
async def test_what_is_longer_than_it_may_be_is_rejected(version: str, what: str) -> None:
    server = Server("shop")

    @server.tool
    async def add(frame: Frame, a: int = 0) -> int:
        frame.client.progress(1)
        return a

    @server.resource("shop://{+path}")
    async def read(path: str) -> str:
        return ""

    peer = Peer(server, version)
    if version != STATELESS:
        await peer.initialize()
    long = "x" * 10_000
    message = {
        "id": lambda: peer.call("add", id=long),
        "progress token": lambda: peer.call("add", _meta={"progressToken": long}),
        "tool name": lambda: peer.call(long),
        "uri": lambda: peer.request("resources/read", {"uri": f"shop://{long}"}),
    }[what]()

    response = await peer.send(message)

    assert response.error["code"] in (-32600, -32602)
    assert re.search(r"at most \d+ ", response.error["message"])
    assert len(response.body) < 2000, "The error repeats what is too long"


@spec("cost-12")
async def test_client_info_that_is_too_large_is_rejected() -> None:
    peer = Peer(Server("shop"), NEWEST_SESSION, client_info={"name": "x" * LONG, "version": "1"})

    response = await peer.initialize(ready=False)

    assert response.error["code"] == -32602
    assert re.search(r"at most \d+ ", response.error["message"])


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
@pytest.mark.parametrize("what", ["method", "version", "log level"])
async def test_errors_repeat_little_of_what_a_client_sent(version: str, what: str) -> None:
    peer = Peer(Server("shop"), version)
    if version != STATELESS:
        await peer.initialize()
    long = "x" * LONG
    if what == "log level" and version != STATELESS:
        message = peer.request("logging/setLevel", {"level": long})
    else:
        message = peer.request(long if what == "method" else "ping")
        meta = message["params"].setdefault("_meta", {})
        key = {"version": "protocolVersion", "log level": "logLevel"}.get(what, "other")
        meta.update({META + key: long, META + "clientCapabilities": {}})
    headers = [("mcp-protocol-version", long)] if what == "version" else []
    without = ["mcp-protocol-version"] if headers else []
    response = await peer.send(message, extra=headers, without=without)

    assert response.error["code"] < 0
    assert len(response.body) < 1000, "The error repeats what is too long"


async def test_listen_request_with_too_much_about_its_client_is_rejected() -> None:
    peer = Peer(Server("shop"), capabilities={"x": [[]] * 20_000})

    response = await peer.send(peer.listen(1, toolsListChanged=True))

    assert response.error["code"] == -32602


async def test_uri_of_a_subscription_has_a_bounded_length() -> None:
    server = Server("shop")

    @server.resource("shop://{+path}")
    async def read(path: str) -> str:
        return ""

    peer = Peer(server, NEWEST_SESSION)
    await peer.initialize()

    uri = "shop://" + "x" * LONG
    response = await peer.send(peer.request("resources/subscribe", {"uri": uri}))

    assert response.error["code"] in (-32600, -32602, -32002)
    assert len(response.body) < 2000, "The error repeats what is too long"


# Row 20. Calls in flight, and threads.


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

    peer = Peer(server)
    calls = [asyncio.ensure_future(peer.send(peer.call("work"))) for _ in range(12)]
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

    peers = [Peer(server, client=(f"2001:db8:1:2::{number:x}", 50000)) for number in range(1, 11)]
    calls = [asyncio.ensure_future(peer.send(peer.call("work"))) for peer in peers]
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
        go_on.wait(5)
        return "done"

    @server.tool(permission=lambda frame: True)
    async def guarded() -> str:
        return "done"

    peer = Peer(server)
    slow = asyncio.ensure_future(peer.tool("block"))
    try:
        assert await happens(begun.is_set)
        listed = await outcome(peer.send(peer.request("tools/list"), timeout=1))
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
        go_on.wait(20)
        return "done"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    slow = Peer(server, client=("192.0.2.1", 50000))
    calls = [asyncio.ensure_future(slow.send(slow.call("block"))) for _ in range(12)]
    other = Peer(server, client=("192.0.2.2", 50000))
    try:
        assert await happens(lambda: len(begun) >= 3)
        sums = [outcome(other.send(other.call("add", {"a": 1, "b": 2}), timeout=5))]
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
        go_on.wait(8)
        return "done"

    peer = Peer(server)
    slow = asyncio.ensure_future(peer.send(peer.call("block"), timeout=1000))
    try:
        assert await happens(begun.is_set)
        second = await outcome(peer.send(peer.call("block"), timeout=5))
    finally:
        go_on.set()
        await slow

    assert not isinstance(second, BaseException), f"Nothing was answered: {second!r}"
    assert second.status == 503
    assert second.header("retry-after") is not None


# Row 21. Anonymous callers.


@spec("cost-17")
@pytest.mark.parametrize("other", ["address", "server"])
async def test_sessions_of_one_anonymous_client_shut_nobody_else_out(
    other: str, set_constants: SetConstants
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=3)
    server, further = Server("shop"), Server("office")
    for _ in range(3):
        opened = await Peer(server, NEWEST_SESSION, client=("10.0.0.1", 5000)).initialize()
        assert opened.status == 200
    if other == "address":
        peer = Peer(server, NEWEST_SESSION, client=("10.0.0.2", 5000))
    else:
        peer = Peer(further, NEWEST_SESSION, client=("10.0.0.1", 5000))

    response = await peer.initialize(ready=False)

    assert response.status == 200


async def test_new_session_takes_the_place_of_the_oldest_of_its_address(
    set_constants: SetConstants,
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=2)
    server = Server("shop")
    peers = [Peer(server, NEWEST_SESSION, client=("10.0.0.1", 5000 + n)) for n in range(3)]
    statuses = [(await peer.initialize(ready=False)).status for peer in peers]
    alive = [(await peer.send(peer.request("ping"))).status for peer in peers]

    assert statuses == [200, 200, 200]
    assert alive == [404, 200, 200]


@spec("cost-18")
async def test_listen_streams_of_one_anonymous_client_shut_nobody_else_out(
    set_constants: SetConstants,
) -> None:
    set_constants(MAX_STREAMS=2)
    server = Server("shop")
    flood = Peer(server, client=("10.0.0.1", 5000))
    other = Peer(server, client=("10.0.0.2", 5000))
    wanted = {"toolsListChanged": True}
    async with (
        flood.open(flood.listen(1, **wanted)) as a,
        flood.open(flood.listen(2, **wanted)) as b,
    ):
        assert [await a.status(), await b.status()] == [200, 200]
        async with other.open(other.listen(3, **wanted)) as c:
            message = await c.message()

    assert message.get("method") == "notifications/subscriptions/acknowledged", message


async def test_streams_that_are_opened_at_once_stay_within_the_limit(
    set_constants: SetConstants,
) -> None:
    set_constants(MAX_STREAMS=2)
    peer = Peer(Server("shop"))
    exchanges = [peer.open(peer.listen(number, toolsListChanged=True)) for number in range(5)]
    async with AsyncExitStack() as stack:
        for exchange in exchanges:
            await stack.enter_async_context(exchange)
        statuses = await asyncio.gather(*(exchange.status() for exchange in exchanges))

    assert statuses.count(200) == 2, statuses


@pytest.mark.parametrize("other", ["address", "session"])
async def test_get_streams_of_one_caller_are_bounded(
    other: str, set_constants: SetConstants
) -> None:
    set_constants(MAX_STREAMS=2)
    server = Server("shop")
    peers = [Peer(server, NEWEST_SESSION, client=("10.0.0.1", 5000 + n)) for n in range(3)]
    if other == "address":
        peers[2].client = ("10.0.0.2", 5000)
    async with AsyncExitStack() as stack:
        statuses = []
        for peer in peers:
            await peer.initialize()
            exchange = await stack.enter_async_context(peer.open(method="GET"))
            statuses.append(await exchange.status())

    assert statuses == [200, 200, 200 if other == "address" else 429]


async def test_session_in_use_is_not_ended_for_another(set_constants: SetConstants) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=1)
    server = Server("shop")
    used = Peer(server, NEWEST_SESSION)
    await used.initialize()

    further = await Peer(server, NEWEST_SESSION).initialize(ready=False)

    assert further.status == 429
    assert (await used.send(used.request("ping"))).status == 200


@pytest.mark.usefixtures("noting")
async def test_session_that_was_never_initialized_lives_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("shop")
    used, unused = Peer(server, NEWEST_SESSION), Peer(server, NEWEST_SESSION)
    await used.initialize()
    await unused.initialize(ready=False)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 65.0)

    statuses = [(await peer.send(peer.request("ping"))).status for peer in (used, unused)]

    assert statuses == [200, 404]


# Row 22. Slow bodies, full channels, slow readers.


@spec("cost-19")
async def test_body_that_takes_too_long_is_answered_408() -> None:
    peer = Peer(taking(int))
    exchange = peer.open(peer.call("take", {"a": 1}))
    exchange._incoming.get_nowait()
    exchange.feed(b'{"jsonrpc"', more=True)
    async with accelerated(40), exchange:
        response = await outcome(exchange.whole(60))

    assert not isinstance(response, BaseException), "The request is still waited for"
    assert response.status == 408


async def test_body_that_never_begins_is_answered_408() -> None:
    peer = Peer(taking(int))
    exchange = peer.open(peer.call("take", {"a": 1}))
    exchange._incoming.get_nowait()
    async with accelerated(40), exchange:
        response = await exchange.whole(60)

    assert response.status == 408
    assert response.header("connection") == "close"


async def test_body_that_arrives_late_is_answered() -> None:
    peer = Peer(taking(int))
    message = peer.call("take", {"a": 1})
    exchange = peer.open(message)
    exchange._incoming.get_nowait()
    body = encoded(message)
    async with exchange:
        for byte in body:
            await asyncio.sleep(0)
            exchange.feed(bytes([byte]), more=True)
        await asyncio.sleep(0.01)
        exchange.feed(b"")
        response = await exchange.whole()

    assert response.status == 200


@spec("answers-06")
async def test_answer_is_stored_for_a_call_whose_channel_is_full(tmp_path: Path) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
    await migrate(database)
    full: dict[str, Any] = {"database": database, "layer": "tests.robustness.layers.FullLayer"}
    async with worker(**full) as first, worker(**full) as other:
        opened = await first.initialize(elicitation={})
        async with first.stream(call(7, "confirm"), opened) as stream:
            sent = await stream.message()
            assert sent is not None
            answer = {"jsonrpc": "2.0", "id": sent["id"], "result": {"action": "decline"}}
            response = await other.post(answer, opened)
            done = await stream.message()

    assert response.status == 202
    assert done is not None
    assert done["id"] == 7
    assert "isError" not in done["result"]


@pytest.mark.nightly
@spec("cost-20")
@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_silent_reader_costs_a_bounded_amount_of_memory(version: str) -> None:
    server = Server("shop")
    sent = asyncio.Event()

    @server.tool
    async def talk(frame: Frame) -> str:
        for _ in range(300):
            frame.client.log("error", "x" * 50_000)
            await asyncio.sleep(0)
        sent.set()
        return "done"

    peer = Peer(server, version)
    if version != STATELESS:
        await peer.initialize()
    exchange = peer.open(peer.call("talk", _meta={META + "logLevel": "debug"}))
    exchange.stop_reading()
    tracemalloc.start()
    try:
        async with exchange:
            waiting = asyncio.ensure_future(sent.wait())
            both = [waiting, exchange.task]
            await asyncio.wait(both, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert grown < 3 * MEGABYTE, f"{grown} bytes wait for a client that does not read"


@pytest.mark.usefixtures("noting")
async def test_open_stream_reads_the_log_of_its_server_from_where_it_is() -> None:
    server = Server("shop")

    @server.tool
    async def add(a: int) -> int:
        return a

    peer = Peer(server, NEWEST_SESSION)
    await peer.initialize()
    for _ in range(20):
        await server.anotify_tools_list_changed()
    async with accelerated(40), peer.open(method="GET") as stream:
        await stream.status(100)
        await asyncio.sleep(5)
        stores.NotingEventStore.read = 0
        await asyncio.sleep(80)
        read = stores.NotingEventStore.read

    assert read == 0, f"{read} events were read again"
