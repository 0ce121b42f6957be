"""A long run of mixed traffic: what is used at the end is what was used near the beginning."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from statistics import mean
from typing import Any

import httpx

from tests.benchmarks.faults import actor, traffic
from tests.services.peer import Peer, text_of
from tests.services.workers import Cluster

TABLES = (
    "django_mcp_mcpsession",
    "django_mcp_stream",
    "django_mcp_streamevent",
    "django_mcp_subscription",
)
EARLY = 0.2
"""The part of the time after which the first reading is taken."""
GROWTH = 1.05
FREE: Mapping[str, int] = {"memory": 4 * 1024 * 1024, "rows": 50, "keys": 70}
"""What may be added to numbers that are small in a short run; for others it is ``FEW``. Keys are
those of channels that received a message when they ended, as of decisions: about one a second, and
they expire after a minute."""
FEW = 3
PRUNINGS = 5
"""How often what has expired is deleted, in the time after which it has."""
READINGS = 20
"""Of each, the lowest is taken, and of rows the mean: traffic goes on, and stores by chance a tenth
more or less. They are taken during two lifetimes of what is stored."""

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
    async with traffic.running(cluster.url, cluster) as running:
        await asyncio.sleep(seconds * EARLY)
        early = await read(cluster, seconds)
        print(f"after {seconds * EARLY:.0f} s: {early}", flush=True)
        await asyncio.sleep(seconds * (1 - EARLY))
        late = await read(cluster, seconds)
        print(f"after {seconds:.0f} s: {late}\n{running.tally.details()}", flush=True)
    return [*running.tally.problems(), *grown(early, late)]


def grown(early: Reading, late: Reading) -> list[str]:
    """What is more than it was."""
    return [
        f"{name}: {late[name]:,}, before {before:,}"
        for name, before in early.items()
        if late[name] > before * GROWTH + FREE.get(name.rpartition(" ")[2], FEW)
    ]


async def read(cluster: Cluster, seconds: float) -> Reading:
    """What the workers, the database and Redis use now."""
    found: list[Reading] = []
    for _ in range(READINGS):
        found.append({**await _of_workers(cluster), **await asyncio.to_thread(_stored, cluster)})
        await asyncio.sleep(2 * lifetime_in(seconds) / READINGS)
    taken = ((name, [each[name] for each in found]) for name in found[0])
    return {
        name: round(mean(values)) if name.endswith(" rows") else min(values)
        for name, values in taken
    }


async def _of_workers(cluster: Cluster) -> Reading:
    reading: Reading = {}
    async with httpx.AsyncClient(timeout=actor.LIMIT, trust_env=False) as http:
        for number, worker in enumerate(cluster.workers):
            used = json.loads(text_of(await Peer(http, f"{worker.url}/mcp").call("usage")))
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
