"""Context managers around coroutines that continue on another thread, as under WSGI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.local import Local

from django_mcp.runtime.context_managers import within
from django_mcp.transports.wsgi.event_loop import EventLoopThread

SECONDS = 30
local = Local()


def on_two_threads(coroutine: Any) -> Any:
    """The result of a coroutine that begins on this thread, and goes on on that of the loop."""
    running = EventLoopThread()
    result: Future[Any] = Future()

    async def run() -> None:
        local.language = "sv"
        begun = threading.get_ident()
        try:
            result.set_result((await coroutine, begun != threading.get_ident()))
        except BaseException as error:
            result.set_exception(error)

    tasks = []
    running.run_here(lambda: tasks.append(running.loop.create_task(run())))
    try:
        value, has_moved = result.result(SECONDS)
    finally:
        running.loop.call_soon_threadsafe(running.loop.stop)
    assert has_moved
    return value


@contextmanager
def silent() -> Iterator[None]:
    yield


def test_handler_has_the_locals_of_its_request() -> None:
    async def handler() -> Any:
        return local.language

    async def call() -> Any:
        return await within(silent, handler()), local.language

    assert on_two_threads(call()) == ("sv", "sv")


def test_manager_reads_and_sets_locals_for_the_handler() -> None:
    seen = []

    @contextmanager
    def with_tenant() -> Iterator[None]:
        seen.append(local.language)
        local.tenant = "a"
        try:
            yield
        finally:
            seen.append(local.basket)

    async def handler() -> Any:
        local.basket = "full"
        await asyncio.sleep(0)
        return local.language, local.tenant

    async def call() -> Any:
        result = await within(with_tenant, handler())
        return result, getattr(local, "tenant", None), local.language

    assert on_two_threads(call()) == (("sv", "a"), None, "sv")
    assert seen == ["sv", "full"]


def test_locals_are_there_after_a_failure() -> None:
    async def handler() -> Any:
        raise ZeroDivisionError

    async def call() -> Any:
        with pytest.raises(ZeroDivisionError):
            await within(silent, handler())
        return local.language

    assert on_two_threads(call()) == "sv"


async def test_manager_that_a_cancelled_call_has_begun_to_enter_is_exited_on_its_thread() -> None:
    """Otherwise Python closes the generator, on any thread: its connection is another one there."""
    entering = threading.Event()
    may_enter = threading.Event()
    threads: list[int] = []
    errors: list[type[BaseException]] = []

    @contextmanager
    def slow() -> Iterator[None]:
        entering.set()
        may_enter.wait(SECONDS)
        threads.append(threading.get_ident())
        try:
            yield
        except BaseException as error:
            threads.append(threading.get_ident())
            errors.append(type(error))
            raise

    async def handler() -> None:
        raise AssertionError("It is not called")

    call = asyncio.create_task(within(slow, handler()))
    assert await asyncio.to_thread(entering.wait, SECONDS)
    call.cancel()
    await asyncio.sleep(0)
    may_enter.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert errors == [asyncio.CancelledError]
    assert threads[0] == threads[1]
