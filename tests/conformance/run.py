"""Runs the official conformance suite and compares its results with our lists.

The requirement sets of the protocol run against the example site; "authorization" has the suite's
scenarios for authorization servers, which run against a site of their own.

extra_<set>.txt lists scenarios that the suite runs as optional, and that we require;
not_yet_<set>.txt lists those with known failures; wsgi_<set>.txt those which need an open stream,
so that they fail under a WSGI server without WSGI_STREAMS. One name per line; # starts a comment.
"""

import argparse
import re
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.conformance import authorization, suite
from tests.conformance.suite import PACKAGE, Outcome, nothing
from tests.running_site import EXAMPLE_SITE, RunningSite, running_site

HERE = Path(__file__).resolve().parent
REQUIREMENT_SETS = ("2025-11-25", "2026-07-28")
AUTHORIZATION = "authorization"
ENDPOINT = "/conformance"
GUNICORN = [
    *("gunicorn", "--bind", "127.0.0.1:{port}", "--threads", "8"),
    "example_site.wsgi:application",
]
STREAMS = "tests.conformance.streams_settings"
SERVERS: dict[str, list[str]] = {
    "daphne": [*EXAMPLE_SITE],
    "gunicorn": GUNICORN,
    "gunicorn-streams": GUNICORN,
}
"""The servers of the example site; the last one admits standing streams."""

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


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    chosen = options.sets or [*REQUIREMENT_SETS, AUTHORIZATION]
    good = [_run_at_site(name, options) for name in chosen]
    return 0 if all(good) else 1


def _run_at_site(name: str, options: argparse.Namespace) -> bool:
    is_authorization = name == AUTHORIZATION
    with authorization.running_site() if is_authorization else _site(options.server) as site:
        run = _run_authorization if is_authorization else _run_set
        is_good = run(site, name, options)
        if not is_good and options.verbose:
            print(f"The site's log:\n{site.log}")
    return is_good


def _site(server: str) -> AbstractContextManager[RunningSite]:
    module = STREAMS if server == "gunicorn-streams" else "example_site.settings"
    return running_site(SERVERS[server], DJANGO_SETTINGS_MODULE=module)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    sets = ", ".join([*REQUIREMENT_SETS, AUTHORIZATION])
    parser.add_argument("sets", nargs="*", metavar="requirement-set", help=f"default: {sets}")
    parser.add_argument("--server", choices=SERVERS, default="daphne", help="for protocol sets")
    parser.add_argument("--only", metavar="SCENARIO", action="append", help="run no other")
    parser.add_argument("--verbose", action="store_true", help="print every message, and the log")
    return parser


def _run_set(site: RunningSite, name: str, options: argparse.Namespace) -> bool:
    """Run one requirement set, print a line per scenario, and return whether all match."""
    counted = _required(name) | _listed(f"extra_{name}.txt")
    not_yet = _listed(f"not_yet_{name}.txt")
    if options.server == "gunicorn":
        not_yet |= _listed(f"wsgi_{name}.txt")
    if options.only:
        outcomes = _run_singly(site, name, options.only)
        not_yet &= set(options.only)
    else:
        outcomes = _run_together(site, name, counted | not_yet)
    return _report_set(name, outcomes, counted, not_yet, options)


def _run_authorization(site: RunningSite, name: str, options: argparse.Namespace) -> bool:
    """Run the scenarios for authorization servers, all of which we require."""
    outcomes = authorization.run(site)
    if options.only:
        outcomes = [outcome for outcome in outcomes if outcome.scenario in options.only]
    counted = {outcome.scenario for outcome in outcomes}
    not_yet = _listed(f"not_yet_{name}.txt") & counted
    return _report_set(name, outcomes, counted, not_yet, options)


def _report_set(
    name: str,
    outcomes: Sequence[Outcome],
    counted: set[str],
    not_yet: set[str],
    options: argparse.Namespace,
) -> bool:
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
        outcomes = suite.read(Path(folder))
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
            outcomes += suite.read(Path(folder)) or [nothing(scenario, output)]
    return outcomes


def _suite(site: RunningSite, *options: str, output: str) -> str:
    """Run the suite's server tests."""
    return suite.run("server", "--url", site.url(ENDPOINT), "--output-dir", output, *options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
