"""Which tests pytest-xdist runs in one process, and with which it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadScopeScheduling

FIRST: Sequence[str] = (
    "services",
    "clients",
    "browser",
    "postgresql",
    "mysql",
    # They start many processes; at the end of a run, the other processes would wait for them.
    "tests/first_steps/test_steps.py",
    "tests/tasks/test_celery.py",
    "tests/tasks/test_processes.py",
)
"""Groups which take long, the longest first; the others come in random order."""
FOLDERS = {
    # They share servers and workers, which they kill.
    "services",
    # They share what is costly to start: a site with each client, and a browser.
    "clients",
    "browser",
}
"""Folders whose tests run in one process; elsewhere those of one file do."""
ENOUGH = 2
"""How many tests a process has at least while there are further ones."""
DATABASES = ("postgresql", "mysql")
"""Such a server creates one database at a time. The tests have a parameter of this name."""


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole groups to processes.

    Marks of --dist loadgroup have no effect with pytest 9.2 (pytest-xdist, issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """The test in which a process has crashed, whose other tests go to other processes.

        The test counts as run. What pytest-xdist does runs it again, and gives out groups without
        tests: a process which gets one waits for ever.
        """
        groups = self.assigned_work.pop(node)
        waiting = [
            test for tests in groups.values() for test, is_run in tests.items() if not is_run
        ]
        if not waiting:
            return None
        crashed = str(waiting[0])
        for group, tests in groups.items():
            left = {test: False for test, is_run in tests.items() if not is_run and test != crashed}
            if left:
                self.workqueue[group] = left
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Give a process so many groups that it never waits for the next one.

        It begins with a test when it knows the next one, or that there is none.
        """
        if node.shutting_down or node not in self.registered_collections:
            return
        while self.workqueue and self._pending(node) <= ENOUGH:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """End the run if a process that replaces another one has other tests: it would wait."""
        super().add_node_collection(node, collection)
        if node not in self.registered_collections:
            raise RuntimeError(
                f"{node.gateway.id} has collected other tests than the processes before"
            )

    def _pending(self, node: Any) -> int:
        return int(self._pending_of(self.assigned_work[node]))


def group_of(nodeid: str) -> str:
    """The group of a test: that of its database or its folder, or else its file."""
    path, _, name = nodeid.partition("::")
    _, _, parameters = name.partition("[")
    for kind in DATABASES:
        if kind in parameters.rstrip("]").split("-"):
            return kind
    folder = path.split("/")[1]
    return folder if folder in FOLDERS else path


def rank(nodeid: str) -> int:
    """The place of a test's group in the order of a run."""
    group = group_of(nodeid)
    return FIRST.index(group) if group in FIRST else len(FIRST)
