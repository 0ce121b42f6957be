"""Equal notifications of one stream: the first at once, the others as one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.pubsub import announcements
from django_mcp.pubsub.announcements import Coalescer
from tests.waiting import until


@pytest.fixture(autouse=True)
def _interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MERGE_INTERVAL", 0.05)


async def test_repetitions_are_sent_once_at_the_end_of_the_interval() -> None:
    sent: list[Any] = []
    coalescer = Coalescer(sent.append)
    for _ in range(40):
        coalescer.add("tools")
        coalescer.add("prompts")
    assert sent == ["tools", "prompts"]
    await until(lambda: len(sent) == 4)
    await asyncio.sleep(0.12)
    assert sent == ["tools", "prompts", "tools", "prompts"]
    assert coalescer._timers == {}


async def test_notification_after_the_interval_is_sent_at_once() -> None:
    sent: list[Any] = []
    coalescer = Coalescer(sent.append)
    for number in range(1, 4):
        coalescer.add("tools")
        assert len(sent) == number
        await asyncio.sleep(0.06)


async def test_closed_coalescer_sends_nothing_more() -> None:
    sent: list[Any] = []
    coalescer = Coalescer(sent.append)
    coalescer.add("tools")
    coalescer.add("tools")
    coalescer.close()
    await asyncio.sleep(0.1)
    assert sent == ["tools"]


async def test_coalescer_forgets_what_was_sent_before_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announcements, "MAX_MERGED", 10)
    sent: list[Any] = []
    coalescer = Coalescer(sent.append)
    for number in range(10):
        coalescer.add(f"file:///{number}")
    await asyncio.sleep(0.06)
    coalescer.add("file:///new")
    assert len(sent) == 11
    assert len(coalescer._sent_at) == 1
