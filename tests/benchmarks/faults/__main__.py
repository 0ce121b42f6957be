"""Faults, and a long run:

scripts/faults faults [fault ...] [--seconds 60] [--store database ...]
scripts/faults soak [--seconds 600] [--store database]

With ``--store gunicorn``, the workers are three of gunicorn, with one thread each, on PostgreSQL.
It starts its own servers of Redis, PostgreSQL and nginx, three workers, and two queue workers of
Celery. ``faults`` prints the table of docs/measured-faults.md (``--write`` puts it there),
and fails if anything is lost, crossed, hung or started twice, if a request waits for longer than it
may, or fails after a fault. ``soak`` fails if what is used at the end is more than what was used
once a fifth of the traffic was over.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator
from datetime import date

from tests.benchmarks.faults import bursts, kinds, soak
from tests.benchmarks.faults.tally import Tally, row, table
from tests.processes import ROOT
from tests.services.instances import postgresql_server, redis_server
from tests.services.workers import Cluster, cluster, settings_of

QUEUE_WORKERS = 2
BURST = "burst of changes"
PAGE = ROOT / "docs" / "measured-faults.md"
BEGIN, END = "<!-- measured -->", "<!-- end of the measurements -->"


def main() -> None:
    given = arguments()
    # Otherwise the servers that it has started would go on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[list[str]] = []
    problems: list[str] = []
    with redis_server() as redis, postgresql_server() as postgresql:
        for store in given.store:
            described = settings_of(store, redis, postgresql)
            if given.what == "soak":
                described |= soak.settings(given.seconds)
            with cluster(queue_workers=QUEUE_WORKERS, **described) as site:
                problems += PLAY[given.what](site, store, given, rows)
    if rows:
        print(table(rows), flush=True)
    if given.write:
        write(rows, given)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    parser.add_argument("what", choices=sorted(PLAY))
    parser.add_argument("faults", nargs="*", metavar="fault")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--sessions", type=int, default=150, help="in a burst")
    parser.add_argument("--write", action="store_true", help="the table into the documentation")
    parser.add_argument("--store", nargs="+", choices=sorted(kinds.FAULTS))
    given = parser.parse_args()
    stores = {"faults": list(kinds.FAULTS), "soak": ["database"]}
    seconds = {"faults": 60.0, "soak": 600.0}
    given.store = given.store or stores[given.what]
    given.seconds = given.seconds or seconds[given.what]
    return given


def play_faults(
    site: Cluster, store: str, given: argparse.Namespace, rows: list[list[str]]
) -> Iterator[str]:
    """Append to the rows of the table, and return what must not be."""
    for name, tally, problems in _tallies(site, store, given):
        print(f"{name} ({store})\n{tally.details()}\n", flush=True)
        rows.append(row(f"{name} ({store})", tally))
        yield from (f"{name} ({store}): {problem}" for problem in problems)


def _tallies(
    site: Cluster, store: str, given: argparse.Namespace
) -> Iterator[tuple[str, Tally, list[str]]]:
    for fault in kinds.FAULTS[store]:
        if not given.faults or fault.name in given.faults:
            seconds = (
                given.seconds if fault in (*kinds.KILLS, *kinds.PREFORK) else given.seconds / 2
            )
            tally = asyncio.run(kinds.play(fault, site, store, seconds))
            yield fault.name, tally, [*tally.problems(), *fault.exceeded(tally, seconds)]
    if store in ("database", "cache") and (not given.faults or BURST in given.faults):
        tally = asyncio.run(bursts.play(site, given.sessions))
        yield BURST, tally, tally.problems()


def play_soak(
    site: Cluster, store: str, given: argparse.Namespace, rows: list[list[str]]
) -> Iterator[str]:
    yield from asyncio.run(soak.play(site, given.seconds))


def write(rows: list[list[str]], given: argparse.Namespace) -> None:
    """Replace the table of the documentation."""
    measured = (
        f"Measured on {date.today():%Y-%m-%d}: workers killed for {given.seconds:g} s, services "
        f"restarted, hanging or away for {given.seconds / 2:g} s, bursts for {given.sessions} "
        "sessions."
    )
    text = f"{BEGIN}\n\n{measured}\n\n{table(rows)}\n\n"
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + text + rest[rest.index(END) :], encoding="utf-8")


PLAY = {"faults": play_faults, "soak": play_soak}

if __name__ == "__main__":
    main()
