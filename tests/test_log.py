"""Messages that may repeat: one line at once, and then their number."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from django_mcp.core import log
from django_mcp.core.log import RepeatedMessages
from tests.waiting import SECONDS


@pytest.fixture
def repeated() -> Iterator[RepeatedMessages]:
    repeated = RepeatedMessages()
    yield repeated
    repeated.forget()


def test_repeated_message_is_logged_once_and_then_counted(
    repeated: RepeatedMessages, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "django_mcp"):
        for number in range(18_313):
            repeated.log(logging.WARNING, "The store %s fails at 100%%", number)
        assert caplog.messages == ["The store 0 fails at 100%"]
        repeated.log_counts()
    assert caplog.messages[1:] == [
        "Repeated 18312 times within a minute: The store %s fails at 100%%"
    ]


def test_messages_that_differ_are_counted_separately(
    repeated: RepeatedMessages, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "django_mcp"):
        for _ in range(2):
            repeated.log(logging.WARNING, "The store fails")
            repeated.log(logging.ERROR, "The store fails")
            repeated.log(logging.WARNING, "The layer fails")
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "The store fails"),
        ("ERROR", "The store fails"),
        ("WARNING", "The layer fails"),
    ]


def test_message_after_a_minute_is_logged_again(
    repeated: RepeatedMessages,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with caplog.at_level(logging.INFO, "django_mcp"):
        for seconds in (0.0, 59.0, 61.0):
            now = seconds
            repeated.log(logging.WARNING, "fails")
            if seconds == 59.0:
                repeated.log_counts()
        assert caplog.messages == ["fails", "Repeated 1 times within a minute: fails"]
        now = 120.0
        repeated.log_counts()  # That at 61 s was a repetition of what was logged at 59 s.
        now = 181.0
        repeated.log(logging.WARNING, "fails")
    assert caplog.messages[2:] == ["Repeated 1 times within a minute: fails", "fails"]


def test_lasting_failure_is_counted_by_one_thread(
    repeated: RepeatedMessages, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "REPEAT_AFTER", 0.05)

    def counting() -> list[threading.Timer]:
        timers = [item for item in threading.enumerate() if isinstance(item, threading.Timer)]
        return [timer for timer in timers if timer.function == repeated.log_counts]

    with caplog.at_level(logging.INFO, "django_mcp"):
        for _ in range(1000):
            repeated.log(logging.WARNING, "fails")
            assert len(counting()) <= 1
        for timer in counting():
            timer.join(SECONDS)
    assert "Repeated" in caplog.messages[-1]


def test_number_of_failures_at_once_is_counted(
    repeated: RepeatedMessages, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "django_mcp"):
        repeated.log(logging.WARNING, "lost", times=7)
        repeated.log_counts()
    assert caplog.messages == ["lost", "Repeated 6 times within a minute: lost"]


def test_traceback_is_logged_with_the_first_message(
    repeated: RepeatedMessages, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        try:
            raise ConnectionError("away")
        except ConnectionError:
            repeated.log(logging.WARNING, "fails", exc_info=True)
    repeated.log_counts()
    assert caplog.text.count("ConnectionError: away") == 1
