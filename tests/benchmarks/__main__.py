"""Measures the cases, all of them or those that are named: scripts/bench [options] [case ...]"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.benchmarks import environments, machine, report
from tests.benchmarks.answers import Unfit
from tests.benchmarks.cases import BY_NAME, CASES, Case
from tests.benchmarks.measuring import Outcome, measure
from tests.benchmarks.samples import QUICK, Effort


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print what came of it; 1 when somebody did not do the work."""
    options = _options().parse_args(arguments)
    if options.list:
        print("\n".join(f"{case.name:<20}{case.title}" for case in CASES))
        return 0
    machine.keep_away()
    outcomes, failed = [], False
    for case in _chosen(options.case):
        try:
            outcomes.append(_measure(case, options))
        except Unfit as error:
            failed = True
            tell(f"{case.name} could not be measured: {error}")
    _tell(outcomes, options.json)
    return int(failed)


def tell(text: str) -> None:
    """Say what is going on; the results alone go to stdout."""
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
    parser.add_argument("--quick", action="store_true", help="see whether it runs; no numbers")
    parser.add_argument("--rounds", type=int, help="how often everybody is measured in turn")
    parser.add_argument("--seconds", type=float, help="of load in each round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    return parser


def _chosen(names: Sequence[str]) -> list[Case]:
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        sys.exit(f"No such case: {', '.join(unknown)}. There are: {', '.join(BY_NAME)}.")
    chosen = [BY_NAME[name] for name in names] if names else [*CASES]
    for case in chosen:
        if case.needs and not os.environ.get(case.needs):
            tell(f"{case.name} is left out: {case.needs} is not set")
    return [case for case in chosen if not case.needs or os.environ.get(case.needs)]


def _measure(case: Case, options: argparse.Namespace) -> Outcome:
    effort = QUICK if options.quick else Effort()
    wished = {"rounds": options.rounds, "seconds": options.seconds}
    effort = replace(effort, **{name: wish for name, wish in wished.items() if wish is not None})
    return measure(case, effort, with_peers=options.peers, before=options.before, tell=tell)


def _tell(outcomes: Sequence[Outcome], file: Path | None) -> None:
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
