"""The ORM calls of a request: on one thread, of which there is a limited number."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from pytest_django import DjangoDbBlocker

from django_mcp import Frame, Server
from django_mcp.core.auth.base import Principal
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.protocol.errors import ServerBusy
from django_mcp.models import McpSession
from django_mcp.runtime import context_managers, pools, request_scope, request_thread, rollback
from django_mcp.runtime.connections import close_before_wait
from django_mcp.transports.loop_exchange import LoopExchange
from tests.databases import scratch_database
from tests.memory_stores import Configure, configure
from tests.waiting import SECONDS, until

__all__ = ["configure"]

TIMEOUT = SECONDS
"""Seconds after which a test has failed."""

ident = sync_to_async(threading.get_ident)


@pytest.fixture(autouse=True)
def _two_threads(configure: Configure) -> Iterator[None]:
    configure(SYNC_THREAD_POOL_SIZE=2)
    yield
    pools.shutdown()


@pytest.fixture
def database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The alias of a database in a file, whose connections can be closed."""
    options = getattr(request, "param", {})
    with (
        django_db_blocker.unblock(),
        scratch_database("sqlite3", tmp_path, **options) as alias,
    ):
        yield alias


@pytest.fixture(params=["without middleware", "with middleware"])
def middleware(request: pytest.FixtureRequest, configure: Configure) -> None:
    """With middleware of Django, asgiref makes the thread of a request."""
    names = ["django.middleware.common.CommonMiddleware"]
    paths = names if request.param == "with middleware" else []
    configure(SYNC_THREAD_POOL_SIZE=2, DJANGO_MIDDLEWARE=paths)


with_persistent_connections = pytest.mark.parametrize(
    "database", [{}, {"CONN_MAX_AGE": None}], indirect=True
)


@contextmanager
def around_call(frame: Frame) -> Iterator[None]:
    yield


def query(database: str) -> BaseDatabaseWrapper:
    """Run a query on this thread's connection."""
    McpSession.objects.using(database).exists()
    return connections[database]


class Requests:
    """Requests which have made an ORM call, and go on when they are told to."""

    def __init__(self, first: Callable[[], Any] = threading.get_ident) -> None:
        self.proceed = asyncio.Event()
        self.served: list[Any] = []
        self._first = first
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, number: int) -> None:
        before = len(self.served)
        self.tasks += [asyncio.create_task(request_scope.run(self._serve)) for _ in range(number)]
        await until(lambda: len(self.served) >= before + number)

    async def end(self) -> None:
        self.proceed.set()
        async with asyncio.timeout(TIMEOUT):
            await asyncio.gather(*self.tasks)

    async def _serve(self) -> None:
        self.served.append(await sync_to_async(self._first)())
        await self.between()
        await self.proceed.wait()

    async def between(self) -> None:
        """What happens after the first call."""


@pytest.fixture
async def holders() -> AsyncIterator[Requests]:
    """Requests that may have all of the threads."""
    requests = Requests()
    yield requests
    await requests.end()


BLOCKED = """
import asyncio, threading
from asgiref.sync import sync_to_async
from django.conf import settings
settings.configure()
from django_mcp.runtime import pools, request_scope

started = threading.Event()

def block():
    started.set()
    threading.Event().wait()

async def main():
    request = asyncio.create_task(request_scope.run(sync_to_async(block)))
    await asyncio.to_thread(started.wait)
    request.cancel()
    await asyncio.wait([request])

asyncio.run(main())
"""


async def test_request_has_a_thread_of_its_own_from_its_first_orm_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    class CountedThread(request_thread.RequestThread):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(request_scope, "RequestThread", CountedThread)

    async def request(calls: int) -> set[int]:
        return {await ident() for _ in range(calls)}

    await request_scope.run(request, 0)
    assert not made
    threads = await asyncio.gather(request_scope.run(request, 2), request_scope.run(request, 2))
    assert [len(idents) for idents in threads] == [1, 1]
    assert len(made) == 2


