"""The benchmark cases: subject, baseline, peers and limits.

The limits are the project's performance goals; docs/reference/performance.md has the results.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tests.benchmarks.calls import (
    ADD,
    ADD_IN_SESSION,
    ADD_SYNC,
    ADD_WITH_TOKEN,
    ARGUMENTS,
    FINE_STRUCTURE,
    LIST,
    LISTEN,
    PROGRESS,
    READ_ROW,
    STRUCTURE,
)
from tests.benchmarks.contestants import (
    BARE_PROJECT,
    EXAMPLE_SITE,
    OURS_OVER_STDIO,
    SDK_OVER_STDIO,
    Contestant,
    bare,
    django_peers,
    everyone,
    fastmcp,
    ours,
    sdk,
)
from tests.benchmarks.meters import load, sessions, starts, stdio, streams
from tests.benchmarks.samples import Meter, Ratio, cost, tail, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The limit of a ratio."""

    limit: float
    direction: Literal["at least", "at most"]
    of: Ratio = value
    beside_peers: bool = False
    """Whether the limit refers to the best peer instead of the baseline."""

    def holds(self, ratio: float) -> bool:
        """Whether the ratio is within the limit."""
        return ratio >= self.limit if self.direction == "at least" else ratio <= self.limit

    def __str__(self) -> str:
        return f"{self.direction} {self.limit:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A benchmark case."""

    name: str
    title: str
    subject: Contestant
    baseline: Contestant | None = None
    peers: tuple[Contestant, ...] = ()
    meter: Meter = load.METER
    bars: tuple[Bar, ...] = ()
    """Without limits, the case is informative."""
    needs: str | None = None
    """An environment variable that the case requires."""


def at_least(limit: float) -> Bar:
    """At least this multiple of the baseline."""
    return Bar(limit=limit, direction="at least")


def at_most(limit: float, of: Ratio = value) -> Bar:
    """At most this multiple of the baseline."""
    return Bar(limit=limit, direction="at most", of=of)


def best_peer(limit: float) -> Bar:
    """At least this multiple of the best peer."""
    return Bar(limit=limit, direction="at least", beside_peers=True)


REDIS = "REDIS_URL"

