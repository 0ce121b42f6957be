"""The number of steps that the validation of one value may take."""

from __future__ import annotations

from contextvars import ContextVar

MAX_STEPS = 1_000_000
"""Some seconds. A value with as many parts as a message may have takes fewer, if its schema applies
a few keywords to each of them."""


class TooManySteps(Exception):
    """The validation of a value takes longer than it may."""


_left: ContextVar[list[int]] = ContextVar("django_mcp.steps")


def begin(count: int) -> None:
    """Allow ``count`` steps from now on, in this context."""
    _left.set([count])


def spend(count: int = 1) -> None:
    """Take steps; raises TooManySteps."""
    left = _left.get()
    left[0] -= count
    if left[0] < 0:
        raise TooManySteps
