"""Operations on a store that hangs: they end in time, and cost neither threads nor patience."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.protocol.errors import ServerBusy
from django_mcp.runtime import store_operations
from django_mcp.runtime.store_operations import (
    MAX_LATE,
    StoreOperations,
    StoreUnavailable,
    close_if_broken,
)
from tests.waiting import SECONDS, until

SIZE = 5
SOON = 0.05
PATIENCE = SECONDS


class FakeConnection:
    """A connection over a pair of sockets, the other one of which the server has."""

    Database = sqlite3  # The module of its driver.

    def __init__(self, alias: str = "fake") -> None:
        self.alias = alias
        self.connection: socket.socket | None
        self.connection, self.server = socket.socketpair()
        self.in_atomic_block = False

    def is_usable(self) -> bool:
        return self.connection is not None and self.connection.recv(1) != b""

    def close(self) -> None:
        assert self.connection is not None
        self.connection.close()
        self.connection = None

    def __enter__(self) -> FakeConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        if self.connection is not None:
            self.close()

    @property
    def as_django(self) -> BaseDatabaseWrapper:
        return cast("BaseDatabaseWrapper", self)


class HangingServer:
    """A server which answers when it is told to, to callers on any thread."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.called = 0

    def ask(self) -> str:
        """Wait for the answer."""
        self.called += 1
        assert self.answers.wait(PATIENCE)
        return "answer"


@pytest.fixture
def server() -> Iterator[HangingServer]:
    server = HangingServer()
    yield server
    server.answers.set()


@pytest.fixture
def operations() -> Iterator[StoreOperations]:
    pool = ThreadPool(SIZE, "test")
    yield StoreOperations(pool, SIZE)
    pool.shutdown(wait=False)


async def hang(operations: StoreOperations, server: HangingServer, times: int) -> None:
    requested = [operations.run(server.ask, SOON) for _ in range(times)]
    for result in await asyncio.gather(*requested, return_exceptions=True):
        assert isinstance(result, StoreUnavailable)


async def test_result_and_error_of_an_operation_are_passed_on(operations: StoreOperations) -> None:
    assert await operations.run(lambda: "result", PATIENCE) == "result"
    with pytest.raises(ZeroDivisionError):
        await operations.run(lambda: 1 / 0, PATIENCE)
    assert operations.call(lambda: "result", PATIENCE) == "result"
    with pytest.raises(ZeroDivisionError):
        operations.call(lambda: 1 / 0, PATIENCE)


async def test_late_operation_raises_store_unavailable(
    operations: StoreOperations, server: HangingServer
) -> None:
    with pytest.raises(StoreUnavailable):
        await operations.run(server.ask, SOON)
    assert await operations.run(lambda: "others go on", PATIENCE) == "others go on"


def test_late_operation_of_synchronous_code_raises_store_unavailable(
    operations: StoreOperations, server: HangingServer
) -> None:
    with pytest.raises(StoreUnavailable):
        operations.call(server.ask, SOON)


async def test_timeout_that_an_operation_raises_is_its_own(operations: StoreOperations) -> None:
    def timeout() -> None:
        raise TimeoutError("of a lock")

    with pytest.raises(TimeoutError, match="of a lock"):
        operations.call(timeout, PATIENCE)


async def test_operation_without_a_free_thread_raises_store_unavailable() -> None:
    """Who accepted something tries again after this error."""
    proceed = threading.Event()
    pool = ThreadPool(1, "test", max_wait=SOON, not_started=ServerBusy)
    try:
        pool.submit(proceed.wait, PATIENCE)
        operations = StoreOperations(pool, 1)
        with pytest.raises(StoreUnavailable):
            await operations.run(int, PATIENCE)
        with pytest.raises(StoreUnavailable):
            await asyncio.to_thread(operations.call, int, PATIENCE)
    finally:
        proceed.set()
        pool.shutdown()


