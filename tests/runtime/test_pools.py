"""Synchronous handlers run in parallel, and their connections are closed as Django does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TestCase
from django.utils import translation
from pytest_django import DjangoDbBlocker, Settings

from django_mcp.core.protocol.errors import ServerBusy
from django_mcp.models import McpSession
from django_mcp.runtime import background, pools, private, request_scope
from django_mcp.transports import in_process
from tests.databases import scratch_database
from tests.memory_stores import Configure, configure
from tests.waiting import SECONDS

__all__ = ["configure"]

TIMEOUT = SECONDS
"""Seconds after which a test has failed."""

number = ContextVar("number", default=0)


@pytest.fixture(autouse=True)
def _shutdown_threads() -> Iterator[None]:
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


with_persistent_connections = pytest.mark.parametrize(
    "database", [{"CONN_MAX_AGE": None}], indirect=True
)


def query(database: str) -> BaseDatabaseWrapper:
    """Run a query on this thread's connection."""
    McpSession.objects.using(database).exists()
    return connections[database]


class TestRun:
    async def test_functions_run_concurrently(self) -> None:
        meeting = threading.Barrier(3, timeout=TIMEOUT)
        await asyncio.gather(*(pools.run(meeting.wait) for _ in range(3)))

    async def test_concurrency_is_limited_by_the_thread_pool_size(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SYNC_THREAD_POOL_SIZE": 2}
        names = await asyncio.gather(
            *(pools.run(lambda: threading.current_thread().name) for _ in range(20))
        )
        assert set(names) <= {"django-mcp_0", "django-mcp_1"}

    async def test_arguments_and_result_are_passed_through(self) -> None:
        assert await pools.run(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}

    async def test_exception_is_passed_through(self) -> None:
        with pytest.raises(ZeroDivisionError):
            await pools.run(divmod, 1, 0)

    @pytest.mark.parametrize("kind", [StopIteration, SystemExit])
    async def test_stop_iteration_and_system_exit_become_runtime_errors(
        self, kind: type[BaseException]
    ) -> None:
        def stop() -> None:
            raise kind

        with pytest.raises(RuntimeError, match=kind.__name__):
            await asyncio.wait_for(pools.run(stop), TIMEOUT)

    async def test_context_variables_and_active_language_are_available(self) -> None:
        number.set(7)
        with translation.override("de"):
            assert await pools.run(number.get) == 7
            assert await pools.run(translation.get_language) == "de"

    async def test_async_to_sync_returns_to_the_calling_event_loop(self) -> None:
        async def where() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        assert await pools.run(async_to_sync(where)) is asyncio.get_running_loop()

    async def test_cancelled_call_runs_to_completion(self) -> None:
        started, proceed, ended = threading.Event(), threading.Event(), threading.Event()

        def slow() -> None:
            started.set()
            proceed.wait(TIMEOUT)
            ended.set()

        call = asyncio.create_task(pools.run(slow))
        await asyncio.to_thread(started.wait, TIMEOUT)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not ended.is_set()
        proceed.set()
        assert await asyncio.to_thread(ended.wait, TIMEOUT)

    async def test_thread_sensitive_execution_uses_one_thread(self) -> None:
        thread = await sync_to_async(threading.get_ident)()
        with pools.thread_sensitive():
            idents = [pools.run(threading.get_ident) for _ in range(3)]
            assert await asyncio.gather(*idents) == [thread] * 3

    async def test_new_threads_are_created_after_shutdown(self) -> None:
        first = await pools.run(threading.current_thread)
        await asyncio.to_thread(pools.shutdown)
        assert not first.is_alive()
        second = await pools.run(threading.current_thread)
        assert second.is_alive()

    async def test_store_calls_are_not_blocked_by_handlers(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SYNC_THREAD_POOL_SIZE": 1}
        stored = threading.Event()
        handler = asyncio.create_task(pools.run(stored.wait, TIMEOUT))
        await pools.run_in_store_pool(stored.set)
        assert await handler

    def test_forked_process_creates_its_own_threads(self) -> None:
        subprocess.run([sys.executable, "-c", FORK_SCRIPT], check=True, timeout=SECONDS)


FORK_SCRIPT = """
import asyncio, os, signal, warnings
from django.conf import settings
settings.configure()
from django_mcp.runtime import pools, request_scope

assert asyncio.run(pools.run(int, "1")) == 1
warnings.simplefilter("ignore")  # The parent has threads: that is the point.
child = os.fork()
if not child:
    signal.alarm(10)
    os._exit(asyncio.run(pools.run(int, "0")))
assert os.waitpid(child, 0)[1] == 0
"""


class TestConnections:
    @pytest.fixture(autouse=True)
    def _one_thread(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SYNC_THREAD_POOL_SIZE": 1}

    async def test_connection_is_closed_after_the_call(self, database: str) -> None:
        connection = await pools.run(query, database)
        assert connection.connection is None

    @with_persistent_connections
    async def test_persistent_connection_is_reused(self, database: str) -> None:
        first = await pools.run(query, database)
        assert first.connection is not None
        assert await pools.run(query, database) is first

    @with_persistent_connections
    async def test_expired_persistent_connection_is_closed_before_the_next_call(
        self, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connection = await pools.run(query, database)
        connection.close_at = 0
        monkeypatch.setattr("django_mcp.runtime.connections.RECENT", 0)
        assert await pools.run(lambda: connection.connection) is None

    @with_persistent_connections
    async def test_persistent_connection_is_closed_by_shutdown(self, database: str) -> None:
        connection = await pools.run(query, database)
        await asyncio.to_thread(pools.shutdown)
        assert connection.connection is None

    @with_persistent_connections
    async def test_connection_without_autocommit_is_closed(self, database: str) -> None:
        def forgetful() -> BaseDatabaseWrapper:
            transaction.set_autocommit(False, database)
            return query(database)

        connection = await pools.run(forgetful)
        assert connection.connection is None

    async def test_connection_is_closed_after_an_error(self, database: str) -> None:
        opened: list[BaseDatabaseWrapper] = []

        def fail() -> None:
            opened.append(query(database))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await pools.run(fail)
        assert opened[0].connection is None

    async def test_a_connection_of_a_cancelled_call_is_closed(self, database: str) -> None:
        started, proceed = threading.Event(), threading.Event()
        opened: list[BaseDatabaseWrapper] = []

        def slow() -> None:
            started.set()
            proceed.wait(TIMEOUT)
            opened.append(query(database))

        call = asyncio.create_task(pools.run(slow))
        await asyncio.to_thread(started.wait, TIMEOUT)
        call.cancel()
        proceed.set()
        await asyncio.to_thread(pools.shutdown)
        assert opened[0].connection is None
        assert call.cancelling()

    async def test_connection_cleanup_is_skipped_without_connections(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def looked(**_: object) -> list[Any]:
            raise AssertionError("That takes time")

        with monkeypatch.context() as patch:
            patch.setattr(connections, "all", looked)
            assert await pools.run(int, "1") == 1


class TestOwnConnections:
    async def test_queries_of_different_messages_run_concurrently(self) -> None:
        meeting = threading.Barrier(3, timeout=TIMEOUT)

        async def message() -> None:
            await sync_to_async(meeting.wait)()

        await asyncio.gather(*(request_scope.run_async(message()) for _ in range(3)))

    async def test_connections_are_closed_after_the_message(self, database: str) -> None:
        async def message() -> Any:
            connection = await sync_to_async(query)(database)
            assert await sync_to_async(query)(database) is connection
            assert connection.connection is not None
            return connection

        assert (await request_scope.run_async(message())).connection is None

    async def test_message_without_queries_creates_no_thread(self) -> None:
        before = threading.active_count()
        await request_scope.run_async(asyncio.sleep(0))
        assert threading.active_count() == before


class TestScope:
    async def test_queries_in_different_scopes_run_concurrently(self) -> None:
        meeting = threading.Barrier(3, timeout=TIMEOUT)
        scopes = (request_scope.run(sync_to_async(meeting.wait)) for _ in range(3))
        await asyncio.gather(*scopes)

    @with_persistent_connections
    async def test_handler_uses_the_connection_of_its_thread(
        self, database: str, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)

        async def handler() -> None:
            first = await sync_to_async(query)(database)
            assert await sync_to_async(query)(database) is first
            assert first.connection is not None

        async def request() -> None:
            await sync_to_async(query)(database)
            await request_scope.run_async(handler())

        await request_scope.run(request)

    async def test_connections_are_closed_after_an_error(self, database: str) -> None:
        opened: list[BaseDatabaseWrapper] = []

        async def fail() -> None:
            opened.append(await sync_to_async(query)(database))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await request_scope.run(fail)
        assert opened[0].connection is None

    @with_persistent_connections
    async def test_connections_are_kept_for_the_next_request_with_conn_max_age(
        self, database: str, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)

        async def request() -> Any:
            return await sync_to_async(query)(database)

        first = await request_scope.run(request)
        assert first.connection is not None
        assert await request_scope.run(request) is first

    @with_persistent_connections
    async def test_kept_connection_that_has_failed_is_opened_again(
        self, database: str, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)

        async def request() -> Any:
            return await sync_to_async(query)(database)

        first = await request_scope.run(request)
        broken = first.connection
        first.errors_occurred, first.is_usable = True, lambda: False
        assert (await request_scope.run(request)).connection is not broken

    async def test_connections_are_closed_before_a_long_wait(self, database: str) -> None:
        async def request() -> None:
            first = await sync_to_async(query)(database)
            await request_scope.release_thread()
            assert first.connection is None
            assert (await sync_to_async(query)(database)).connection is not None

        await request_scope.run(request)

    async def test_task_that_goes_on_has_a_scope_of_its_own(self, database: str) -> None:
        has_ended = asyncio.Event()
        opened: list[BaseDatabaseWrapper] = []

        async def call() -> None:
            await has_ended.wait()
            opened.append(await sync_to_async(query)(database))

        async def request() -> asyncio.Task[None]:
            return asyncio.create_task(request_scope.run(call))

        task = await request_scope.run(request)
        has_ended.set()
        await task
        assert opened[0].connection is None

    async def test_request_without_queries_creates_no_thread(self) -> None:
        before = threading.active_count()
        await request_scope.run(asyncio.sleep, 0)
        await request_scope.run(request_scope.release_thread)
        assert threading.active_count() == before

    async def test_context_of_nobody_has_only_the_mode_of_a_test(self) -> None:
        number.set(7)
        with pools.thread_sensitive(), translation.override("de"):
            context = pools.context_of_nobody()
        assert context.run(number.get) == 0
        assert context.run(translation.get_language) != "de"
        assert context.run(pools.is_thread_sensitive)
        assert not pools.context_of_nobody().run(pools.is_thread_sensitive)


wait = in_process.DjangoInProcessCaller().wait


class TestOnThisThread:
    """Synchronous code that waits on its thread for asynchronous code, as ``in_process`` does."""

    @pytest.fixture(autouse=True, params=["with the names", "without them"])
    def _names_of_asgiref(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if request.param == "without them":
            monkeypatch.setattr(private, "KNOWS_THREADS", False)

    async def test_background_task_on_a_loop_that_goes_on_has_threads_of_its_own(self) -> None:
        started: list[asyncio.Task[Any]] = []

        async def later() -> Any:
            name = await pools.run_in_threads_of("log", lambda: threading.current_thread().name)
            return pools.is_thread_sensitive(), name.partition("_")[0]

        async def call() -> tuple[int, int]:
            started.append(background.create_task(later()))
            return await pools.run(threading.get_ident), await pools.run(wait, handler)

        async def handler() -> int:
            started.append(background.create_task(later()))
            return await pools.run(threading.get_ident)

        def waiting() -> tuple[int, tuple[int, int]]:
            return threading.get_ident(), wait(call)

        ident, used = await pools.run(waiting)
        assert used == (ident, ident)
        assert await asyncio.gather(*started) == [(False, "django-mcp")] * 2

    def test_background_task_on_a_loop_that_ends_with_the_call_is_thread_sensitive(self) -> None:
        async def later() -> bool:
            return pools.is_thread_sensitive()

        async def call() -> bool:
            return await background.create_task(later())

        assert wait(call)

    async def test_background_task_in_a_test_is_thread_sensitive(self) -> None:
        async def later() -> bool:
            return pools.is_thread_sensitive()

        async def call() -> bool:
            return await background.create_task(later())

        with pools.thread_sensitive():
            assert await pools.run(wait, call)


class TestBusyPool:
    """A pool of one thread, which a function occupies."""

    @pytest.fixture
    async def proceed(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[threading.Event]:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SYNC_THREAD_POOL_SIZE": 1}
        monkeypatch.setattr(pools, "START_TIMEOUT", 0.05)
        started, proceed = threading.Event(), threading.Event()

        def occupy() -> None:
            started.set()
            proceed.wait(TIMEOUT)

        occupying = asyncio.create_task(pools.run(occupy))
        await asyncio.to_thread(started.wait, TIMEOUT)
        yield proceed
        proceed.set()
        await occupying

    async def test_function_that_waits_too_long_is_never_called(
        self, proceed: threading.Event
    ) -> None:
        called: list[int] = []
        with pytest.raises(ServerBusy):
            await pools.run(called.append, 1)
        proceed.set()
        await pools.run(called.append, 2)
        assert called == [2]

    async def test_function_that_begins_in_time_may_take_longer(
        self, proceed: threading.Event
    ) -> None:
        waiting = asyncio.create_task(pools.run(time.sleep, 0.2))
        await asyncio.sleep(0)
        proceed.set()
        await asyncio.wait_for(waiting, TIMEOUT)

    @pytest.mark.usefixtures("proceed")
    async def test_cancelled_call_is_cancelled_while_it_waits(self) -> None:
        waiting = asyncio.create_task(pools.run(int, "1"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    @pytest.mark.usefixtures("proceed")
    async def test_hooks_have_threads_of_their_own(self) -> None:
        assert await pools.run_hook(int, "1") == 1


class TestUnderDjangosTestCase(TestCase):
    """Only the test's own connection sees its transaction."""

    def setUp(self) -> None:
        McpSession.objects.create(
            address="a", created_at="2026-01-01T00:00Z", used_at="2026-01-01T00:00Z"
        )

    async def call(self) -> list[str]:
        rows = McpSession.objects.values_list("address", flat=True)
        return await request_scope.run_async(pools.run(list, rows))

    def test_function_reads_rows_written_by_the_test(self) -> None:
        with pools.thread_sensitive():
            self.assertEqual(async_to_sync(self.call)(), ["a"])

    async def test_function_reads_rows_written_by_an_async_test(self) -> None:
        with pools.thread_sensitive():
            self.assertEqual(await self.call(), ["a"])

    def test_transaction_stays_open_after_the_call(self) -> None:
        with pools.thread_sensitive():
            async_to_sync(self.call)()
        self.assertTrue(connections["default"].in_atomic_block)
        self.assertEqual(McpSession.objects.count(), 1)
