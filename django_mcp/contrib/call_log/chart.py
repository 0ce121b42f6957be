"""The chart of the dashboard: positions of bars, in the units of its SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django_mcp.contrib.call_log.dashboard import Counts

HEIGHT = 200
"""Of the bars, without the labels below them."""
WIDTH = 720
SMALL_HEIGHT = 96
SMALL_WIDTH = 560
LEFT = 56
"""For the labels of the axis."""
RIGHT = 16
"""For the half of the last label."""
BELOW = 28
"""For the labels of the days."""
BASELINE = 20
"""Of these labels, below the bars."""
LABELS = 10
"""Days that have a label, at most about so many."""
GAP = 0.15
"""Of the width of a day, on each side of its bar."""
WIDEST = 64
"""A bar, on a chart of few days."""
LOWEST = 2
"""The errors of a day: one error among thousands of calls is seen."""


class Bar(NamedTuple):
    """The calls of a day: errors stand on the others, which begin at ``top``."""

    day: date
    counts: Counts
    x: int
    width: int
    top: int
    height: int
    errors_top: int
    errors_height: int
    middle: int
    has_label: bool = False
    query: str = ""
    """The filters of the list that shows these calls."""


class Tick(NamedTuple):
    """A number at the axis."""

    number: int
    y: int


class Chart(NamedTuple):
    """The parts that the template draws."""

    bars: list[Bar]
    ticks: list[Tick]
    width: int
    height: int
    left: int = LEFT

    @property
    def full_height(self) -> int:
        return self.height + BELOW

    @property
    def labels_y(self) -> int:
        return self.height + BASELINE


class Scale(NamedTuple):
    """The height of the bars, and the number of calls that is as high."""

    height: int
    highest: int

    def y(self, number: int) -> int:
        return round(self.height - self.height * number / self.highest)


def chart(
    days: Sequence[tuple[date, Counts]],
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
    filters: Mapping[str, str] = {},
) -> Chart:
    """The chart of these days, oldest first; ``filters`` are those of the lists behind its bars."""
    scale = Scale(height, _rounded_up(max(counts.calls for _, counts in days)))
    step = (width - LEFT - RIGHT) / len(days)
    every = -(-len(days) // LABELS)
    bars = []
    for number, (day, counts) in enumerate(days):
        is_labelled = (len(days) - 1 - number) % every == 0
        bar = _bar(day, counts, LEFT + step * number, step, scale)
        of_day = {"day__gte": day.isoformat(), "day__lt": (day + timedelta(days=1)).isoformat()}
        query = urlencode({**filters, **of_day})
        bars.append(bar._replace(has_label=is_labelled, query=query))
    ticks = [Tick(number, scale.y(number)) for number in (0, scale.highest // 2, scale.highest)]
    return Chart(bars, ticks, width, height)


def small_chart(days: Sequence[tuple[date, Counts]], filters: Mapping[str, str]) -> Chart:
    """The chart of one component, beside other facts about it."""
    return chart(days, width=SMALL_WIDTH, height=SMALL_HEIGHT, filters=filters)


def _bar(day: date, counts: Counts, left: float, step: float, scale: Scale) -> Bar:
    gap = max(step * GAP, 1)
    width = min(round(step - 2 * gap), WIDEST)
    middle = round(left + step / 2)
    errors_height = max(scale.height - scale.y(counts.errors), LOWEST) if counts.errors else 0
    errors_top = min(scale.y(counts.calls), scale.height - errors_height)
    top = errors_top + errors_height
    return Bar(
        day=day,
        counts=counts,
        x=middle - width // 2,
        width=width,
        top=top,
        height=scale.height - top,
        errors_top=errors_top,
        errors_height=errors_height,
        middle=middle,
    )


def _rounded_up(number: int) -> int:
    """The next of 2, 4, 10, 20, 40, 100, and so on: half of it is whole."""
    power = 1
    while True:
        for factor in (2, 4, 10):
            if factor * power >= number:
                return factor * power
        power *= 10
