"""The context manager of NetBox, with the same interface: signals find the request meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

current_request: ContextVar[Any] = ContextVar("current_request", default=None)


@contextmanager
def event_tracking(request: Any) -> Iterator[None]:
    current_request.set(request)
    yield
    current_request.set(None)
