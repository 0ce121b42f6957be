"""What is remembered of requests and clients is bounded."""

from __future__ import annotations

import asyncio
import gc
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from django_mcp import Frame, Server
from django_mcp.extensions import Extension, Method, Serve, Stream, installed
from tests.by_hand.costs import MEGABYTE, session
from tests.spec import spec
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import META, NEWEST_SESSION, STATELESS, Message, encoded


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
            assert (await peer.post(peer.request("ping"))).status == 404


async def _wait(stream: Stream) -> None:
    stream.send("notifications/receipts/new", {})
    await asyncio.Event().wait()


async def _open(frame: Frame) -> Serve:
    return _wait


RECEIPTS = Extension(
    name="com.example/receipts",
    settings=lambda *_: {},
    notifications=["notifications/receipts/new"],
    methods=[Method(name="receipts/stream", call=_open, streams=True)],
)


@pytest.fixture
def receipts() -> Iterator[None]:
    with installed(RECEIPTS):
        yield


@spec("cost-13")
@pytest.mark.usefixtures("receipts")
@pytest.mark.parametrize("method", ["subscriptions/listen", "receipts/stream"])
async def test_stream_keeps_nothing_of_its_request_but_what_it_needs(method: str) -> None:
    peer = AsgiClient(Server("shop"))
    message = peer.request(method, {"notifications": {"toolsListChanged": True}})
    async with peer.open_post(message) as first:
        await first.message()  # What is made at the first stream is made.
    message["params"]["unknown"] = [[] for _ in range(30_000)]
    body, scope = encoded(message), peer.scope(message)
    del message
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    begun = asyncio.Event()
    statuses = []

    async def send(sent: Message) -> None:
        statuses.append(sent.get("status", 200))
        begun.set()

    with small_growth(200_000):
        incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
        del body
        task = asyncio.ensure_future(peer.application(scope, incoming.get, send))
        async with asyncio.timeout(SECONDS):
            await begun.wait()
    incoming.put_nowait({"type": "http.disconnect"})
    await asyncio.wait([task], timeout=1)
    task.cancel()
    assert {*statuses} == {200}


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

    peer = AsgiClient(server, version)
    if version != STATELESS:
        await peer.initialize()
    long = "x" * 10_000
    message = {
        "id": lambda: peer.call("add", id=long),
        "progress token": lambda: peer.call("add", params={"_meta": {"progressToken": long}}),
        "tool name": lambda: peer.call(long),
        "uri": lambda: peer.request("resources/read", {"uri": f"shop://{long}"}),
    }[what]()

    response = await peer.post(message)

    assert response.error["code"] in (-32600, -32602)
    assert re.search(r"at most \d+ ", response.error["message"])
    assert len(response.body) < 2000, "The error repeats what is too long"


@spec("cost-12")
async def test_client_info_that_is_too_large_is_rejected() -> None:
    peer = AsgiClient(
        Server("shop"), NEWEST_SESSION, client_info={"name": "x" * LONG, "version": "1"}
    )

    response = await peer.initialize(ready=False)

    assert response.error["code"] == -32602
    assert re.search(r"at most \d+ ", response.error["message"])


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
@pytest.mark.parametrize("what", ["method", "version", "log level"])
async def test_errors_repeat_little_of_what_a_client_sent(version: str, what: str) -> None:
    peer = AsgiClient(Server("shop"), version)
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
    changes = {"mcp-protocol-version": long} if what == "version" else {}
    response = await peer.post(message, changes)

    assert response.error["code"] < 0
    assert len(response.body) < 1000, "The error repeats what is too long"


@pytest.mark.usefixtures("receipts")
@pytest.mark.parametrize("method", ["subscriptions/listen", "receipts/stream"])
async def test_stream_for_a_client_that_says_too_much_of_itself_is_rejected(method: str) -> None:
    peer = AsgiClient(Server("shop"), capabilities={"x": [[]] * 20_000})

    response = await peer.post(peer.request(method, {"notifications": {}}))

    assert response.error["code"] == -32602


async def test_uri_of_a_subscription_has_a_bounded_length() -> None:
    server = Server("shop")

    @server.resource("shop://{+path}")
    async def read(path: str) -> str:
        return ""

    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()

    uri = "shop://" + "x" * LONG
    response = await peer.post(peer.request("resources/subscribe", {"uri": uri}))

    assert response.error["code"] in (-32600, -32602, -32002)
    assert len(response.body) < 2000, "The error repeats what is too long"
