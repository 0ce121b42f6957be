"""Objects that a forked child begins anew, since the threads of its parent do not run there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from os import register_at_fork
from threading import Lock
from weakref import WeakMethod

_methods: dict[int, WeakMethod[Callable[[], object]]] = {}
"""The methods to call, in the order of their registration, while their objects exist."""
_numbers = count()


def begin_anew(method: Callable[[], object]) -> None:
    """Call a bound method in each child that is forked while the object of the method exists."""
    number = next(_numbers)
    _methods[number] = WeakMethod(method, lambda _: _methods.pop(number, None))


def _begin_all() -> None:
    for reference in tuple(_methods.values()):
        bound = reference()
        if bound is not None:
            bound()


register_at_fork(after_in_child=_begin_all)


class ProcessLock:
    """A lock that is free in a forked child, even if a thread of the parent held it."""

    def __init__(self) -> None:
        self._begin()
        begin_anew(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()

    def waits_until_free(self, timeout: float) -> bool:
        """Wait for a thread that holds it; whether it is free within ``timeout`` seconds."""
        is_free = self._lock.acquire(timeout=timeout)
        if is_free:
            self._lock.release()
        return is_free