class TestLimit:
    async def test_no_more_requests_have_a_thread_than_there_are_threads(self) -> None:
        running, most, lock = 0, 0, threading.Lock()

        def work() -> int:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.005)
            with lock:
                running -= 1
            return threading.get_ident()

        idents = await asyncio.gather(
            *(request_scope.run(sync_to_async(work)) for _ in range(40)),
        )
        assert most == 2
        assert len(set(idents)) == 2

    async def test_calls_of_one_request_run_on_its_thread(self) -> None:
        async def request() -> set[int]:
            calls = [await ident() for _ in range(3)]
            return {*calls, *await asyncio.gather(ident(), ident())}

        for found in await asyncio.gather(*(request_scope.run(request) for _ in range(10))):
            assert len(found) == 1

    async def test_request_waits_until_another_one_ends(self, holders: Requests) -> None:
        await holders.start(2)
        waiting = asyncio.create_task(request_scope.run(ident))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        holders.proceed.set()
        assert await asyncio.wait_for(waiting, TIMEOUT) in holders.served

    async def test_request_without_a_thread_in_time_is_rejected(
        self, holders: Requests, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pools, "START_TIMEOUT", 0.05)
        called: list[int] = []

        async def request() -> None:
            await asyncio.gather(sync_to_async(called.append)(1), sync_to_async(called.append)(2))

        await holders.start(2)
        with pytest.raises(ServerBusy):
            await asyncio.wait_for(request_scope.run(request), TIMEOUT)
        await holders.end()
        await asyncio.wait_for(request_scope.run(request), TIMEOUT)
        assert called == [1, 2]

    async def test_cancelled_request_waits_no_longer(self, holders: Requests) -> None:
        await holders.start(2)
        waiting = asyncio.create_task(request_scope.run(ident))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, TIMEOUT)
        await holders.end()
        assert await asyncio.wait_for(request_scope.run(ident), TIMEOUT)

    async def test_failed_call_leaves_the_thread_to_the_request(self) -> None:
        async def request() -> None:
            before = await ident()
            with pytest.raises(ZeroDivisionError):
                await sync_to_async(divmod)(1, 0)
            assert await ident() == before

        await request_scope.run(request)

    @pytest.mark.parametrize("is_used_before", [True, False])
    async def test_task_that_outlives_its_request_keeps_no_thread(
        self, is_used_before: bool
    ) -> None:
        proceed = asyncio.Event()

        async def go_on() -> int:
            await proceed.wait()
            return await ident()

        async def request() -> list[asyncio.Task[int]]:
            if is_used_before:
                await ident()
            return [asyncio.create_task(go_on()) for _ in range(3)]

        tasks = await request_scope.run(request)
        proceed.set()
        async with asyncio.timeout(TIMEOUT):
            await asyncio.gather(*tasks)
            # Both are free.
            meeting = threading.Barrier(2, timeout=TIMEOUT)
            wait = sync_to_async(meeting.wait)
            await asyncio.gather(request_scope.run(wait), request_scope.run(wait))

    def test_process_ends_while_a_call_of_a_cancelled_request_blocks(self) -> None:
        subprocess.run([sys.executable, "-c", BLOCKED], check=True, timeout=SECONDS)

    async def test_shutdown_ends_the_threads_of_open_requests(self, database: str) -> None:
        holders = Requests(lambda: query(database))
        await holders.start(2)
        (opened, _) = holders.served
        assert opened.connection is not None
        await asyncio.wait_for(asyncio.to_thread(pools.shutdown), TIMEOUT)
        assert opened.connection is None
        for task in holders.tasks:
            task.cancel()


