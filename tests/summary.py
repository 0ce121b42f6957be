"""What the end of a test run says about failures that the machine causes, not the package."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tests.databases import SERVERS

TOO_MANY = "too many clients already"
BUSY = 2
"""The load average for each processor from which failures may be of the load."""


def after_internal_error(session: pytest.Session) -> None:
    """Print the failures of a run that an error of pytest ends: pytest prints none of them.

    Such an error follows when the process of some tests has lost its connection to the run.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.exitstatus == pytest.ExitCode.INTERNAL_ERROR and reporter is not None:
        reporter.summary_errors()
        reporter.summary_failures()
        reporter.short_test_summary()


def lines(failures: Iterable[str]) -> list[str]:
    """Sentences to print below the texts of failures."""
    texts = list(failures)
    if not texts:
        return []
    return [*_about_postgresql(texts), *_about_the_load()]


def _about_postgresql(texts: list[str]) -> list[str]:
    count = sum(TOO_MANY in text for text in texts)
    if not count:
        return []
    server = SERVERS["postgresql"]
    return [
        f"{count} failed because PostgreSQL at {server['HOST']}:{server['PORT']} has no connection "
        "left: others use it too. To start one for this run only: "
        ".venv/bin/python -m tests.services.shared scripts/test"
    ]


def _about_the_load() -> list[str]:
    load, processors = os.getloadavg()[1], os.cpu_count() or 1
    if load < BUSY * processors:
        return []
    return [
        f"The load average was {load:.0f} on {processors} processors. "
        "Run what failed again, alone, to see whether that is why."
    ]
