"""The database connections of handlers which wait for their client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from pytest_django import DjangoDbBlocker

from django_mcp import Frame, Server
from django_mcp.core.auth.base import BaseAuthentication, Principal
from django_mcp.models import McpSession
from django_mcp.runtime import pools
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.http import exchange
from tests.databases import scratch_database
from tests.spec import spec
from tests.waiting import until
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, STATELESS

FORM = {"type": "object", "properties": {"word": {"type": "string"}}}
ANSWER = {"action": "accept", "content": {"word": "yes"}}


@pytest.fixture
def database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The alias of a database in a file, whose connections stay open between calls by default."""
    max_age = getattr(request, "param", None)
    with (
        django_db_blocker.unblock(),
        scratch_database("sqlite3", tmp_path, CONN_MAX_AGE=max_age) as alias,
    ):
        yield alias
        pools.shutdown()


class Waiting:
    """A server whose tools use the database, ask, and use it again."""

    def __init__(self, database: str) -> None:
        self.server = Server("waiting_for_client")
        self.opened: list[BaseDatabaseWrapper] = []
        self.kept: list[bool] = []

        def query() -> None:
            McpSession.objects.using(database).exists()
            self.opened.append(connections[database])

        def ask(frame: Frame) -> str:
            query()
            answer = frame.client.elicit("A word?", FORM)
            query()
            return str(answer.content["word"])

        @self.server.tool(requests_input=True)
        def plain(frame: Frame) -> str:
            return ask(frame)

        @self.server.tool(requests_input=True)
        def atomic(frame: Frame) -> str:
            with transaction.atomic(using=database):
                word = ask(frame)
                self.kept.append(self.opened[0].connection is not None)
            return word

        @self.server.tool(requests_input=True)
        async def plain_async(frame: Frame) -> str:
            await sync_to_async(query)()
            answer = await frame.client.aelicit("A word?", FORM)
            await sync_to_async(query)()
            return str(answer.content["word"])

        @self.server.tool(requests_input=True)
        async def atomic_async(frame: Frame) -> str:
            block = transaction.atomic(using=database)
            await sync_to_async(block.__enter__)()
            word = await plain_async(frame)
            await sync_to_async(block.__exit__)(None, None, None)
            return word

    async def call(self, tool: str, while_client_reads: Callable[[], Any]) -> str:
        """The result of a tool; ``while_asked`` is called while its question is open."""
        peer = AsgiClient(self.server, NEWEST_SESSION, capabilities={"elicitation": {}})
        await peer.initialize()
        async with peer.open_post(peer.call(tool)) as stream:
            question = await stream.message()
            await while_client_reads()
            await peer.post({"jsonrpc": "2.0", "id": question["id"], "result": ANSWER})
            result = (await stream.message())["result"]
        text: str = result["content"][0]["text"]
        return text


@pytest.mark.parametrize("database", [0], indirect=True)
@pytest.mark.parametrize("tool", ["plain", "plain_async"])
async def test_handler_has_no_connection_while_it_waits_for_its_client(
    tool: str, database: str
) -> None:
    waiting_for_client = Waiting(database)

    async def while_client_reads() -> None:
        assert len(waiting_for_client.opened) == 1
        await until(lambda: waiting_for_client.opened[0].connection is None)

    assert await waiting_for_client.call(tool, while_client_reads) == "yes"
    assert len(waiting_for_client.opened) == 2


@pytest.mark.parametrize("tool", ["atomic", "atomic_async"])
async def test_handler_keeps_the_connection_of_its_transaction(tool: str, database: str) -> None:
    waiting_for_client = Waiting(database)

    async def while_client_reads() -> None:
        await asyncio.sleep(0.1)
        assert waiting_for_client.opened[0].connection is not None
        assert waiting_for_client.opened[0].in_atomic_block

    assert await waiting_for_client.call(tool, while_client_reads) == "yes"
    assert waiting_for_client.opened[0] is waiting_for_client.opened[1]


