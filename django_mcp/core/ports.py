"""Ports: what a layer uses, and a layer above it, or an app, fills when it is ready."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_EMPTY: Any = object()


class EmptyPort(RuntimeError):
    """A port was used before it was filled; the message says what fills it."""


class Port(Generic[T]):
    """A place for one value, with its type."""

    __slots__ = ("_default", "_filled_by", "_purpose", "_value")

    def __init__(self, purpose: str, *, filled_by: str = "django_mcp", default: T = _EMPTY) -> None:
        """``purpose`` and the app are for the error of ``get``, which ``default`` prevents."""
        self._purpose = purpose
        self._filled_by = filled_by
        self._default: T = default
        self._value: T = default

    def fill(self, value: T) -> None:
        """Use ``value`` from now on."""
        self._value = value

    @contextmanager
    def replaced(self, value: T) -> Iterator[None]:
        """Use another value in the block: for tests."""
        before = self._value
        self._value = value
        try:
            yield
        finally:
            self._value = before

    def get(self) -> T:
        """Return the value; raises EmptyPort, which names the app that fills the port."""
        if self._value is _EMPTY:
            raise EmptyPort(
                f"Nothing {self._purpose}: {self._filled_by!r} does it, once it is in "
                "INSTALLED_APPS and django.setup() was called"
            )
        return self._value
