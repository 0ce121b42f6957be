"""Runs of tests end, whatever a test does, and nothing that they start outlives them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import summary
from tests.processes import ROOT
from tests.waiting import SECONDS, wait_until

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONFTEST = """
import signal
from tests import scheduling, summary
from tests.supervisor import supervise

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        # A program that nohup has started ignores it, and so do those that it starts.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        supervise()

def pytest_sessionfinish(session):
    summary.after_internal_error(session)

def pytest_xdist_make_scheduler(config, log):
    return scheduling.Groups(config, log)
"""
DIES = """
def test_dies():
    import os
    os._exit(3)
"""
FAILS = """
def test_fails():
    found = ["what was found"]
    assert found == []

def test_breaks():
    pass
"""
WAITS = """
def test_waits():
    import time
    time.sleep(3600)
"""
DEAF = """
def test_cannot_be_interrupted():
    import signal, time
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(3600)
"""
STARTS = '''
import os, subprocess, sys, time
from pathlib import Path

SERVER = [sys.executable, "-c", "import time; time.sleep(3600)"]
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
DAEMON = """
import subprocess, sys
print(subprocess.Popen(sys.argv[1:], stdout=2, start_new_session=True).pid)
"""

def test_starts():
    server = subprocess.Popen(SERVER, start_new_session=True)
    start = [sys.executable, "-c", DAEMON, *WORDS]
    daemon = subprocess.run(start, stdout=subprocess.PIPE, check=True)
    written = Path(__file__).with_suffix(".writing")
    written.write_text(f"{server.pid} {int(daemon.stdout)}")
    written.rename(Path(__file__).with_suffix(".pids"))
    END
'''
"""A test that starts a process in a session of its own, as servers are, and an orphan."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a small run has its tests, with our scheduler. What it leaves is ended."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    configure(tmp_path)
    yield tmp_path
    for pid in started(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def configure(folder: Path, **changed: float) -> None:
    """Write the configuration of a run: ours of times and limits, with changes."""
    ours: Mapping[str, Any] = PROJECT["tool"]["pytest"]["ini_options"]
    limits = {key: value for key, value in ours.items() if "timeout" in key} | changed
    lines = [f"{key} = {value}" for key, value in limits.items()]
    (folder / "pytest.ini").write_text("\n".join(["[pytest]", *lines, ""]))


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / "tests" / f"test_{name}.py").write_text(text)


def starting(end: str, daemon: str = "SERVER") -> str:
    return STARTS.replace("WORDS", daemon).replace("END", end)


def passing(count: int) -> str:
    return "".join(f"def test_{number}(): pass\n" for number in range(count))


def begin(folder: Path, *, processes: int = 2) -> subprocess.Popen[str]:
    plugins = ("randomly", "django", "asyncio", "cacheprovider", "hypothesispytest")
    own = [word for name in plugins for word in ("-p", f"no:{name}")]
    distribution = ["-n", str(processes), "--dist", "loadscope", "--no-loadscope-reorder"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *own, *distribution, "-c", str(folder / "pytest.ini")],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def output_of(run: subprocess.Popen[str]) -> str:
    """What a run writes until its end."""
    with run:
        try:
            return run.communicate(timeout=SECONDS)[0]
        finally:
            run.kill()


def outcomes(output: str) -> dict[str, int]:
    """How many tests passed and failed, of the last line."""
    last = output.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}


def started(folder: Path) -> list[int]:
    """The ids of the processes that a test has started."""
    return [int(pid) for file in folder.glob("tests/*.pids") for pid in file.read_text().split()]


