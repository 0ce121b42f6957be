"""Run benchmark cases, all or the named ones: scripts/bench [options] [case ...]"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.benchmarks import environments, machine, report
from tests.benchmarks.answers import MeasurementError
from tests.benchmarks.cases import BY_NAME, CASES, Case
from tests.benchmarks.measuring import Outcome, measure
from tests.benchmarks.samples import QUICK, Effort


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the report; return 1 if a contestant returned a wrong result."""
    options = _options().parse_args(arguments)
    if options.list:
        print("\n".join(f"{case.name:<20}{case.title}" for case in CASES))
        return 0
    machine.leave_server_core()
    outcomes, failed = [], False
    for case in _chosen(options.case):
        try:
            outcomes.append(_measure(case, options))
        except MeasurementError as error:
            failed = True
            log(f"{case.name} could not be measured: {error}")
    _report(outcomes, options.json)
    return int(failed)


def log(text: str) -> None:
    """Print progress to stderr; only results go to stdout."""
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("case", nargs="*", help="names of cases (--list shows them)")
    parser.add_argument("--list", action="store_true", help="show the cases and measure nothing")
    parser.add_argument("--peers", action="store_true", help="measure the peers, too")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="measure another checkout of this project, too",
    )
    parser.add_argument(
        "--quick", action="store_true", help="smoke test without meaningful numbers"
    )
    parser.add_argument(
        "--rounds", type=int, help="number of rounds, in which all contestants are measured"
    )
    parser.add_argument("--seconds", type=float, help="seconds of load per round")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all measurements to a file"
    )
    return parser


def _chosen(names: Sequence[str]) -> list[Case]:
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        sys.exit(f"No such case: {', '.join(unknown)}. There are: {', '.join(BY_NAME)}.")
    chosen = [BY_NAME[name] for name in names] if names else [*CASES]
    for case in chosen:
        if case.needs and not os.environ.get(case.needs):
            log(f"{case.name} is left out: {case.needs} is not set")
    return [case for case in chosen if not case.needs or os.environ.get(case.needs)]


def _measure(case: Case, options: argparse.Namespace) -> Outcome:
    effort = QUICK if options.quick else Effort()
    overrides = {"samples": options.rounds, "seconds": options.seconds}
    effort = replace(
        effort, **{key: given for key, given in overrides.items() if given is not None}
    )
    return measure(case, effort, with_peers=options.peers, before=options.before, log=log)


def _report(outcomes: Sequence[Outcome], file: Path | None) -> None:
    print(report.table(outcomes))
    if file is None:
        return
    measured = [
        each
        for outcome in outcomes
        for each in (outcome.subject, outcome.baseline, *outcome.peers)
        if each is not None
    ]
    versions = {
        name: environments.versions(name)
        for name in dict.fromkeys(each.contestant.environment for each in measured)
    }
    whole = report.as_json(outcomes, machine.describe(), versions)
    file.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
