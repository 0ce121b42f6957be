"""Slots that callers share, for work that was accepted."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Hashable

import pytest

from django_mcp.core.concurrency.fair_slots import FairSlots, Slot, State

TIMEOUT = 10.0


class Work:
    """Pieces of work which hold a slot until they are told to end."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self.running: list[str] = []
        self.slots: dict[str, Slot] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self._answers: dict[str, asyncio.Event] = {}

    async def start(self, *names: str, asks: bool = False) -> None:
        """Start work; the first letter of its name is its caller."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._answers[name] = asyncio.Event()
            self.slots[name] = self._slots.slot(name[0])
            self.tasks[name] = asyncio.create_task(self._run(name, asks))
        await settle()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await settle()

    async def answer(self, name: str) -> None:
        self._answers[name].set()
        await settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await settle()

    async def _run(self, name: str, asks: bool) -> None:
        slot = self.slots[name]
        async with slot:
            if asks:
                async with slot.step_aside():
                    await self._answers[name].wait()
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_caller_gets_half_of_the_slots_and_others_find_some() -> None:
    work = Work(FairSlots(4))
    await work.start("a1", "a2", "a3", "b1", "c1")
    assert work.running == ["a1", "a2", "b1", "c1"]
    await work.end("a1")
    assert work.running == ["a2", "b1", "c1"]
    await work.end("b1")
    assert work.running == ["a2", "c1", "a3"]


async def test_work_of_a_single_caller_is_all_done() -> None:
    work = Work(FairSlots(2))
    names = [f"a{number}" for number in range(8)]
    await work.start(*names)
    await work.end(*names)
    async with asyncio.timeout(TIMEOUT):
        await asyncio.gather(*work.tasks.values())


async def test_callers_are_served_in_turn() -> None:
    work = Work(FairSlots(1))
    await work.start("a1", "a2", "a3", "b1", "c1")
    order = []
    while work.running:
        order += work.running
        await work.end(work.running[0])
    assert order == ["a1", "a2", "b1", "c1", "a3"]


async def test_slot_without_a_caller_has_no_share() -> None:
    slots = FairSlots(3)
    for _ in range(3):
        await slots.slot().__aenter__()
    waiting = asyncio.create_task(slots.slot().__aenter__())
    await settle()
    assert not waiting.done()
    waiting.cancel()
    await settle()


async def test_work_that_is_aside_holds_no_slot() -> None:
    work = Work(FairSlots(2))
    await work.start(*(f"a{number}" for number in range(6)), asks=True)
    await work.start("a7")
    assert work.running == ["a7"]


async def test_answered_work_waits_for_a_slot_before_new_work_of_its_caller() -> None:
    work = Work(FairSlots(1))
    await work.start("a1", asks=True)
    await work.start("a2", "a3")
    await work.answer("a1")
    assert (work.running, work.slots["a1"].state) == (["a2"], State.RETURNING)
    await work.end("a2")
    assert work.running == ["a1"]
    await work.end("a1")
    assert work.running == ["a3"]


async def test_cancelled_work_gives_its_slot_back_in_every_state() -> None:
    work = Work(FairSlots(1))
    await work.start("a1", asks=True)  # Aside, then returning.
    await work.start("a2", "a3")  # Held, and waiting.
    await work.answer("a1")
    await work.cancel("a3")
    await work.cancel("a1")
    await work.start("b1", asks=True)
    await work.cancel("a2")
    await work.cancel("b1")
    assert {slot.state for slot in work.slots.values()} == {State.OUTSIDE}
    await work.start("c1")
    assert work.running == ["c1"]


async def test_cancelled_work_cleans_up_without_waiting_for_a_slot() -> None:
    work = Work(FairSlots(1))
    await work.start("a1", asks=True)
    await work.start("a2")
    await work.cancel("a1")
    assert work.tasks["a1"].cancelled()


async def test_error_of_a_wait_is_raised_when_the_slot_is_held_again() -> None:
    slots = FairSlots(1)
    slot = slots.slot("a")
    async with slot:
        with pytest.raises(TimeoutError):
            async with slot.step_aside():
                raise TimeoutError
        assert slot.state is State.HELD


async def test_slot_is_aside_until_the_last_of_several_waits_is_over() -> None:
    slots = FairSlots(1)
    slot = slots.slot("a")
    async with slot, slot.step_aside():
        async with slot.step_aside():
            pass
        assert slot.state is State.ASIDE


async def test_slot_is_held_until_its_thread_returns() -> None:
    slots = FairSlots(1)
    slot = slots.slot("a")
    started, end = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        end.wait(TIMEOUT)

    thread = threading.Thread(target=slot.call, args=(work,))
    async with slot:
        thread.start()
        started.wait(TIMEOUT)
    states = [slot.state]
    end.set()
    thread.join(TIMEOUT)
    assert [*states, slot.state] == [State.HELD, State.OUTSIDE]


@pytest.mark.parametrize(("caller", "is_aside"), [("a", False), ("b", True)])
async def test_number_of_slots_aside_is_limited_and_shared(
    caller: Hashable, is_aside: bool
) -> None:
    slots = FairSlots(10, max_aside=2)
    first, second = slots.slot("a"), slots.slot(caller)
    async with first, second, first.step_aside(), second.step_aside():
        assert first.state is State.ASIDE
        assert second.state is (State.ASIDE if is_aside else State.HELD)


def test_slots_are_shared_by_the_event_loops_of_the_process() -> None:
    slots = FairSlots(1)
    held, end = threading.Event(), threading.Event()

    async def hold() -> None:
        async with slots.slot("a"):
            held.set()
            await asyncio.to_thread(end.wait, TIMEOUT)

    async def wait() -> None:
        async with asyncio.timeout(TIMEOUT), slots.slot("b"):
            assert end.is_set()

    threads = [threading.Thread(target=asyncio.run, args=(hold(),))]
    threads[0].start()
    held.wait(TIMEOUT)
    threads.append(threading.Thread(target=asyncio.run, args=(wait(),)))
    threads[1].start()
    end.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert slots.slot("c").state is State.OUTSIDE


def test_work_of_an_event_loop_that_was_closed_gets_no_slot() -> None:
    slots = FairSlots(1)
    holder = slots.slot("a")
    loop = asyncio.new_event_loop()
    waiting = slots.slot("b")

    async def hold() -> None:
        await holder.__aenter__()

    async def wait() -> None:
        task = asyncio.ensure_future(waiting.__aenter__())
        await settle()
        tasks.append(task)

    tasks: list[asyncio.Future[None]] = []
    asyncio.run(hold())
    loop.run_until_complete(wait())
    loop.close()

    async def end() -> None:
        await holder.__aexit__()
        async with asyncio.timeout(TIMEOUT), slots.slot("c"):
            pass

    asyncio.run(end())
    assert waiting.state is State.OUTSIDE
    del tasks[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_all_slots() -> None:
    slots = FairSlots(1)

    async def take() -> None:
        async with asyncio.timeout(TIMEOUT):
            await slots.slot("a").__aenter__()

    asyncio.run(take())
    child = os.fork()
    if not child:  # pragma: no cover - coverage does not follow it
        code = 1
        try:
            asyncio.run(take())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
