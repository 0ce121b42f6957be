"""The benchmark cases: subject, baseline, peers and limits.

The limits are the project's performance goals; docs/benchmarks.md has the results.
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
    ADD_WITH_TOOLKIT_TOKEN,
    ARGUMENTS,
    DATACLASSES,
    FINE_STRUCTURE,
    LIST,
    LIST_20,
    LIST_1000,
    LIST_ROWS,
    LISTEN,
    MODELS,
    PROGRESS,
    READ_ROW,
    STRUCTURE,
    TYPED_DICTS,
    VALUES,
    Call,
)
from tests.benchmarks.contestants import (
    BARE_PROJECT,
    EXAMPLE_SITE,
    OURS_OVER_STDIO,
    POSTGRESQL,
    SDK_OVER_STDIO,
    Contestant,
    bare,
    bolt,
    django_peers,
    everyone,
    fastmcp,
    mcpz,
    on_newest,
    ours,
    sdk,
)
from tests.benchmarks.meters import in_process, load, sessions, starts, stdio, streams
from tests.benchmarks.samples import Meter, Ratio, cost, processor, spread, tail, value

Beside = Literal["baseline", "best peer", "itself"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The limit of a ratio."""

    limit: float
    direction: Literal["at least", "at most"]
    of: Ratio = value
    beside: Beside = "baseline"
    """What the subject is compared with: "best peer" is the fastest one, on its best server."""

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
    return Bar(limit=limit, direction="at least", beside="best peer")


TAIL_OF_PEER = Bar(limit=1, direction="at most", of=tail, beside="best peer")
"""A 99th percentile that is not above that of the best peer."""


def own_spread(limit: float) -> Bar:
    """A 99th percentile of at most this multiple of the median."""
    return Bar(limit=limit, direction="at most", of=spread, beside="itself")


REDIS = "REDIS_URL"
CLOSED, KEPT, POOLED = (
    {"BENCH_CONNECTIONS": connections} for connections in ("closed", "kept", "pooled")
)
"""Database connections: closed after each request, which is Django's default, kept, and pooled."""


def typed(name: str, title: str, call: Call, *more: Contestant) -> Case:
    """Return a case of 920 rows of five small fields, beside django-mcpz with the same type."""
    return Case(
        name=name,
        title=f"100 kB of 920 small rows: {title}",
        subject=ours(call),
        baseline=bare(call),
        peers=(mcpz(call), mcpz(call, server="gunicorn"), *more),
        bars=(best_peer(1.2),),
    )


def tools_list(name: str, call: Call, bars: tuple[Bar, ...], **settings: str) -> Case:
    """Return a case of all tools in one page."""
    return Case(
        name=name,
        title=f"tools/list, {settings['BENCH_TOOLS']} tools in one page",
        subject=ours(call, BENCH_PAGE_SIZE="1000", **settings),
        baseline=bare(call),
        peers=(
            sdk(call, **settings),
            fastmcp(call, **settings),
            mcpz(call, **settings),
            mcpz(call, server="gunicorn", **settings),
        ),
        bars=bars,
    )


def row_by_key(name: str, title: str, limit: float, connections: Mapping[str, str]) -> Case:
    """Return a case of one row by its primary key on SQLite."""
    return Case(
        name=name,
        title=f"sync tool, one row by primary key, {title}",
        subject=ours(READ_ROW, **connections),
        baseline=bare(READ_ROW),
        peers=django_peers(READ_ROW, **connections),
        bars=(best_peer(limit), TAIL_OF_PEER),
    )


def under_gunicorn(name: str, title: str, call: Call, limit: float, **settings: str) -> Case:
    """Return a case of one worker with one thread, beside django-mcpz on the same server."""
    server = "gunicorn-sync"
    return Case(
        name=name,
        title=f"{title}, under gunicorn sync",
        subject=ours(call, server=server, **settings),
        peers=(mcpz(call, server=server, **settings),),
        bars=(best_peer(limit), TAIL_OF_PEER),
    )


