"""Milliseconds from the start of the process to its first response."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from tests.benchmarks.answers import fetch
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.processes import starting, wait_for_connection
from tests.benchmarks.samples import Effort, Meter, Ready, Sample

STARTS = 4
"""At most this number per round."""


@contextmanager
def ready(contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Start it once, so that the byte code is cached."""
    _time_to_answer(contestant)
    starts = min(STARTS, effort.repeats)
    yield Ready(
        sample=lambda: Sample(value=median(_time_to_answer(contestant) for _ in range(starts)))
    )


METER = Meter(unit="ms", ready=ready)


def _time_to_answer(contestant: Contestant) -> float:
    began = time.perf_counter()
    with starting(contestant) as (served, failed):
        wait_for_connection(served.port, failed)
        fetch(served.port, contestant.path, contestant.call)
        return (time.perf_counter() - began) * 1000
