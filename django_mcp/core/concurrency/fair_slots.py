"""Slots of a process for accepted work, which waits for one without a time limit.

Callers share the slots fairly, by the rule of ``thread_pool``: one gets a further slot only while
it holds fewer than are free, and callers are served in turn. Work that waits for a person holds
none.

The states of a slot, and its transitions:

========= ========================================= ==============================================
state     its work                                  next, and what moves it
========= ========================================= ==============================================
outside   has not begun, or is over                 waiting: ``async with``
waiting   waits for its turn                        held: ``_grant``; outside: its cancellation
held      runs                                      aside: ``step_aside``; outside: the end of
                                                    ``async with``, or of the last function that
                                                    ``call`` runs, whichever is later
aside     waits for a person; others have the slot  returning: the wait is over; outside: the end
returning waits for its turn, before new work of    held: ``_grant``; outside: the end
          its caller
========= ========================================= ==============================================

``step_aside`` changes nothing where too much work is aside already: a synchronous handler that
waits has a thread, though no slot. That limit is shared by the same rule.
"""

# The rules:
#
# 1. ``FairSlots.lock`` guards the states of all slots, the queues and the counters.
# 2. ``move`` alone changes a state, and counts it in the same step.
# 3. A slot is in the queue of its caller exactly while it is WAITING or RETURNING.
# 4. Whoever makes a slot free, or enqueues one, calls ``grant`` before the lock is released. So no
#    slot is free while work waits that may have it.
# 5. The work and its threads are users of one slot (``_users``). The last of them ends it, because
#    nobody can stop a thread.
# 6. A cancellation may arrive after ``grant``, and before the work goes on. New work returns the
#    slot then. Work that was aside keeps it until the end of ``async with``.

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import ParamSpec, TypeVar

from django_mcp.core.concurrency.forks import begin_anew

P = ParamSpec("P")
T = TypeVar("T")

MAX_ASIDE = 500
"""Pieces of work that can be aside at once: more questions than the users of one process answer,
and as many threads as a process can have."""


class State(Enum):
    """Where a slot is: see the table above."""

    OUTSIDE = auto()
    WAITING = auto()
    HELD = auto()
    ASIDE = auto()
    RETURNING = auto()


QUEUED = frozenset({State.WAITING, State.RETURNING})


class FairSlots:
    """``size`` slots for all event loops and threads of the process."""

    def __init__(self, size: float, *, max_aside: int = MAX_ASIDE) -> None:
        self._size = size
        self._max_aside = max_aside
        self._begin()
        begin_anew(self._begin)  # What runs, runs in the parent.

    def _begin(self) -> None:
        """Set the initial state: nothing runs."""
        self.lock = threading.Lock()
        self._queues: dict[Hashable, deque[Slot]] = {}
        """The callers with a slot that waits, in the order of service."""
        self._held: Counter[Hashable] = Counter()
        self._aside: Counter[Hashable] = Counter()

    def slot(self, caller: Hashable = None) -> Slot:
        """Return a slot for one piece of work of ``caller``; None has no limit but ``size``."""
        return Slot(self, caller)

    # For slots, which hold the lock.

    def enqueue(self, slot: Slot) -> None:
        queue = self._queues.setdefault(slot.caller, deque())
        if slot.state is State.RETURNING:
            queue.appendleft(slot)
        else:
            queue.append(slot)

    def withdraw(self, slot: Slot) -> None:
        queue = self._queues[slot.caller]
        queue.remove(slot)
        if not queue:
            del self._queues[slot.caller]

    def move(self, slot: Slot, state: State) -> None:
        """Change the state of a slot, and count it."""
        for counted, counter in ((State.HELD, self._held), (State.ASIDE, self._aside)):
            counter[slot.caller] += (state is counted) - (slot.state is counted)
            if not counter[slot.caller]:
                del counter[slot.caller]
        slot.state = state

    def may_step_aside(self, caller: Hashable) -> bool:
        return self._may_have(caller, self._aside, self._max_aside)

    def grant(self) -> None:
        """Give free slots to the work that waits."""
        while True:
            # The first of each caller, in the order of service.
            waiting = (queue[0] for queue in self._queues.values())
            served = (it for it in waiting if self._may_have(it.caller, self._held, self._size))
            slot = next(served, None)
            if slot is None:
                return
            queue = self._queues.pop(slot.caller)
            queue.popleft()
            if queue:
                self._queues[slot.caller] = queue  # Behind the queues of others.
            self.move(slot, State.HELD)
            if not slot.wake():  # Its event loop is closed.
                self.move(slot, State.OUTSIDE)

    @staticmethod
    def _may_have(caller: Hashable, counter: Counter[Hashable], most: float) -> bool:
        free = most - counter.total()
        return free > 0 and (caller is None or counter[caller] < free)


class Slot:
    """A slot for one piece of work, on one event loop: ``async with`` waits for it."""

    def __init__(self, slots: FairSlots, caller: Hashable) -> None:
        self.caller = caller
        self.state = State.OUTSIDE
        self._slots = slots
        self._users = 0
        """Those who need the slot: the coroutine within ``async with``, and its threads."""
        self._waits = 0
        """How many waits of the work are not over; it is aside meanwhile."""

    async def __aenter__(self) -> None:
        await self._take(State.WAITING)
        with self._slots.lock:
            self._users += 1

    async def __aexit__(self, *_: object) -> None:
        self._drop()

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` on a thread: the slot is held until it returns.

        Nobody can stop a thread, so whoever cancels work again and again has no more threads.
        """
        with self._slots.lock:
            self._users += 1
        try:
            return function(*args, **kwargs)
        finally:
            self._drop()

    @asynccontextmanager
    async def step_aside(self) -> AsyncIterator[None]:
        """Leave the slot to others within this context; wait for one at its end.

        Work that is cancelled meanwhile does not wait: it only cleans up.
        """
        self._waits += 1
        if self._waits == 1:
            with self._slots.lock:
                if self.state is State.HELD and self._slots.may_step_aside(self.caller):
                    self._slots.move(self, State.ASIDE)
                    self._slots.grant()
        try:
            yield
        except asyncio.CancelledError:
            self._waits -= 1
            raise
        except BaseException:
            await self._end_wait()
            raise
        await self._end_wait()

    async def _end_wait(self) -> None:
        self._waits -= 1
        if not self._waits and self.state is State.ASIDE:
            await self._take(State.RETURNING)

    async def _take(self, state: State) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn: asyncio.Future[None] = self._loop.create_future()
        with self._slots.lock:
            self._slots.move(self, state)
            self._slots.enqueue(self)
            self._slots.grant()
        try:
            await self._turn
        except asyncio.CancelledError:
            with self._slots.lock:
                if self.state in QUEUED:
                    self._slots.withdraw(self)
                    self._slots.move(self, State.OUTSIDE)
                elif state is State.WAITING:
                    self._end()
            raise

    def wake(self) -> bool:
        """Let the work go on; return False if its event loop is closed."""
        try:
            self._loop.call_soon_threadsafe(_set, self._turn)
        except RuntimeError:
            return False
        return True

    def _drop(self) -> None:
        with self._slots.lock:
            self._users -= 1
            if not self._users:
                self._end()

    def _end(self) -> None:
        self._slots.move(self, State.OUTSIDE)
        self._slots.grant()


def _set(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
