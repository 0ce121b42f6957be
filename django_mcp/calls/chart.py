"""The chart of the dashboard: positions of bars, in the units of its SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django_mcp.calls.dashboard import Counts

WIDTH = 720
HEIGHT = 200
"""Of the bars, without the labels below them."""
LEFT = 56
"""For the labels of the axis."""
RIGHT = 16
"""For the half of the last label."""
LABELS = 10
"""Days that have a label, at most about so many."""


class Bar(NamedTuple):
    """The calls of a day: errors stand on the others."""

    day: date
    counts: Counts
    x: int
    width: int
    top: int
    height: int
    errors_top: int
    errors_height: int
    middle: int
    has_label: bool
    query: str
    """The filters of the list that shows these calls."""


class Tick(NamedTuple):
    """A number at the axis."""

    number: int
    y: int


class Chart(NamedTuple):
    """What the template draws."""

    bars: list[Bar]
    ticks: list[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    full_height: int = HEIGHT + 28
    labels_y: int = HEIGHT + 20


def chart(days: Sequence[tuple[date, Counts]]) -> Chart:
    """The chart of these days, oldest first."""
    highest = _rounded_up(max(counts.calls for _, counts in days))
    step = (WIDTH - LEFT - RIGHT) / len(days)
    every = -(-len(days) // LABELS)
    bars = []
    for number, (day, counts) in enumerate(days):
        is_labelled = (len(days) - 1 - number) % every == 0
        bars.append(_bar(day, counts, LEFT + step * number, step, highest, is_labelled))
    ticks = [Tick(number, _y(number, highest)) for number in (0, highest // 2, highest)]
    return Chart(bars, ticks)


def _bar(
    day: date, counts: Counts, left: float, step: float, highest: int, is_labelled: bool
) -> Bar:
    gap = max(step * 0.15, 1)
    width = min(round(step - 2 * gap), 64)
    middle = round(left + step / 2)
    top = _y(counts.calls, highest)
    # One error among thousands of calls is seen.
    errors_height = max(HEIGHT - _y(counts.errors, highest), 2) if counts.errors else 0
    top = min(top, HEIGHT - errors_height)
    errors_end = top + errors_height
    filters = {"day__gte": day.isoformat(), "day__lt": (day + timedelta(days=1)).isoformat()}
    return Bar(
        day,
        counts,
        middle - width // 2,
        width,
        errors_end,
        HEIGHT - errors_end,
        top,
        errors_height,
        middle,
        is_labelled,
        urlencode(filters),
    )


def _y(number: int, highest: int) -> int:
    return round(HEIGHT - HEIGHT * number / highest)


def _rounded_up(number: int) -> int:
    """The next of 2, 4, 10, 20, 40, 100, and so on: half of it is whole."""
    power = 1
    while True:
        for factor in (2, 4, 10):
            if factor * power >= number:
                return factor * power
        power *= 10
