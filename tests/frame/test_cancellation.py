"""The seeds' stop token: asked, waited for, or told."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from django_mcp.cancellation import Cancellation
from django_mcp.protocol.errors import Cancelled


def test_it_is_not_requested_at_first() -> None:
    cancellation = Cancellation()

    cancellation.raise_if_requested()

    assert (cancellation.requested, cancellation.reason) == (False, None)
    assert cancellation.wait(0) is False


def test_it_is_requested_once_and_keeps_the_first_reason() -> None:
    cancellation = Cancellation()
    cancellation.request("too slow")
    cancellation.request("another reason")

    assert (cancellation.requested, cancellation.reason) == (True, "too slow")
    with pytest.raises(Cancelled):
        cancellation.raise_if_requested()


def test_callbacks_are_called_once_each() -> None:
    cancellation = Cancellation()
    called: list[str] = []
    cancellation.on_request(lambda: called.append("first"))
    cancellation.on_request(lambda: called.append("second"))

    cancellation.request()
    cancellation.request()

    assert called == ["first", "second"]


def test_a_callback_which_comes_late_is_called_at_once() -> None:
    cancellation = Cancellation()
    cancellation.request()
    called: list[int] = []

    cancellation.on_request(lambda: called.append(1))

    assert called == [1]


def test_a_callback_can_be_taken_back() -> None:
    cancellation = Cancellation()
    called: list[int] = []
    take_back = cancellation.on_request(lambda: called.append(1))

    take_back()
    take_back()
    cancellation.request()

    assert called == []


def test_a_callback_which_fails_keeps_no_other_from_being_called(
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


def test_a_thread_waits_for_it() -> None:
    cancellation = Cancellation()
    waits = threading.Event()
    heard: list[bool] = []

    def wait() -> None:
        waits.set()
        heard.append(cancellation.wait(10))

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait(10)
    cancellation.request()
    thread.join(10)

    assert heard == [True]
    assert cancellation.wait(0) is True


async def test_a_task_waits_for_it_whichever_thread_requests() -> None:
    cancellation = Cancellation()
    waiting = asyncio.ensure_future(cancellation.await_request())
    await asyncio.sleep(0)

    await asyncio.to_thread(cancellation.request)

    assert await asyncio.wait_for(waiting, 10) is True
    assert await cancellation.await_request() is True


async def test_a_task_waits_no_longer_than_it_wants() -> None:
    assert await Cancellation().await_request(0) is False
