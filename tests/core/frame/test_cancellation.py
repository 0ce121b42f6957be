"""The cancellation object: checked, awaited, or with a callback."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from django_mcp.core.frame.cancellation import Cancellation
from django_mcp.core.protocol.errors import Cancelled
from tests.waiting import SECONDS


def test_new_cancellation_is_not_requested() -> None:
    cancellation = Cancellation()

    cancellation.raise_if_requested()

    assert (cancellation.requested, cancellation.reason) == (False, None)
    assert cancellation.wait(0) is False


def test_second_request_keeps_the_first_reason() -> None:
    cancellation = Cancellation()
    cancellation.request("too slow")
    cancellation.request("another reason")

    assert (cancellation.requested, cancellation.reason) == (True, "too slow")
    with pytest.raises(Cancelled):
        cancellation.raise_if_requested()


def test_cancellation_callbacks_are_called_once_in_order() -> None:
    cancellation = Cancellation()
    called: list[str] = []
    cancellation.on_request(lambda: called.append("first"))
    cancellation.on_request(lambda: called.append("second"))

    cancellation.request()
    cancellation.request()

    assert called == ["first", "second"]


def test_callback_added_after_the_request_is_called_immediately() -> None:
    cancellation = Cancellation()
    cancellation.request()
    called: list[int] = []

    cancellation.on_request(lambda: called.append(1))

    assert called == [1]


def test_removed_callback_is_not_called() -> None:
    cancellation = Cancellation()
    called: list[int] = []
    remove = cancellation.on_request(lambda: called.append(1))

    remove()
    remove()
    cancellation.request()

    assert called == []


def test_failing_callback_is_logged_and_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cancellation = Cancellation()
    called: list[int] = []
    cancellation.on_request(lambda: 1 / 0)
    cancellation.on_request(lambda: called.append(1))

    with caplog.at_level(logging.ERROR, "django_mcp"):
        cancellation.request()

    assert called == [1]
    assert "ZeroDivisionError" in caplog.text


def test_wait_in_a_thread_returns_when_cancellation_is_requested() -> None:
    cancellation = Cancellation()
    started = threading.Event()
    returned: list[bool] = []

    def wait() -> None:
        started.set()
        returned.append(cancellation.wait(SECONDS))

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(SECONDS)
    cancellation.request()
    thread.join(SECONDS)

    assert returned == [True]
    assert cancellation.wait(0) is True


async def test_await_request_returns_when_another_thread_requests() -> None:
    cancellation = Cancellation()
    waiting = asyncio.ensure_future(cancellation.await_request())
    await asyncio.sleep(0)

    await asyncio.to_thread(cancellation.request)

    assert await asyncio.wait_for(waiting, SECONDS) is True
    assert await cancellation.await_request() is True


async def test_await_request_returns_false_after_its_timeout() -> None:
    assert await Cancellation().await_request(0) is False
