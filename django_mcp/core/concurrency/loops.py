"""Objects that exist once for each event loop, and timers on one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from os import register_at_fork
from typing import Any, Generic, TypeVar
from weakref import WeakSet, finalize, ref

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop


def running_loop() -> Loop | None:
    """The event loop that runs on this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class PerLoop(Generic[T]):
    """One object for each event loop, made at its first use. It ends with its loop.

    Objects are stored by the identity of their loop: a ``WeakKeyDictionary`` takes 0.5 µs more. A
    forked child begins without any object: the loops of its parent do not run there.
    """

    __slots__ = ("__weakref__", "_loops", "_make", "_objects")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._objects: dict[int, T] = {}
        self._loops: dict[int, ref[Loop]] = {}
        _registries.add(self)

    def here(self) -> T:
        """Return the object of the running loop."""
        return self.of(asyncio.get_running_loop())

    def of(self, loop: Loop) -> T:
        """Return the object of ``loop``, which is made unless there is one."""
        existing = self._objects.get(id(loop))
        return self._add(loop) if existing is None else existing

    def get(self, loop: Loop) -> T | None:
        """Return the object of ``loop``, if there is one."""
        return self._objects.get(id(loop))

    def items(self) -> list[tuple[Loop, T]]:
        """The loops that have an object, each with its object."""
        pairs = []
        # No collection can begin while the keys are listed. One that begins later may end loops,
        # whose objects are then gone.
        for identity in list(self._objects):
            existing = self._objects.get(identity)
            reference = self._loops.get(identity)
            loop = None if reference is None else reference()
            if loop is not None and existing is not None:
                pairs.append((loop, existing))
        return pairs

    def clear(self) -> None:
        self._loops.clear()
        self._objects.clear()

    def _add(self, loop: Loop) -> T:
        identity = id(loop)
        if identity not in self._loops:
            self._loops[identity] = ref(loop)
            finalize(loop, self._forget, identity).atexit = False
        return self._objects.setdefault(identity, self._make())

    def _forget(self, identity: int) -> None:
        self._loops.pop(identity, None)
        self._objects.pop(identity, None)


def _clear_all() -> None:
    for registry in tuple(_registries):
        registry.clear()


_registries: WeakSet[PerLoop[Any]] = WeakSet()
register_at_fork(after_in_child=_clear_all)


class LoopTimer:
    """Calls ``work`` with pauses in between, as long as the event loop runs that started it.

    ``pause`` returns the seconds until the next call: at random, so that workers which start
    together do not act together. ``context`` makes the context of each call. No task sleeps, so
    that an event loop ends without cancelling anything in between.
    """

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, object]],
        *,
        pause: Callable[[], float],
        context: Callable[[], Context],
    ) -> None:
        self._work = work
        self._pause = pause
        self._context = context
        self._loops: WeakSet[Loop] = WeakSet()
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        """Begin on the running event loop; a second call changes nothing."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops.add(loop)
            self._schedule(loop)

    def _schedule(self, loop: Loop) -> None:
        loop.call_later(self._pause(), self._begin, loop)

    def _begin(self, loop: Loop) -> None:
        task = loop.create_task(self._work(), context=self._context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(partial(self._continue, loop))

    def _continue(self, loop: Loop, _: asyncio.Task[object]) -> None:
        if not loop.is_closed():
            self._schedule(loop)
