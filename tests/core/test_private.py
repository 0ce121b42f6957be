"""What the core uses of Python and pydantic without their promise, and what takes its place."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_core import SchemaValidator

from django_mcp.core import private
from django_mcp.transports.wsgi.event_loop import EventLoopThread
from tests.waiting import SECONDS, wait_until


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (asyncio, "_set_running_loop"),
        (asyncio.tasks, "_enter_task"),
        (asyncio.tasks, "_leave_task"),
        (asyncio.Handle, "_run"),
        (asyncio.BaseEventLoop, "_asyncgen_firstiter_hook"),
        (asyncio.BaseEventLoop, "_asyncgen_finalizer_hook"),
    ],
)
def test_name_is_there(owner: Any, name: str) -> None:
    assert hasattr(owner, name)


def test_task_runs_on_the_thread_of_a_loop_that_cannot_be_lent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private, "CAN_LEND_LOOPS", False)
    running = EventLoopThread()
    threads: list[int] = []

    async def work() -> None:
        await asyncio.sleep(0)
        threads.append(threading.get_ident())

    try:
        running.loop.run_here(running.loop.create_task, work())
        wait_until(lambda: threads)
        assert threads != [threading.get_ident()]
        future = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "done"), running.loop)
        assert future.result(SECONDS) == "done"
    finally:
        running.loop.call_soon_threadsafe(running.loop.stop)
        wait_until(lambda: running.has_ended)


class Point(BaseModel):
    x: int


def _strict(core: Any) -> Any:
    """The core schema of a model with strict numbers, as ``argument_types`` prepares it."""
    field = core["schema"]["fields"]["x"]
    strict = {**field, "schema": {**field["schema"], "strict": True}}
    return {**core, "schema": {**core["schema"], "fields": {"x": strict}}}


def test_validator_uses_what_was_changed_inside_a_model() -> None:
    validator = private.new_validator(_strict(TypeAdapter(Point).core_schema))
    assert validator.isinstance_python({"x": 1})
    assert not validator.isinstance_python({"x": "1"})


def test_validator_is_made_without_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    make = SchemaValidator

    def without_argument(core: Any) -> Any:
        return make(core)

    monkeypatch.setattr(private, "SchemaValidator", without_argument)
    validator = private.new_validator(_strict(TypeAdapter(Point).core_schema))
    assert validator.validate_python({"x": 1}) == Point(x=1)


def test_cached_function_is_told_by_its_type() -> None:
    assert isinstance(functools.cache(len), private.CACHED_FUNCTION)
    assert not isinstance(len, private.CACHED_FUNCTION)
