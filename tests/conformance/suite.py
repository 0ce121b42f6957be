"""The official suite as a program: where it is installed, and what its result files say."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import ROOT

MODULES = ROOT / ".conformance" / "node_modules"
NODE = MODULES / ".bin" / "node"
PACKAGE = MODULES / "@modelcontextprotocol" / "conformance"
SUITE = PACKAGE / "dist" / "index.js"
MINUTES = 10
RESULT = re.compile(r"(?:authorization-server|server)-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The suite's result of one scenario."""

    scenario: str
    successes: int
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def passes(self) -> bool:
        # A scenario that skipped all its checks has verified nothing.
        return not self.failures and self.successes > 0


def run(*arguments: str, on_line: Callable[[str], object] | None = None) -> str:
    """Run a command of the suite and return its output, of which ``on_line`` is given each line.

    Its exit status is less precise than its result files.
    """
    command: list[str | Path] = ["timeout", str(MINUTES * 60), NODE, SUITE, *arguments]
    lines = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdout is not None
        try:
            for line in program.stdout:
                lines.append(line)
                if on_line is not None:
                    on_line(line)
        except BaseException:
            program.terminate()  # It waits for minutes for what does not come.
            raise
    return "".join(lines)


def read(folder: Path) -> list[Outcome]:
    """Read the results; each scenario has a folder named after what is tested, it and the time."""
    paths = sorted(folder.glob("*/checks.json"), key=lambda path: path.stat().st_mtime_ns)
    return [_outcome(path) for path in paths]


def _outcome(path: Path) -> Outcome:
    named = RESULT.fullmatch(path.parent.name)
    checks: list[Mapping[str, Any]] = json.loads(path.read_text())
    return Outcome(
        scenario=named[1] if named else path.parent.name,
        successes=sum(check["status"] == "SUCCESS" for check in checks),
        failures=_messages(checks, "FAILURE"),
        warnings=_messages(checks, "WARNING"),
        notes=_messages(checks, "INFO", "SKIPPED"),
    )


def _messages(checks: Iterable[Mapping[str, Any]], *statuses: str) -> tuple[str, ...]:
    return tuple(
        f"{check['id']}: {_message(check)}" for check in checks if check["status"] in statuses
    )


def _message(check: Mapping[str, Any]) -> str:
    details = check.get("details") or {}
    return str(check.get("errorMessage") or details.get("message") or check.get("description"))


def nothing(scenario: str, output: str) -> Outcome:
    """The outcome of a scenario for which the suite wrote no result."""
    message = "the suite wrote no result; its output:\n" + output
    return Outcome(scenario=scenario, successes=0, failures=(message,), warnings=(), notes=())
