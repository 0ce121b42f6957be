"""The handlers of the signals to stop, whoever has set them, and in whatever order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from django_mcp.runtime.process.stop_signals import StopSignals


class Handlers:
    """Handlers of SIGTERM, each of which stores its name."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def set(self, name: str, *, calls_former: bool = False) -> None:
        former = signal.getsignal(signal.SIGTERM)

        def handler(number: int, frame: FrameType | None) -> None:
            self.called.append(name)
            if calls_former:
                assert callable(former)
                former(number, frame)

        signal.signal(signal.SIGTERM, handler)

    def receive(self) -> list[str]:
        """Return the handlers that a signal reaches."""
        self.called.clear()
        signal.raise_signal(signal.SIGTERM)
        return self.called


@pytest.fixture
def handlers() -> Iterator[Handlers]:
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Handlers()
    for number, handler in former.items():
        signal.signal(number, handler)


def test_handler_that_calls_ours_is_called_once_as_is_the_one_before(handlers: Handlers) -> None:
    """gunicorn's hook ``post_worker_init`` comes between ``mount()`` and the first request."""
    signals = StopSignals()
    handlers.set("server")
    signals.handle()
    handlers.set("hook", calls_former=True)
    signals.handle()
    assert handlers.receive() == ["hook", "server"]
    handlers.set("second hook", calls_former=True)
    signals.handle()
    assert handlers.receive() == ["second hook", "hook", "server"]


def test_handler_that_replaces_another_is_called_alone(handlers: Handlers) -> None:
    signals = StopSignals()
    handlers.set("server")
    signals.handle()
    handlers.set("replacement")
    signals.handle()
    assert handlers.receive() == ["replacement"]


def test_handler_that_was_restored_is_not_handled_twice(handlers: Handlers) -> None:
    signals = StopSignals()
    handlers.set("server")
    signals.handle()
    ours = signal.getsignal(signal.SIGTERM)
    handlers.set("for a while", calls_former=True)
    signals.handle()
    signal.signal(signal.SIGTERM, ours)
    signals.handle()
    assert signal.getsignal(signal.SIGTERM) is ours
    assert handlers.receive() == ["server"]