async def test_questions_of_async_handlers_occupy_no_thread(
    database: str, configure: Callable[..., None]
) -> None:
    configure(SYNC_THREAD_POOL_SIZE=1)
    waiting_for_client = Waiting(database)

    async def nothing() -> None:
        """Answer at once."""

    async def ask_another() -> None:
        assert await waiting_for_client.call("plain_async", nothing) == "yes"

    assert await waiting_for_client.call("plain_async", ask_another) == "yes"


async def test_handler_that_reports_to_a_silent_client_gives_its_thread_back(
    database: str, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(SYNC_THREAD_POOL_SIZE=1)
    monkeypatch.setattr(exchange, "SILENT", 0.1)
    server = Server("reporting")

    @server.tool
    async def report(frame: Frame) -> str:
        await McpSession.objects.using(database).aexists()
        for step in range(1000):
            await frame.client.aprogress(step)
        return "done"

    @server.tool
    async def count() -> int:
        return await McpSession.objects.using(database).acount()

    peer = AsgiClient(server, STATELESS, meta={"progressToken": 1})
    async with peer.open_post(peer.call("report")) as stream:
        await stream.message()
        stream.stop_reading()
        counted = (await peer.post(peer.call("count"))).json()
        assert counted["result"]["structuredContent"] == 0


class DatabaseAuthentication(BaseAuthentication):
    """Asks the database who is there, by the async ORM."""

    scheme = "test"

    def __init__(self, database: str) -> None:
        self._database = database
        self.answered = 0

    async def authenticate(self, scope: Any) -> Principal:
        await McpSession.objects.using(self._database).aexists()
        self.answered += 1
        return Principal(scheme=self.scheme, subject="ann")


@spec("cost-22")
@pytest.mark.parametrize("tool", ["long", "long_async"])
async def test_long_calls_hold_up_no_authentication_of_others(
    tool: str, database: str, configure: Callable[..., None]
) -> None:
    configure(SYNC_THREAD_POOL_SIZE=4)
    authentication = DatabaseAuthentication(database)
    server = Server("long", authenticators=[authentication])
    proceed = threading.Event()
    started: list[int] = []

    @server.tool
    def long() -> str:
        started.append(1)
        proceed.wait(TIMEOUT)
        return "done"

    @server.tool
    async def long_async() -> str:
        started.append(1)
        await until(proceed.is_set)
        return "done"

    peer = AsgiClient(server, STATELESS)
    calls = [asyncio.create_task(peer.post(peer.call(tool))) for _ in range(6)]
    # Of four threads, one caller has two.
    running = 2 if tool == "long" else 6
    await until(lambda: authentication.answered == 6 and len(started) == running)
    listed = await peer.post(peer.request("tools/list"))
    assert len(listed.json()["result"]["tools"]) == 2
    proceed.set()
    for reply in await asyncio.gather(*calls):
        assert reply.json()["result"]["content"][0]["text"] == "done"


async def test_each_thread_opens_one_connection_whatever_the_number_of_calls(
    database: str, configure: Callable[..., None]
) -> None:
    configure(SYNC_THREAD_POOL_SIZE=4)
    opened: list[int] = []

    def record(connection: BaseDatabaseWrapper, **_: Any) -> None:
        if connection.alias == database:
            opened.append(threading.get_ident())

    def is_known(frame: Frame) -> bool:
        return McpSession.objects.using(database).count() == 0

    server = Server("many", authenticators=[DatabaseAuthentication(database)])

    @server.tool(permission=is_known)
    def count() -> int:
        return McpSession.objects.using(database).count()

    @server.tool(permission=is_known)
    async def count_async() -> int:
        return await McpSession.objects.using(database).acount()

    peer = AsgiClient(server, STATELESS)
    connection_created.connect(record)
    try:
        calls = [peer.post(peer.call(tool)) for tool in ("count", "count_async") * 40]
        replies = await asyncio.gather(*calls)
    finally:
        connection_created.disconnect(record)
    assert {reply.json()["result"]["structuredContent"] for reply in replies} == {0}
    assert len(opened) == len(set(opened)) <= 3 * 4
