"""What one request touches: functions, calls of them, and its time after its caches were evicted.

Without a server and without load: the counts are the same in each run and on each machine.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import environments
from tests.benchmarks.answers import Answer, MeasurementError, checked
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.processes import command, environment
from tests.benchmarks.samples import Effort, Meter, Ready, Sample

SCRIPT = Path(__file__).parent.parent / "in_process.py"
REPEATS = 25
"""Requests per sample, for each repetition of the effort."""


@contextmanager
def ready(what: str, contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Verify the response of the application; ``what`` names the number that is measured."""
    measured = _run(contestant, effort)
    answer = Answer.from_json(json.dumps(measured["answer"]).encode())
    checked(contestant.call, answer)

    def sample() -> Sample:
        numbers = _run(contestant, effort)
        return Sample(value=numbers[what], processor=numbers["warm"])

    yield Ready(sample=sample, answer=answer)


def _run(contestant: Contestant, effort: Effort) -> dict[str, Any]:
    """Measure the application in a process of its own."""
    call = contestant.call
    request = {"path": contestant.path, "headers": call.all_headers, "body": call.body.decode()}
    repeats = str(REPEATS * effort.repeats)
    with tempfile.TemporaryDirectory() as folder:
        # Without the folder of the script, whose modules another checkout has as well.
        done = subprocess.run(
            command(contestant, "-P", str(SCRIPT), contestant.application, repeats),
            cwd=contestant.checkout or environments.ROOT,
            env=environment(contestant, Path(folder)),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise MeasurementError(f"{contestant.label} failed:\n{done.stderr}")
    numbers: dict[str, Any] = json.loads(done.stdout)
    return numbers


EVICTED = Meter(unit="µs", ready=partial(ready, "evicted"))
FUNCTIONS = Meter(unit="functions", ready=partial(ready, "functions"))
CALLS = Meter(unit="function calls", ready=partial(ready, "calls"))