class TestConnections:
    async def test_next_request_has_nothing_of_the_state_of_a_connection(
        self, database: str, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)

        async def request() -> Any:
            return await sync_to_async(query)(database)

        first, second = await request_scope.run(request), await request_scope.run(request)
        assert first is not second
        assert first.connection is second.connection is None

    async def test_transaction_that_was_left_open_ends_with_its_request(
        self, database: str, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)

        async def request() -> None:
            await sync_to_async(transaction.atomic(using=database).__enter__)()
            await McpSession.objects.using(database).acreate(address="a", **TIMES)

        async def count() -> int:
            return await McpSession.objects.using(database).acount()

        await request_scope.run(request)
        assert await request_scope.run(count) == 0

    async def test_resting_request_leaves_thread_and_connection_to_others(
        self, database: str
    ) -> None:
        opened: list[BaseDatabaseWrapper] = []
        proceed = asyncio.Event()

        async def request() -> None:
            opened.append(await sync_to_async(query)(database))
            await request_scope.release_thread()
            await proceed.wait()
            assert (await sync_to_async(query)(database)).connection is not None

        resting = [asyncio.create_task(request_scope.run(request)) for _ in range(5)]
        async with asyncio.timeout(TIMEOUT):
            await until(lambda: len(opened) >= 5)
            assert await request_scope.run(ident)
            proceed.set()
            await asyncio.gather(*resting)
        assert all(each.connection is None for each in opened)

    @pytest.mark.usefixtures("middleware")
    async def test_request_in_a_transaction_does_not_rest(self, database: str) -> None:
        async def request() -> None:
            block = transaction.atomic(using=database)
            await sync_to_async(block.__enter__)()
            await McpSession.objects.using(database).acreate(address="a", **TIMES)
            await request_scope.release_thread()
            await sync_to_async(block.__exit__)(None, None, None)
            assert await McpSession.objects.using(database).acount() == 1

        await request_scope.run(request)

    @pytest.mark.usefixtures("middleware")
    async def test_request_whose_call_waits_for_its_client_rests_without_its_thread(self) -> None:
        responded = threading.Event()

        async def request() -> None:
            asking = asyncio.ensure_future(sync_to_async(responded.wait)(TIMEOUT))
            await asyncio.sleep(0.01)
            await request_scope.release_thread()
            responded.set()
            assert await asking

        async with asyncio.timeout(TIMEOUT):
            await request_scope.run(request)

    @pytest.mark.usefixtures("middleware")
    async def test_resting_request_begins_again_with_a_new_connection(self, database: str) -> None:
        async def request() -> None:
            before = await sync_to_async(query)(database)
            await asyncio.gather(*(request_scope.release_thread() for _ in range(2)))
            assert before.connection is None
            assert (await sync_to_async(query)(database)).connection is not None

        await request_scope.run(request)

    @pytest.mark.parametrize("error", [None, ZeroDivisionError])
    @pytest.mark.usefixtures("middleware")
    async def test_handler_that_rests_is_in_its_transaction(
        self, database: str, error: type[Exception] | None
    ) -> None:
        async def handler() -> None:
            await McpSession.objects.using(database).acreate(address="a", **TIMES)
            await request_scope.release_thread()
            assert (await sync_to_async(query)(database)).in_atomic_block
            if error is not None:
                raise error

        transactions: Any = context_managers.Transactions((database,))
        call = request_scope.run(transactions.wait_for, None, handler())
        with nullcontext() if error is None else pytest.raises(error):
            await call
        is_kept = await McpSession.objects.using(database).aexists()
        assert is_kept == (error is None)

    @pytest.mark.usefixtures("middleware")
    @with_persistent_connections
    async def test_state_that_a_manager_sets_on_a_connection_is_that_of_its_request(
        self, database: str
    ) -> None:
        """Such as the schema of a tenant, which ``around_call`` chooses."""
        is_waiting, proceed = asyncio.Event(), asyncio.Event()

        @contextmanager
        def with_schema() -> Iterator[None]:
            vars(query(database))["schema"] = "acme"
            yield
            vars(connections[database]).pop("schema", None)

        @sync_to_async
        def schema() -> Any:
            return vars(query(database)).get("schema")

        async def handler() -> Any:
            await request_scope.release_thread()
            is_waiting.set()
            await proceed.wait()
            return await schema()

        work = context_managers.within(with_schema, handler())
        first = asyncio.create_task(request_scope.run(request_scope.run_async, work))
        async with asyncio.timeout(TIMEOUT):
            await is_waiting.wait()
            assert await request_scope.run(request_scope.run_async, schema()) is None
            proceed.set()
            assert await first == "acme"

    async def test_sync_handler_keeps_its_connection_while_it_waits_within_around_call(
        self, database: str
    ) -> None:
        server = Server("shop")
        server.hook(around_call)

        def handler() -> bool:
            before = query(database).connection
            close_before_wait()
            return query(database).connection is before

        frame: Any = None
        assert await pools.run(context_managers.AroundCall(server).call, frame, handler)
        assert not await pools.run(handler)

    async def test_request_does_not_rest_while_a_call_runs(self, database: str) -> None:
        started, proceed = threading.Event(), threading.Event()

        def slow() -> int:
            query(database)
            started.set()
            proceed.wait(TIMEOUT)
            assert connections[database].connection is not None
            return threading.get_ident()

        async def request() -> None:
            running = asyncio.create_task(sync_to_async(slow)())
            await asyncio.to_thread(started.wait, TIMEOUT)
            await request_scope.release_thread()
            proceed.set()
            assert await running == await ident()

        await asyncio.wait_for(request_scope.run(request), TIMEOUT)

    @pytest.mark.usefixtures("middleware")
    async def test_handler_whose_writes_may_be_rolled_back_keeps_its_thread(self) -> None:
        thread = sync_to_async(threading.current_thread)

        async def handler() -> None:
            before = await thread()
            await request_scope.release_thread()
            assert await thread() is before

        await request_scope.run(rollback.run_async, handler())


