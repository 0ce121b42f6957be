"""Which tests pytest-xdist runs in one process, and with which it begins."""

from __future__ import annotations

from collections.abc import Sequence

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
DATABASES = ("postgresql", "mysql")
"""Such a server creates one database at a time. The tests have a parameter of this name."""


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole groups to processes.

    Marks of --dist loadgroup have no effect with pytest 9.2 (pytest-xdist, issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


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
