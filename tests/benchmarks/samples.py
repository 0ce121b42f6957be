"""One measurement, many of them, and what is said of two who were measured in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.answers import Answer
from tests.benchmarks.contestants import Contestant


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one round showed: a number in the unit of its meter, and how long one thing took."""

    value: float
    p50: float | None = None
    """Milliseconds."""
    p99: float | None = None
    processor: float | None = None
    """Microseconds of the processor which one thing took. Others who use it disturb this least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much work is put into measuring."""

    rounds: int = 5
    seconds: float = 4.0
    """Of load in one round."""
    warm_up: float = 1.0
    connections: int = 16
    streams: int = 500
    repeats: int = 20
    """Of what takes a moment only, in one round."""


QUICK = Effort(rounds=1, seconds=0.3, warm_up=0.1, streams=20, repeats=2)
"""Enough to see that everything runs; the numbers mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A contestant which has shown that it does the work, and waits for its rounds."""

    sample: Callable[[], Sample]
    answer: Answer | None = None
    """What the bare application is to repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A way of measuring; within `ready` the contestant is there to be measured."""

    unit: str
    ready: Callable[[Contestant, Effort], AbstractContextManager[Ready]]


Ratio = Callable[[Sample, Sample], float]


def value(subject: Sample, other: Sample) -> float:
    """How many times the other's number it is: its speed, time or memory."""
    return subject.value / other.value


def cost(subject: Sample, other: Sample) -> float:
    """How many times as long it takes, where the number is a speed."""
    return other.value / subject.value


def tail(subject: Sample, other: Sample) -> float:
    """How many times as long the slowest of a hundred take."""
    assert subject.p99 is not None
    assert other.p99 is not None
    return subject.p99 / other.p99


def ratio(of: Ratio, subject: Sequence[Sample], other: Sequence[Sample]) -> float:
    """The median over the rounds, in each of which both were measured one after the other."""
    return median(of(mine, theirs) for mine, theirs in zip(subject, other, strict=True))


def middle(samples: Sequence[Sample]) -> Sample:
    """The medians of the numbers."""
    return Sample(
        value=median(sample.value for sample in samples),
        p50=_median([sample.p50 for sample in samples]),
        p99=_median([sample.p99 for sample in samples]),
        processor=_median([sample.processor for sample in samples]),
    )


def percentile(durations: Sequence[float], percent: float) -> float:
    """The duration which so many percent do not exceed."""
    ordered = sorted(durations)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _median(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return median(known) if known else None