TIMES = {"created_at": "2026-01-01T00:00Z", "used_at": "2026-01-01T00:00Z"}


class Handlers(Requests):
    """Requests which have made a call to authenticate their senders, and then run a handler."""

    def __init__(self, handler: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.handler = handler

    async def between(self) -> None:
        await request_scope.run_async(self._handle())

    async def _handle(self) -> None:
        if self.handler is not None:
            await sync_to_async(self.handler)()


class TestHandlers:
    async def test_thread_is_given_back_where_a_handler_begins(self) -> None:
        handlers = Handlers()
        await handlers.start(6)
        await handlers.end()

    async def test_sync_handler_gives_the_thread_back_as_well(self) -> None:
        class Sync(Handlers):
            async def between(self) -> None:
                await LoopExchange(Server("made for a test"), Principal(scheme="test")).run(int)

        handlers = Sync()
        await handlers.start(6)
        await handlers.end()

    async def test_thread_that_a_handler_uses_is_kept_to_the_end(self) -> None:
        called: list[int] = []
        handlers = Handlers(handler=lambda: called.append(1))
        await handlers.start(3)
        await until(lambda: len(called) >= 2)
        await asyncio.sleep(0.05)
        assert len(called) == 2
        # What is before a handler has threads of its own.
        await asyncio.wait_for(request_scope.run(ident), TIMEOUT)
        await handlers.end()
        assert len(called) == 3

    @pytest.mark.parametrize("database", [{"CONN_MAX_AGE": 60}], indirect=True)
    async def test_connection_stays_with_its_thread(
        self, database: str, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)
        opened: list[BaseDatabaseWrapper] = []

        async def handler() -> None:
            opened.append(await sync_to_async(query)(database))

        async def request() -> None:
            opened.append(await sync_to_async(query)(database))
            await request_scope.run_async(handler())

        await asyncio.gather(*(request_scope.run(request) for _ in range(5)))
        # One in the pool of requests, and one in that of handlers.
        assert len({id(connection.connection) for connection in opened}) == 2
        assert opened[0].connection is not None


class TestRequestThread:
    def test_calls_fail_after_the_threads_were_shut_down(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool = ThreadPool(1, "test")
        pool.shutdown()
        monkeypatch.setattr(pools, "for_queries", lambda _: pool)
        with pytest.raises(RuntimeError, match="shut down"):
            request_thread.RequestThread().submit(int).result(TIMEOUT)

    def test_calls_fail_where_the_system_starts_no_thread(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        pool = ThreadPool(1, "test", not_started=ServerBusy)
        monkeypatch.setattr(pools, "for_queries", lambda _: pool)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        calling = request_thread.RequestThread().submit(int)
        with pytest.raises(ServerBusy):
            calling.result(TIMEOUT)

    def test_end_of_a_request_without_calls_needs_no_thread(self) -> None:
        thread = request_thread.RequestThread()
        assert thread.release() is None
        assert thread.end() is None
