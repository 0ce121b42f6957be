from __future__ import annotations

import os
from collections.abc import Callable

from django_mcp.core.concurrency import forks
from django_mcp.core.concurrency.forks import ProcessLock, begin_anew


class Child:
    def __init__(self) -> None:
        self.is_new = False

    def begin(self) -> None:
        self.is_new = True


def status_of_child(question: Callable[[], bool]) -> int:
    """The answer of a forked child, as its exit code."""
    pid = os.fork()
    if pid == 0:
        os._exit(question())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_object_begins_anew_in_a_forked_child_while_it_exists() -> None:
    child = Child()
    begin_anew(child.begin)
    begin_anew(Child().begin)

    assert status_of_child(lambda: child.is_new) == 1
    assert not child.is_new


def test_nothing_is_kept_of_an_object_that_is_gone() -> None:
    before = len(forks._methods)
    begin_anew(Child().begin)

    assert len(forks._methods) == before


def test_lock_that_is_held_is_free_in_a_forked_child() -> None:
    lock = ProcessLock()
    with lock:
        assert not lock.waits_until_free(0.001)
        assert status_of_child(lambda: lock.waits_until_free(0.001)) == 1
    assert lock.waits_until_free(0.001)
