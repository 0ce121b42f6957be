"""Requests per second, measured by wrk on its own core: one request on all connections."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import machine
from tests.benchmarks.answers import MeasurementError, fetch
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.processes import Served, serving
from tests.benchmarks.samples import Effort, Meter, Ready, Sample

SCRIPT = Path(__file__).with_suffix(".lua")
MARK = "JSON "


@contextmanager
def ready(contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Start the contestant, verify its response, and warm it up."""
    with serving(contestant) as served, tempfile.NamedTemporaryFile() as request:
        call = contestant.call
        answer = fetch(served.port, contestant.path, call)
        lines = [f"{name}: {text}\n" for name, text in call.all_headers.items()]
        request.write("".join([*lines, "\n"]).encode() + call.body)
        request.flush()
        _wrk(served, request.name, effort, effort.warm_up)
        yield Ready(
            sample=lambda: _wrk(served, request.name, effort, effort.seconds), answer=answer
        )


def _wrk(served: Served, request: str, effort: Effort, seconds: float) -> Sample:
    # wrk counts whole seconds only; a shorter run is a smoke test.
    duration = f"{max(1, round(seconds))}s"
    connections = str(effort.connections)
    wrk = ("wrk", "--threads", "1", "--connections", connections, "--duration", duration)
    url = f"http://127.0.0.1:{served.port}{served.contestant.path}"
    before = machine.processor_seconds(served.pid)
    done = subprocess.run(
        machine.pinned(machine.LOAD_CORE, *wrk, "--script", SCRIPT, url),
        env={**os.environ, "BENCH_REQUEST": request},
        capture_output=True,
        text=True,
        check=True,
    )
    used = machine.processor_seconds(served.pid) - before
    found = json.loads(done.stdout.partition(MARK)[2])
    if found["errors"] or not found["requests"]:
        raise MeasurementError(f"{served.contestant.label} failed under load: {found}")
    return Sample(
        value=found["requests"] * 1e6 / found["microseconds"],
        p50=found["p50"] / 1000,
        p99=found["p99"] / 1000,
        processor=used * 1e6 / found["requests"],
    )


METER = Meter(unit="requests/s", ready=ready)
