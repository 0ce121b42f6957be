"""Samples, their statistics, and the comparison of two alternately measured contestants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.answers import Answer
from tests.benchmarks.contestants import Contestant


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The result of one round: a number in the unit of the meter, and durations."""

    value: float
    p50: float | None = None
    """Milliseconds."""
    p99: float | None = None
    processor: float | None = None
    """Microseconds of CPU time per request. Other processes affect this number least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The extent of a measurement."""

    samples: int = 5
    """Per contestant, one in each round."""
    seconds: float = 4.0
    """Seconds of load per round."""
    warm_up: float = 1.0
    connections: int = 16
    streams: int = 500
    repeats: int = 20
    """Repetitions per round of what takes a moment."""


QUICK = Effort(samples=1, seconds=0.3, warm_up=0.1, streams=20, repeats=2)
"""A smoke test; the numbers are meaningless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A running contestant, whose response was verified."""

    sample: Callable[[], Sample]
    answer: Answer | None = None
    """The response for the bare application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A kind of measurement; `ready` runs the contestant within the block."""

    unit: str
    ready: Callable[[Contestant, Effort], AbstractContextManager[Ready]]


Ratio = Callable[[Sample, Sample], float]


def value(subject: Sample, other: Sample) -> float:
    """The ratio of the numbers: speed, time or memory."""
    return subject.value / other.value


def cost(subject: Sample, other: Sample) -> float:
    """The ratio of the durations, where the number is a speed."""
    return other.value / subject.value


def processor(subject: Sample, other: Sample) -> float:
    """The ratio of the processor time."""
    assert subject.processor is not None
    assert other.processor is not None
    return subject.processor / other.processor


def tail(subject: Sample, other: Sample) -> float:
    """The ratio of the durations at the 99th percentile."""
    assert subject.p99 is not None
    assert other.p99 is not None
    return subject.p99 / other.p99


def spread(subject: Sample, other: Sample) -> float:
    """The 99th percentile as a multiple of the other's median: of a contestant and itself."""
    assert subject.p99 is not None
    assert other.p50 is not None
    return subject.p99 / other.p50


def ratio(of: Ratio, subject: Sequence[Sample], other: Sequence[Sample]) -> float:
    """The median of the ratios of all rounds, in each of which both were measured."""
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
    """The duration at a percentile."""
    ordered = sorted(durations)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _median(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return median(known) if known else None
