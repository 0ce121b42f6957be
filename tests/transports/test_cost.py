"""The cost of one request, in counted operations, so that an increase is noticed.

``docs/design.md`` states what a request that does not stream may use. The requests run in the
test's own task, as in the task of an ASGI server.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pydantic
import pytest
from channels.layers import BaseChannelLayer
from django.db.backends.utils import CursorWrapper
from pytest_django import DjangoDbBlocker

from django_mcp import Frame, Server
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol import preencoded as encoded_structure
from django_mcp.core.protocol.schema import compiler
from django_mcp.testing.asgi import Message, Reply
from django_mcp.transports.http import exchange
from tests.databases import scratch_database
from tests.wire.asgi import AsgiClient
from tests.wire.messages import REPORTING, SESSIONS, STATELESS, encoded

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class CountingLayer(BaseChannelLayer):
    """A channel layer that counts accesses."""

    uses: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        CountingLayer.uses[name] += 1
        return super().__getattribute__(name)


def shop(**options: Any) -> Server:
    server = Server("shop", **{"notify_lists_on_initialize": False, **options})

    @server.tool
    async def quick(a: int) -> str:
        return str(a)

    @server.tool
    def blocking(a: int) -> str:
        return str(a)

    @server.tool(input_schema=SCHEMA, output_schema=SCHEMA)
    async def checked(params: dict[str, Any]) -> dict[str, Any]:
        return params

    @server.tool
    async def remember(a: int, frame: Frame) -> tuple[str, Frame]:
        return "kept", frame.assign("a", a)

    @server.tool
    async def slow(steps: int, frame: Frame) -> str:
        for step in range(1, steps + 1):
            await frame.client.aprogress(step, steps)
        return "done"

    @server.resource("shop://hours")
    async def hours() -> str:
        return "always"

    @server.prompt
    async def greet() -> str:
        return "hello"

    return server


class Meter:
    """Counts operations from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used: Counter[str] = Counter()
        self._patch = monkeypatch
        self._loop = asyncio.get_running_loop()

    def count(self, what: str, owner: Any, name: str) -> None:
        """Count the calls of ``owner.name`` as ``what``."""
        original: Callable[..., Any] = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.used[what] += 1
            return original(*args, **kwargs)

        self._patch.setattr(owner, name, counting)

    def begin(self) -> None:
        """Count all operations that the tests of this file check."""
        self.count("thread hops", ThreadPoolExecutor, "submit")  # That of asgiref.
        self.count("thread hops", ThreadPool, "add")
        self.count("decoded", jsonrpc, "from_json")
        self.count("encoded", jsonrpc, "to_json")
        self.count("spliced", encoded_structure, "encode")
        self.count("spliced", encoded_structure, "encode_whole")
        self.count("schemas compiled", compiler, "compile")
        self.count("models made", pydantic.BaseModel, "__init_subclass__")
        self.count("adapters made", pydantic.TypeAdapter, "__init__")
        self.count("futures", self._loop, "create_future")
        self._loop.set_task_factory(self._make_task)

    def end(self) -> Counter[str]:
        """Return the operations, and stop counting."""
        self._loop.set_task_factory(None)
        self._patch.undo()
        return self.used

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **kwargs: Any) -> Any:
        self.used["tasks"] += 1
        return asyncio.Task(coroutine, loop=loop, **kwargs)


async def cost(
    wire: AsgiClient, message: Message, monkeypatch: pytest.MonkeyPatch
) -> tuple[Reply, Counter[str]]:
    """The operations of a response, after everything that is created only once exists."""
    body = encoded(message)
    await wire.post(message, body=body)
    meter = Meter(monkeypatch)
    meter.begin()
    try:
        reply = await wire.post(message, body=body)
    finally:
        used = meter.end()
    assert reply.status == 200
    return reply, used


ASYNC = [
    ("tools/call", {"name": "quick", "arguments": {"a": 1}}),
    ("resources/read", {"uri": "shop://hours"}),
    ("prompts/get", {"name": "greet"}),
    ("server/discover", {}),
]