def are_running(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_run_goes_on_after_processes_have_ended_within_tests(folder: Path) -> None:
    """The last groups are run by processes that replace them, also one which has a single test."""
    write(
        folder, a=passing(3) + DIES + "def test_last(): pass\n", b=DIES + passing(1), c=passing(4)
    )

    output = output_of(begin(folder))

    assert outcomes(output) == {"failed": 2, "passed": 9}
    assert "crashed while running 'tests/test_a.py::test_dies'" in output


def test_run_ends_after_a_process_has_ended_in_the_last_test(folder: Path) -> None:
    write(folder, a=passing(2), b=passing(2) + DIES)

    assert outcomes(output_of(begin(folder))) == {"failed": 1, "passed": 4}


@pytest.mark.parametrize("processes", [0, 2])
def test_test_over_its_limit_fails_with_a_traceback_and_the_run_goes_on(
    folder: Path, processes: int
) -> None:
    configure(folder, timeout=1)
    write(folder, a=passing(1) + WAITS + "def test_last(): pass\n", b=passing(2))

    output = output_of(begin(folder, processes=processes))

    assert outcomes(output) == {"failed": 1, "passed": 4}
    assert re.search(r"> +time.sleep\(3600\)\nE +Failed: Timeout", output)


def test_run_goes_on_after_a_test_that_cannot_be_interrupted(folder: Path) -> None:
    configure(folder, timeout=1, faulthandler_timeout=2)
    write(folder, a=passing(1) + DEAF + "def test_last(): pass\n", b=passing(2))

    output = output_of(begin(folder))

    assert outcomes(output) == {"failed": 1, "passed": 4}
    assert "crashed while running 'tests/test_a.py::test_cannot_be_interrupted'" in output


def test_failures_before_an_error_of_pytest_are_printed(folder: Path) -> None:
    broken = "def pytest_runtest_logfinish(nodeid):\n    assert 'breaks' not in nodeid\n"
    (folder / "tests" / "conftest.py").write_text(f"{CONFTEST}\n{broken}")
    write(folder, fails=FAILS)
    run = begin(folder)
    output = output_of(run)

    assert run.returncode == pytest.ExitCode.INTERNAL_ERROR
    assert "FAILED tests/test_fails.py::test_fails - AssertionError" in output
    assert "['what was found'] == []" in output


def test_limit_of_a_test_is_longer_than_that_of_what_it_waits_for() -> None:
    options = PROJECT["tool"]["pytest"]["ini_options"]

    assert SECONDS < options["timeout"] < options["faulthandler_timeout"]


@pytest.mark.parametrize(
    ("number", "processes"), [(signal.SIGINT, 2), (signal.SIGTERM, 0), (signal.SIGHUP, 0)]
)
def test_nothing_is_left_of_a_run_that_a_signal_ends(
    folder: Path, number: signal.Signals, processes: int
) -> None:
    write(folder, a=starting("time.sleep(3600)"), b=passing(2))
    run = begin(folder, processes=processes)
    pids = wait_until(lambda: started(folder), "the test has started processes")

    run.send_signal(number)

    assert "KeyboardInterrupt" in output_of(run)
    assert are_running(pids) == []


@pytest.mark.parametrize(
    ("end", "processes"), [("pass", 0), ("os._exit(3)", 2), ("os.kill(os.getpid(), 9)", 0)]
)
def test_nothing_is_left_of_a_run_that_ends_by_itself(
    folder: Path, end: str, processes: int
) -> None:
    write(folder, a=starting(end, daemon="DEAF"), b=passing(2))

    output_of(begin(folder, processes=processes))

    pids = started(folder)
    assert len(pids) == 2
    assert are_running(pids) == []


def test_run_is_interrupted_when_its_supervisor_is_killed(folder: Path) -> None:
    write(folder, a=WAITS.replace("time.sleep", "open('begun', 'w').close(); time.sleep"))
    run = begin(folder, processes=0)
    wait_until((folder / "begun").exists)

    run.send_signal(signal.SIGKILL)

    assert "KeyboardInterrupt" in output_of(run)


def test_failures_for_want_of_a_connection_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    full = "OperationalError: FATAL:  sorry, too many clients already"

    (sentence,) = summary.lines([full, "AssertionError", full])

    assert sentence.startswith("2 failed because PostgreSQL at ")
    assert "python -m tests.services.shared scripts/test" in sentence
    assert summary.lines(["AssertionError"]) == []


def test_load_is_named_below_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (50.0, 40.0, 30.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    (sentence,) = summary.lines(["AssertionError"])

    assert sentence.startswith("The load average was 40 on 2 processors.")
    assert summary.lines([]) == []


def test_nightly_run_skips_no_client_that_runs_in_node() -> None:
    """A client without its environment fails there: the steps set CLIENTS_REQUIRED."""
    folders = {path.parent.name for path in ROOT.glob("tests/clients/*/package-lock.json")}
    script = (ROOT / "scripts" / "clients-env").read_text()
    created = re.findall(r"^modules (\w+) tests/clients/\1$", script, re.MULTILINE)
    nightly = (ROOT / ".ci" / "nightly").read_text()
    before, every_client, after = nightly.partition('phase "clients" scripts/clients-env\n')

    assert {*created} == folders
    assert every_client
    assert "scripts/test" not in before
    assert "scripts/test --all" in after
    required = re.search(r"^export .*\bCLIENTS_REQUIRED=1", STEPS.read_text(), re.MULTILINE)
    assert required is not None


STEPS = ROOT / ".ci" / "_steps"