def beside_bolt(name: str, title: str, call: Call, server: str) -> Case:
    """Return a case beside bolt-mcp, all on the newest Python."""
    return Case(
        name=name,
        title=f"{title} under {server}, on the newest Python",
        subject=on_newest(ours(call, server=server)),
        baseline=on_newest(bare(call, server=server)),
        peers=(bolt(call),),
    )


def row_on_postgresql(name: str, title: str, connections: Mapping[str, str]) -> Case:
    """Return a case of one row by its primary key on PostgreSQL."""
    return Case(
        name=name,
        title=f"one row by primary key, PostgreSQL, {title}",
        subject=ours(READ_ROW, database="postgresql", **connections),
        baseline=bare(READ_ROW),
        peers=django_peers(READ_ROW, database="postgresql", **connections),
        bars=(best_peer(1.5),),
        needs=POSTGRESQL,
    )


def async_row(
    name: str,
    title: str,
    connections: Mapping[str, str],
    database: str = "sqlite",
    needs: str | None = None,
) -> Case:
    """Return a case of one row that an async handler reads, beside a sync one."""
    return Case(
        name=name,
        title=f"one row by aget(), beside get(), {title}",
        subject=ours(READ_ROW, database=database, BENCH_READS="async", **connections),
        baseline=ours(READ_ROW, database=database, **connections),
        bars=(at_least(1),),
        needs=needs,
    )


def in_one_process(name: str, title: str, meter: Meter) -> Case:
    """Return a case of one call of an async tool without a server, beside the bare application."""
    return Case(
        name=name, title=f"async tool, {title}", subject=ours(ADD), baseline=bare(ADD), meter=meter
    )


def logged_calls(name: str, title: str, database: str = "sqlite", needs: str | None = None) -> Case:
    """Return a case of calls that are stored in the call log, beside those that are not."""
    return Case(
        name=name,
        title=f"async tool with a row for each call, {title}",
        subject=ours(ADD, database=database, BENCH_CALL_LOG="1"),
        baseline=ours(ADD, database=database),
        bars=(at_most(1.3, of=processor),),
        needs=needs,
    )


def sessions_in(name: str, title: str, limit: float, needs: str | None, store: Contestant) -> Case:
    """Return a case of sessions in a store, beside the memory store."""
    return Case(
        name=name,
        title=f"session of ten calls, {title} beside memory",
        subject=store,
        baseline=ours(ADD_IN_SESSION, BENCH_STORE="memory"),
        meter=sessions.METER,
        bars=(at_least(limit),),
        needs=needs,
    )


