"""Calls per second over stdin and stdout, in sequence."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import environments, machine
from tests.benchmarks.answers import MeasurementError
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.processes import command, end, environment
from tests.benchmarks.samples import Effort, Meter, Ready, Sample, percentile

BATCH = 20
"""Calls between two reads of the clock."""


@contextmanager
def ready(contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Start the contestant, verify its response, and warm it up."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command(contestant, *contestant.command),
            cwd=contestant.checkout or environments.ROOT,
            env=environment(contestant, Path(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            line = contestant.call.body + b"\n"
            answer = _ask(process, line)
            if not contestant.call.is_expected([json.loads(answer)]):
                raise MeasurementError(f"{contestant.label} answered {answer!r}")
            _run(process, line, effort.warm_up)
            yield Ready(sample=lambda: _run(process, line, effort.seconds))
        finally:
            end(process)


METER = Meter(unit="calls/s", ready=ready)


def _ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise MeasurementError("The server has exited")
    return answer


def _run(process: subprocess.Popen[bytes], line: bytes, seconds: float) -> Sample:
    durations: list[float] = []
    before_all = machine.processor_seconds(process.pid)
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        for _ in range(BATCH):
            before = time.perf_counter()
            _ask(process, line)
            durations.append(time.perf_counter() - before)
    lasted = time.perf_counter() - began
    used = machine.processor_seconds(process.pid) - before_all
    return Sample(
        value=len(durations) / lasted,
        p50=percentile(durations, 50) * 1000,
        p99=percentile(durations, 99) * 1000,
        processor=used * 1e6 / len(durations),
    )
