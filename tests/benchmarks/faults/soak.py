"""A long run of mixed traffic: what is used after it is what was used after a shorter one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from tests.benchmarks.faults import actor, traffic
from tests.services.workers import Cluster
from tests.wire.live import LiveClient
from tests.wire.messages import text_of

TABLES = (
    "django_mcp_mcpsession",
    "django_mcp_stream",
    "django_mcp_streamevent",
    "django_mcp_subscription",
)
EARLY = 0.2
"""The part of the time after which the traffic stops for the first reading."""
GROWTH = 1.05
FREE: Mapping[str, int] = {"memory": 4 * 1024 * 1024}
"""What may be added to a number; for others it is ``FEW``."""
FEW = 3
PRUNINGS = 5
"""How often what has expired is deleted, in the time after which it has."""
QUIET = 65.0
"""Seconds without traffic before a reading, at least. Then the streams and tasks of all clients
have ended, and so have the keys of Redis that expire after a minute. While traffic goes on, each of
these numbers differs by a third from one moment to the next."""
READINGS = 5
"""Of each number, the lowest is taken: housekeeping goes on."""

Reading = dict[str, int]


def lifetime_in(seconds: float) -> float:
    """The time after which what is abandoned is deleted, long before the first reading."""
    return max(2.0, seconds * EARLY / 4)


def settings(seconds: float) -> dict[str, Any]:
    """The times of the site; its workers read that of the housekeeping from the environment."""
    lifetime = lifetime_in(seconds)
    os.environ["SERVICES_HOUSEKEEPING_INTERVAL"] = str(lifetime / PRUNINGS)
    events = {
        "BACKEND": "django_mcp.stores.database.DatabaseEventStore",
        "OPTIONS": {"lifetime": lifetime},
    }
    return {"SESSION_IDLE_TIMEOUT": lifetime, "STORES": {"events": events}}


async def play(cluster: Cluster, seconds: float) -> list[str]:
    """Let traffic go on, and return what has grown."""
    early = await read_after(cluster, seconds * EARLY, lifetime_in(seconds))
    late = await read_after(cluster, seconds * (1 - EARLY), lifetime_in(seconds))
    found = [*early.problems, *late.problems, *grown(early.used, late.used)]
    if found and cluster.redis is not None:
        print(f"Keys of Redis: {cluster.redis.described_keys()}", flush=True)
    return found


class Soaked(NamedTuple):
    """What the traffic found, and what is used when it is over."""

    problems: list[str]
    used: Reading


async def read_after(cluster: Cluster, seconds: float, lifetime: float) -> Soaked:
    """Let traffic go on for so long; read what is used when all of it has ended and expired."""
    async with traffic.running(cluster.url, cluster) as running:
        await asyncio.sleep(seconds)
    await asyncio.sleep(max(QUIET, 2 * lifetime))
    used = await read(cluster)
    print(f"after {seconds:.0f} s of traffic: {used}\n{running.tally.details()}", flush=True)
    return Soaked(running.tally.problems(), used)


def grown(early: Reading, late: Reading) -> list[str]:
    """What is more than it was."""
    return [
        f"{name}: {late[name]:,}, before {before:,}"
        for name, before in early.items()
        if late[name] > before * GROWTH + FREE.get(name.rpartition(" ")[2], FEW)
    ]


async def read(cluster: Cluster) -> Reading:
    """What the workers, the database and Redis use now."""
    found: list[Reading] = []
    for _ in range(READINGS):
        found.append({**await _of_workers(cluster), **await asyncio.to_thread(_stored, cluster)})
        await asyncio.sleep(1)
    return {name: min(each[name] for each in found) for name in found[0]}


async def _of_workers(cluster: Cluster) -> Reading:
    reading: Reading = {}
    async with httpx.AsyncClient(timeout=actor.LIMIT, trust_env=False) as http:
        for number, worker in enumerate(cluster.workers):
            used = json.loads(text_of(await LiveClient(http, f"{worker.url}/mcp").tool("usage")))
            names = ("memory", "threads", "descriptors", "tasks")
            reading |= {f"worker {number} {name}": used[name] for name in names}
    return reading


def _stored(cluster: Cluster) -> Reading:
    reading: Reading = {}
    if (server := cluster.postgresql) is not None:
        counts = (
            server.execute(f"SELECT count(*) FROM {name}", cluster.database) for name in TABLES
        )
        reading = {f"{name} rows": rows[0][0] for name, rows in zip(TABLES, counts, strict=True)}
        reading["connections"] = server.connections(cluster.database)
    if cluster.redis is not None:
        reading["redis keys"] = cluster.redis.keys()
    return reading