@pytest.mark.parametrize("is_async", [True, False])
async def test_server_is_tried_again_after_an_operation_that_could_not_be_started(
    is_async: bool,
    operations: StoreOperations,
    server: HangingServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise ServerBusy

    async def ask() -> str:
        if is_async:
            return await operations.run(server.ask, PATIENCE)
        return operations.call(server.ask, PATIENCE)

    await hang(operations, server, MAX_LATE)
    server.answers.set()
    with monkeypatch.context() as limit:
        limit.setattr(ThreadPool, "submit", refuse)
        with pytest.raises(StoreUnavailable):
            await ask()
    assert await operations.run(server.ask, PATIENCE) == "answer"


async def test_one_operation_at_a_time_tries_a_server_that_hangs(
    operations: StoreOperations, server: HangingServer
) -> None:
    await hang(operations, server, MAX_LATE)
    probe = asyncio.ensure_future(operations.run(server.ask, PATIENCE))
    await until(lambda: server.called == MAX_LATE + 1)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await operations.run(server.ask, PATIENCE)
    assert server.called == MAX_LATE + 1
    server.answers.set()
    assert await probe == "answer"
    results = await asyncio.gather(*(operations.run(server.ask, PATIENCE) for _ in range(20)))
    assert results == ["answer"] * 20


async def test_next_operation_tries_the_server_when_the_one_before_was_late(
    operations: StoreOperations, server: HangingServer
) -> None:
    await hang(operations, server, MAX_LATE)
    await hang(operations, server, 1)
    assert server.called == MAX_LATE + 1


async def test_operations_fail_at_once_while_all_threads_hang_and_work_afterwards(
    operations: StoreOperations, server: HangingServer
) -> None:
    requested = [operations.run(server.ask, 1.0) for _ in range(SIZE + 3)]
    await asyncio.gather(*requested, return_exceptions=True)
    with pytest.raises(StoreUnavailable):
        await operations.run(server.ask, PATIENCE)
    # What found no thread is not done later.
    assert server.called == SIZE
    server.answers.set()
    await until(lambda: not operations._hanging)
    assert await operations.run(server.ask, PATIENCE) == "answer"


def receive() -> bytes:
    """Wait on a connection, which this thread has opened, for what the server says."""
    with FakeConnection() as connection:
        store_operations._record(connection=connection.as_django)
        assert connection.connection is not None
        return connection.connection.recv(1)


async def test_thread_of_a_late_operation_gets_free(operations: StoreOperations) -> None:
    ended: list[bytes] = []
    with pytest.raises(StoreUnavailable):
        await operations.run(lambda: ended.append(receive()), SOON)
    await until(lambda: ended == [b""])
    await until(lambda: not operations._hanging)


async def test_thread_gets_free_although_nobody_waits_any_more(operations: StoreOperations) -> None:
    ended, has_begun = [], threading.Event()

    def wait() -> None:
        has_begun.set()
        ended.append(receive())

    waiting = asyncio.ensure_future(operations.run(wait, 0.3))
    await until(has_begun.is_set)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    await until(lambda: ended == [b""])


async def test_cancelled_operation_that_waits_for_a_thread_is_not_run(
    operations: StoreOperations, server: HangingServer
) -> None:
    running = [asyncio.ensure_future(operations.run(server.ask, PATIENCE)) for _ in range(SIZE)]
    await until(lambda: server.called == SIZE)
    late = asyncio.ensure_future(operations.run(server.ask, PATIENCE))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.wait([late])
    server.answers.set()
    await asyncio.gather(*running)
    assert server.called == SIZE


@pytest.fixture
def connection() -> Iterator[FakeConnection]:
    with FakeConnection() as connection:
        yield connection


def test_idle_connection_that_the_server_has_closed_is_closed(connection: FakeConnection) -> None:
    connection.server.close()
    close_if_broken(connection.as_django)
    assert connection.connection is None


@pytest.mark.parametrize("news", [b"", b"a notice"])
def test_connection_that_works_stays_open(connection: FakeConnection, news: bytes) -> None:
    connection.server.sendall(news)
    close_if_broken(connection.as_django)
    assert connection.connection is not None


def test_connection_in_a_transaction_is_left_alone(connection: FakeConnection) -> None:
    connection.server.close()
    connection.in_atomic_block = True
    close_if_broken(connection.as_django)
    assert connection.connection is not None


@pytest.mark.parametrize("raw", [None, object()])
def test_connection_without_a_socket_is_left_alone(connection: FakeConnection, raw: Any) -> None:
    connection.close()
    connection.connection = raw
    close_if_broken(connection.as_django)
    assert connection.connection is raw
    connection.connection = None
