"""Exceptions that control Python itself."""

from __future__ import annotations


class Stopped(BaseException):
    """As libraries define it for what no ``except Exception`` should catch."""


CONTROL = [
    StopIteration,
    StopAsyncIteration,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    Stopped,
]
