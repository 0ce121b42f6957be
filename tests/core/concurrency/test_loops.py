from __future__ import annotations

import asyncio
import gc
import os
import sys

import pytest

from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.loops import PerLoop, result_of, running_loop, start_task


def test_each_loop_has_one_object() -> None:
    registry = PerLoop(list[int])

    async def first_and_second() -> tuple[list[int], list[int]]:
        return registry.here(), registry.of(asyncio.get_running_loop())

    first, again = asyncio.run(first_and_second())
    assert first is again
    other, _ = asyncio.run(first_and_second())
    assert other is not first


async def test_object_is_listed_with_its_loop() -> None:
    registry = PerLoop(object)
    loop = asyncio.get_running_loop()
    assert registry.get(loop) is None
    assert registry.items() == []
    existing = registry.here()
    assert registry.get(loop) is existing
    assert registry.items() == [(loop, existing)]


def test_object_ends_with_its_loop() -> None:
    registry = PerLoop(object)
    loop = asyncio.new_event_loop()
    registry.of(loop)
    loop.close()
    del loop
    gc.collect()
    assert registry.items() == []
    assert not registry._objects


async def test_cleared_registry_makes_another_object() -> None:
    registry = PerLoop(object)
    before = registry.here()
    registry.clear()
    assert registry.here() is not before
    assert len(registry.items()) == 1


async def test_object_of_a_class_is_made_once_for_each_loop() -> None:
    class Followed(list[str]):
        pass

    loop = asyncio.get_running_loop()
    assert loops.here_if_any(Followed) is None
    assert loops.everywhere(Followed) == []
    loops.here(Followed).append("first")
    assert loops.here(Followed) == loops.here_if_any(Followed) == ["first"]
    assert loops.everywhere(Followed) == [(loop, ["first"])]


def test_forked_child_has_no_objects_of_its_parent() -> None:
    registry = PerLoop(object)
    loop = asyncio.new_event_loop()
    registry.of(loop)
    child = os.fork()
    if child == 0:
        os._exit(len(registry.items()))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(registry.items()) == 1
    loop.close()


async def test_running_loop_is_found() -> None:
    assert running_loop() is asyncio.get_running_loop()


def test_thread_without_a_loop_has_none() -> None:
    assert running_loop() is None


def test_objects_are_listed_while_loops_are_collected() -> None:
    registry: PerLoop[list[int]] = PerLoop(list)
    thresholds = gc.get_threshold()
    try:
        for allocated in range(20):
            gc.disable()
            for _ in range(20):
                loop = asyncio.new_event_loop()
                registry.of(loop)
                loop.close()
                loop.itself = loop  # type: ignore[attr-defined]
            del loop
            # The collection begins within the next line.
            gc.set_threshold(gc.get_count()[0] + allocated)
            gc.enable()
            registry.items()
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


async def value() -> int:
    return 1


async def test_result_of_a_coroutine_is_returned() -> None:
    assert await result_of(value()) == 1


async def test_task_returns_the_result() -> None:
    assert await start_task(value()) == 1
    assert await start_task(value(), asyncio.get_running_loop()) == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
async def test_task_that_waits_for_nothing_is_done_at_once() -> None:
    assert start_task(value()).done()


async def test_task_knows_itself_from_its_beginning() -> None:
    async def current() -> asyncio.Task[object] | None:
        return asyncio.current_task()

    task = start_task(current())
    assert await task is task
