from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from django_mcp.runtime import background
from tests.waiting import SECONDS

variable = ContextVar("variable", default="unset")


async def test_background_task_has_no_variable_of_its_call() -> None:
    async def read() -> str:
        return variable.get()

    variable.set("of the call")
    assert await background.create_task(read()) == "unset"


async def test_error_of_a_background_task_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    background.spawn(fail())
    await asyncio.wait(background.tasks())
    assert "A background task failed" in caplog.text
    assert "ValueError: broken" in caplog.text


async def test_accepted_task_is_known_until_it_is_done() -> None:
    may_end = asyncio.Event()
    background.spawn_accepted(asyncio.sleep(0))
    background.spawn_accepted(asyncio.wait_for(may_end.wait(), SECONDS))
    assert len(background.accepted_tasks()) == 2
    may_end.set()
    await asyncio.wait(background.accepted_tasks())
    await asyncio.sleep(0)
    assert background.accepted_tasks() == set()