CASES: tuple[Case, ...] = (
    Case(
        name="async",
        title="async tool",
        subject=ours(ADD),
        baseline=bare(ADD),
        peers=everyone(ADD),
        bars=(at_least(0.55), at_most(3, of=tail), best_peer(4.5)),
    ),
    Case(
        name="sync",
        title="sync tool, no database",
        subject=ours(ADD_SYNC),
        baseline=bare(ADD_SYNC),
        peers=everyone(ADD_SYNC),
        bars=(at_least(0.4), own_spread(4), best_peer(3.5), TAIL_OF_PEER),
    ),
    row_by_key("orm", "connections kept", 1.8, KEPT),
    row_by_key("orm-closed", "connections closed", 1.5, CLOSED),
    under_gunicorn("wsgi", "sync tool, no database", ADD_SYNC, 1.25),
    under_gunicorn("wsgi-orm", "one row by primary key, connections kept", READ_ROW, 1.05, **KEPT),
    under_gunicorn(
        "wsgi-orm-closed", "one row by primary key, connections closed", READ_ROW, 1.05, **CLOSED
    ),
    row_on_postgresql("orm-postgresql", "connections kept", KEPT),
    row_on_postgresql("orm-postgresql-pool", "connections pooled", POOLED),
    async_row("orm-async", "connections closed", CLOSED),
    async_row("orm-async-kept", "connections kept", KEPT),
    async_row("orm-async-pool", "PostgreSQL, pooled", POOLED, "postgresql", POSTGRESQL),
    Case(
        name="toolset",
        title="50 rows by a toolset, beside values()",
        subject=ours(LIST_ROWS, BENCH_ROWS="toolset"),
        baseline=ours(LIST_ROWS, BENCH_ROWS="values"),
        bars=(at_most(1.3, of=cost),),
    ),
    Case(
        name="daphne",
        title="async tool under daphne",
        subject=ours(ADD, server="daphne"),
        baseline=bare(ADD, server="daphne"),
        bars=(at_least(0.6),),
    ),
    tools_list("list-20", LIST_20, (at_least(0.6), best_peer(3)), BENCH_TOOLS="20"),
    tools_list("list-1000-page", LIST_1000, (best_peer(3),), BENCH_TOOLS="1000"),
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
        subject=ours(ADD_WITH_TOKEN, BENCH_AUTHENTICATORS="token.TokenAuthentication"),
        baseline=ours(ADD),
        bars=(at_most(1.15, of=cost),),
    ),
    Case(
        name="toolkit-token",
        title="tools/call with a token of django-oauth-toolkit",
        subject=ours(
            ADD_WITH_TOOLKIT_TOKEN,
            BENCH_AUTHENTICATORS="oauth_toolkit.OAuthToolkitAuthentication",
        ),
        baseline=ours(ADD),
        bars=(at_most(1.15, of=cost),),
    ),
    logged_calls("call-log", "SQLite"),
    logged_calls("call-log-postgresql", "PostgreSQL", "postgresql", POSTGRESQL),
    Case(
        name="structure",
        title="structured result of 100 kB of text",
        subject=ours(STRUCTURE),
        baseline=bare(STRUCTURE),
        bars=(at_least(0.25),),
    ),
    typed("typed-dicts", "TypedDict", TYPED_DICTS, sdk(TYPED_DICTS), fastmcp(TYPED_DICTS)),
    typed("dataclasses", "dataclass", DATACLASSES, sdk(DATACLASSES), fastmcp(DATACLASSES)),
    typed("models", "pydantic model", MODELS, sdk(MODELS), fastmcp(MODELS)),
    typed("values", ".values()", VALUES),
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
        bars=(best_peer(4),),
    ),
    sessions_in(
        "sessions-database", "SQLite", 0.45, None, ours(ADD_IN_SESSION, BENCH_STORE="database")
    ),
    sessions_in(
        "sessions-postgresql",
        "PostgreSQL",
        0.35,
        POSTGRESQL,
        ours(ADD_IN_SESSION, database="postgresql", BENCH_STORE="database"),
    ),
    sessions_in(
        "sessions-redis",
        "cache on Redis",
        0.35,
        REDIS,
        ours(ADD_IN_SESSION, BENCH_STORE="cache", BENCH_REDIS=os.environ.get(REDIS, "")),
    ),
    Case(
        name="start",
        title="start to first answer, example site",
        subject=EXAMPLE_SITE,
        baseline=BARE_PROJECT,
        meter=starts.METER,
        bars=(at_most(1.5),),
    ),
    # What a call touches decides what it costs beside other work.
    in_one_process("evicted", "caches evicted before each call", in_process.EVICTED),
    in_one_process("functions", "distinct functions", in_process.FUNCTIONS),
    in_one_process("function-calls", "calls of functions", in_process.CALLS),
    # Informative: a server of its own, in Rust, is not reached by one in Python.
    beside_bolt("bolt", "async tool", ADD, "uvicorn"),
    beside_bolt("bolt-granian", "async tool", ADD, "granian"),
    beside_bolt("bolt-sync", "sync tool", ADD_SYNC, "uvicorn"),
    beside_bolt("bolt-sync-granian", "sync tool", ADD_SYNC, "granian"),
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
        name="fan-out-redis",
        title="list_changed to 500 streams, Redis layer beside in-memory",
        subject=ours(LISTEN, BENCH_REDIS=os.environ.get(REDIS, "")),
        baseline=ours(LISTEN),
        meter=streams.FAN_OUT,
        needs=REDIS,
    ),
)

BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}