CASES: tuple[Case, ...] = (
    Case(
        name="async",
        title="async tool",
        subject=ours(ADD),
        baseline=bare(ADD),
        peers=everyone(ADD),
        bars=(at_least(0.5), at_most(3, of=tail), best_peer(5)),
    ),
    Case(
        name="sync",
        title="sync tool, no database",
        subject=ours(ADD_SYNC),
        baseline=bare(ADD_SYNC),
        peers=everyone(ADD_SYNC),
        bars=(at_least(0.28), best_peer(2.5)),
    ),
    Case(
        name="orm",
        title="sync tool, one row by primary key",
        subject=ours(READ_ROW),
        baseline=bare(READ_ROW),
        peers=django_peers(READ_ROW),
        bars=(best_peer(1.5),),
    ),
    Case(
        name="daphne",
        title="async tool under daphne",
        subject=ours(ADD, server="daphne"),
        baseline=bare(ADD, server="daphne"),
        bars=(at_least(0.6),),
    ),
    Case(
        name="list-1000",
        title="tools/list, a page of 50 of 1,000",
        subject=ours(LIST, BENCH_TOOLS="1000"),
        baseline=ours(LIST, BENCH_TOOLS="50"),
        bars=(at_most(1.3, of=cost),),
    ),
    Case(
        name="call-1000",
        title="tools/call among 1,000 tools",
        subject=ours(ADD, BENCH_TOOLS="1000"),
        baseline=ours(ADD, BENCH_TOOLS="1"),
        bars=(at_most(1.1, of=cost),),
    ),
    Case(
        name="token",
        title="tools/call with a personal access token",
        subject=ours(ADD_WITH_TOKEN, BENCH_AUTHENTICATOR="token.TokenAuthentication"),
        baseline=ours(ADD),
        bars=(at_most(1.15, of=cost),),
    ),
    Case(
        name="structure",
        title="structured result of 100 kB",
        subject=ours(STRUCTURE),
        baseline=bare(STRUCTURE),
        bars=(at_least(0.25),),
    ),
    Case(
        name="arguments",
        title="200 kB of arguments",
        subject=ours(ARGUMENTS),
        baseline=bare(ARGUMENTS),
        bars=(at_least(0.4),),
    ),
    Case(
        name="progress",
        title="50 notifications, then the result",
        subject=ours(PROGRESS),
        baseline=bare(PROGRESS),
        peers=(sdk(PROGRESS, BENCH_STREAMS="1"), fastmcp(PROGRESS, BENCH_STREAMS="1")),
        bars=(at_least(0.3), best_peer(3)),
    ),
    Case(
        name="idle-streams",
        title="memory of an idle stream, of 500",
        subject=ours(LISTEN),
        baseline=bare(LISTEN),
        meter=streams.MEMORY,
        bars=(at_most(2),),
    ),
    Case(
        name="fan-out",
        title="one list_changed to 500 streams",
        subject=ours(LISTEN),
        baseline=bare(LISTEN),
        meter=streams.FAN_OUT,
        bars=(at_most(3),),
    ),
    Case(
        name="stdio",
        title="calls over stdio, one by one",
        subject=OURS_OVER_STDIO,
        peers=(SDK_OVER_STDIO,),
        meter=stdio.METER,
        bars=(best_peer(3),),
    ),
    Case(
        name="sessions",
        title="session of ten calls, memory store",
        subject=ours(ADD_IN_SESSION, BENCH_STORE="memory"),
        peers=(sdk(ADD_IN_SESSION, BENCH_SESSIONS="1"),),
        meter=sessions.METER,
        bars=(best_peer(5),),
    ),
    Case(
        name="sessions-database",
        title="the same, SQLite beside memory",
        subject=ours(ADD_IN_SESSION, BENCH_STORE="database"),
        baseline=ours(ADD_IN_SESSION, BENCH_STORE="memory"),
        meter=sessions.METER,
        bars=(at_least(0.4),),
    ),
    Case(
        name="start",
        title="start to first answer, example site",
        subject=EXAMPLE_SITE,
        baseline=BARE_PROJECT,
        meter=starts.METER,
        bars=(at_most(1.5),),
    ),
    # Informative cases for the choice of a server, a kind of handler or a store.
    Case(
        name="fine-structure",
        title="the same of numbers instead of text",
        subject=ours(FINE_STRUCTURE),
        baseline=bare(FINE_STRUCTURE),
    ),
    Case(
        name="granian",
        title="async tool under granian",
        subject=ours(ADD, server="granian"),
        baseline=bare(ADD, server="granian"),
    ),
    Case(
        name="uvicorn-pure",
        title="async tool under uvicorn without uvloop and httptools",
        subject=ours(ADD, server="uvicorn-pure"),
        baseline=bare(ADD, server="uvicorn-pure"),
    ),
    Case(
        name="sync-daphne",
        title="sync tool under daphne",
        subject=ours(ADD_SYNC, server="daphne"),
        baseline=bare(ADD_SYNC, server="daphne"),
    ),
    Case(
        name="sync-granian",
        title="sync tool under granian",
        subject=ours(ADD_SYNC, server="granian"),
        baseline=bare(ADD_SYNC, server="granian"),
    ),
    Case(
        name="thread-sensitive",
        title="sync tool, thread-sensitive beside threads",
        subject=ours(ADD_SYNC, BENCH_SYNC_HANDLERS="thread_sensitive"),
        baseline=ours(ADD_SYNC),
    ),
    Case(
        name="sessions-redis",
        title="session of ten calls, cache on Redis beside memory",
        subject=ours(ADD_IN_SESSION, BENCH_STORE="cache", BENCH_REDIS=os.environ.get(REDIS, "")),
        baseline=ours(ADD_IN_SESSION, BENCH_STORE="memory"),
        meter=sessions.METER,
        needs=REDIS,
    ),
    Case(
        name="fan-out-redis",
        title="list_changed to 500 streams, Redis layer beside in-memory",
        subject=ours(LISTEN, BENCH_REDIS=os.environ.get(REDIS, "")),
        baseline=ours(LISTEN),
        meter=streams.FAN_OUT,
        needs=REDIS,
    ),
)

BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}