@pytest.mark.parametrize(("method", "params"), ASYNC, ids=[row[0] for row in ASYNC])
async def test_stateless_request_decodes_once_and_encodes_once(
    method: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    _, used = await cost(wire, wire.request(method, params), monkeypatch)

    assert used == {"decoded": 1, "encoded": 1}


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
async def test_list_is_sent_as_it_was_encoded_before(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    _, used = await cost(wire, wire.request(f"{kind}/list", {}), monkeypatch)

    assert used == {"decoded": 1, "spliced": 1}


async def test_sync_handler_uses_one_thread_hop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    _, used = await cost(wire, wire.call("blocking", a=1), monkeypatch)

    assert used["thread hops"] == 1
    assert (used["decoded"], used["encoded"], used["tasks"]) == (1, 1, 0)


async def test_each_stream_event_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "COALESCING_TIME", 60.0)  # Also on a slow machine.
    wire = AsgiClient(shop(), meta=REPORTING)
    params = {"name": "slow", "arguments": {"steps": 5}, "_meta": {"progressToken": "p"}}

    reply, used = await cost(wire, wire.request("tools/call", params), monkeypatch)

    assert len(reply.events()) == 6
    # A task sends the first event, and another one those that follow it.
    assert used == {"decoded": 1, "encoded": 6, "tasks": 2, "futures": 1}


async def test_call_with_schemas_compiles_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    reply, used = await cost(wire, wire.call("checked", a=1), monkeypatch)

    assert reply.json()["result"]["structuredContent"] == {"a": 1}
    # Its structured content is encoded once, for itself and for the text content.
    assert used == {"decoded": 1, "spliced": 1}


@pytest.mark.parametrize("version", SESSIONS)
async def test_session_request_creates_at_most_one_task(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = AsgiClient(shop(), version, meta=REPORTING)
    await wire.initialize()

    _, used = await cost(wire, wire.call("quick", a=1), monkeypatch)

    # Without the meter, which makes the tasks of the loop, it is over at once from Python 3.12 on.
    assert used == {"tasks": 1, "futures": 1, "decoded": 1, "encoded": 1}


async def test_session_requests_create_no_reference_cycles() -> None:
    wire = AsgiClient(shop(), SESSIONS[-1], meta=REPORTING)
    await wire.initialize()
    await wire.post(wire.call("quick", a=1))

    async def cycles() -> int:
        gc.collect()
        for number in range(5):
            await wire.post(wire.call("quick", a=number))
        return gc.collect()

    gc.disable()
    try:
        # Threads of earlier tests may end meanwhile; what requests leave is there each time.
        left = [await cycles() for _ in range(3)]
    finally:
        gc.enable()

    assert min(left) == 0


@pytest.fixture
def database_stores(
    settings: Any, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Sessions are stored in a database in a file, as on a site with several workers."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:
        path, options = "django_mcp.stores.database.Database", {"OPTIONS": {"using": alias}}
        kept = {
            "sessions": {"BACKEND": f"{path}SessionStore", **options},
            "events": {"BACKEND": f"{path}EventStore", **options},
        }
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "STORES": kept}
        yield


async def _run_session(wire: AsgiClient) -> AsyncIterator[str]:
    """One session, request by request."""
    reply = await wire.post(wire.initialize_request())
    yield "initialize"
    wire.session = reply.headers["mcp-session-id"]
    await wire.post(jsonrpc.notification("notifications/initialized"))
    yield "initialized"
    await wire.post(wire.call("quick", a=1))
    yield "call"
    await wire.post(wire.call("remember", a=1))
    yield "call which changes the session"
    assert (await wire.perform("DELETE")).status == 204
    wire.session = None
    yield "end"


HOPS_AND_STATEMENTS = {
    "initialize": (1, 2),  # Count the sessions; insert.
    "initialized": (1, 2),  # Load and update.
    "call": (1, 1),  # Load.
    "call which changes the session": (2, 3),  # Load; load again and update.
    "end": (2, 3),  # Load and delete; check for streams.
}


@pytest.mark.usefixtures("database_stores")
async def test_session_in_a_database_uses_the_expected_thread_hops_and_statements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without the option, a lookup of earlier notifications.
    wire = AsgiClient(shop(notify_lists_on_initialize=True), SESSIONS[-1], meta=REPORTING)
    async for _ in _run_session(wire):
        pass  # Now everything that is created only once exists.
    meter = Meter(monkeypatch)
    meter.count("statements", CursorWrapper, "execute")
    meter.begin()
    costs = {}
    try:
        async for step in _run_session(wire):
            costs[step] = meter.used["thread hops"], meter.used["statements"]
            meter.used.clear()
    finally:
        meter.end()

    assert costs == HOPS_AND_STATEMENTS


@pytest.mark.parametrize("version", [*SESSIONS, STATELESS])
async def test_request_without_a_stream_does_not_use_the_channel_layer(
    version: str, settings: Any
) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": f"{__name__}.CountingLayer"}}
    wire = AsgiClient(shop(), version, meta=REPORTING)
    if version != STATELESS:
        await wire.initialize()

    before = CountingLayer.uses.total()
    for tool in ("quick", "blocking", "checked", "remember"):
        reply = await wire.post(wire.call(tool, a=1))
        assert reply.media_type == "application/json"

    assert CountingLayer.uses.total() == before


async def test_tools_list_without_permissions_is_encoded_for_one_client_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("shop")
    for number in range(40):
        server.tool(name=f"tool_{number}")(lambda: None)
    wire = AsgiClient(server, meta=REPORTING)

    reply, used = await cost(wire, wire.request("tools/list"), monkeypatch)

    assert len(reply.json()["result"]["tools"]) == 40
    assert used == {"decoded": 1, "spliced": 1}
