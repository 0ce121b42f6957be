"""Runs the official conformance suite against the example site and compares with our lists.

extra_<set>.txt lists scenarios that the suite runs as optional, and that we require;
not_yet_<set>.txt lists those with known failures. One name per line; # starts a comment.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.running_site import ROOT, RunningSite, running_site

HERE = Path(__file__).resolve().parent
MODULES = ROOT / ".conformance" / "node_modules"
NODE = MODULES / ".bin" / "node"
PACKAGE = MODULES / "@modelcontextprotocol" / "conformance"
SUITE = PACKAGE / "dist" / "index.js"
REQUIREMENT_SETS = ("2025-11-25", "2026-07-28")
ENDPOINT = "/conformance"
MINUTES = 10

# (is it required, is it a known failure, does it pass): the outcome.
VERDICTS = {
    (True, False, True): "pass",
    (True, False, False): "FAIL",
    (True, True, True): "PASSES, BUT IS LISTED AS NOT YET",
    (True, True, False): "not yet",
    (False, False, True): "unscored, passes",
    (False, False, False): "unscored, fails",
    (False, True, True): "LISTED AS NOT YET, BUT NOT COUNTED",
    (False, True, False): "LISTED AS NOT YET, BUT NOT COUNTED",
}
GOOD = {"pass", "not yet", "unscored, passes", "unscored, fails"}


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


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    with running_site() as site:
        good = [_run_set(site, name, options) for name in options.sets or REQUIREMENT_SETS]
        if not all(good) and options.verbose:
            print("The site's log:\n", *site.log, sep="")
    return 0 if all(good) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    sets = " and ".join(REQUIREMENT_SETS)
    parser.add_argument("sets", nargs="*", metavar="requirement-set", help=f"default: {sets}")
    parser.add_argument("--only", metavar="SCENARIO", action="append", help="run no other")
    parser.add_argument("--verbose", action="store_true", help="print every message, and the log")
    return parser


def _run_set(site: RunningSite, name: str, options: argparse.Namespace) -> bool:
    """Run one requirement set, print a line per scenario, and return whether all match."""
    counted = _required(name) | _listed(f"extra_{name}.txt")
    not_yet = _listed(f"not_yet_{name}.txt")
    if options.only:
        outcomes = _run_singly(site, name, options.only)
        not_yet &= set(options.only)
    else:
        outcomes = _run_together(site, name, counted | not_yet)
    print(f"\n{name}")
    verdicts = [_report(outcome, counted, not_yet, options) for outcome in outcomes]
    counts = (f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())
    print(f"  {len(verdicts)} scenarios: {'; '.join(counts)}")
    return GOOD.issuperset(verdicts)


def _report(
    outcome: Outcome, counted: set[str], not_yet: set[str], options: argparse.Namespace
) -> str:
    scenario = outcome.scenario
    verdict = VERDICTS[scenario in counted, scenario in not_yet, outcome.passes]
    remark = f"  ({len(outcome.warnings)} warnings)" if outcome.warnings else ""
    print(f"  {verdict:<16}  {scenario}{remark}")
    if options.verbose or verdict == "FAIL":
        _explain(outcome, width=10_000 if options.verbose else 300)
    return verdict


def _explain(outcome: Outcome, *, width: int) -> None:
    # Skipped checks explain only a scenario that fails without a failed check.
    notes = () if outcome.failures else outcome.notes
    for message in (*outcome.failures, *outcome.warnings, *notes):
        print(f"{'':<22}{textwrap.shorten(message, width)}")


def _required(name: str) -> set[str]:
    """The server scenarios of a requirement set: the list under `server:` in the suite's file."""
    path = PACKAGE / "requirements" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
        raise SystemExit(f"The suite has no requirement set {name!r}; it has {known}.")
    listed = re.search(r"^server:\n((?:  - .+\n)+)", path.read_text(), re.MULTILINE)
    if listed is None:
        raise SystemExit(f"{path} has no list of server scenarios.")
    return set(re.findall(r"- (\S+)", listed[1]))


def _listed(filename: str) -> set[str]:
    path = HERE / filename
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.partition("#")[0].strip() for line in lines} - {""}


def _run_together(site: RunningSite, name: str, expected: set[str]) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        _suite(site, "--requirements", name, output=folder)
        outcomes = _read(Path(folder))
    missing = sorted(expected - {outcome.scenario for outcome in outcomes})
    return outcomes + _run_singly(site, name, missing)


def _run_singly(site: RunningSite, name: str, scenarios: Iterable[str]) -> list[Outcome]:
    outcomes = []
    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as folder:
            # An extension belongs to no revision, so it has to be forced.
            output = _suite(
                site, "--scenario", scenario, "--spec-version", name, "--force", output=folder
            )
            outcomes += _read(Path(folder)) or [_nothing(scenario, output)]
    return outcomes


def _suite(site: RunningSite, *options: str, output: str) -> str:
    """Run the suite's server tests. Its exit status is less precise than its result files."""
    command: list[str | Path] = [
        NODE,
        SUITE,
        "server",
        "--url",
        site.url(ENDPOINT),
        "--output-dir",
        output,
        *options,
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=MINUTES * 60
    )
    return done.stdout


def _read(folder: Path) -> list[Outcome]:
    """Read the results; each scenario has a folder named server-<scenario>-<time>."""
    paths = sorted(folder.glob("server-*/checks.json"), key=lambda path: path.stat().st_mtime_ns)
    return [_outcome(path) for path in paths]


def _outcome(path: Path) -> Outcome:
    named = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
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


def _nothing(scenario: str, output: str) -> Outcome:
    message = "the suite wrote no result; its output:\n" + output
    return Outcome(scenario=scenario, successes=0, failures=(message,), warnings=(), notes=())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
