"""The faults: what they do to workers and services while traffic of every kind goes on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.faults import actor, traffic
from tests.benchmarks.faults.tally import ANNOUNCED, WORK, Tally
from tests.services.instances import Instance
from tests.services.workers import Cluster, Gunicorn

BETWEEN_KILLS = 2.0
BETWEEN_RESTARTS = 10.0
SETTLED = 2.5
"""Seconds after a fault from which nothing may fail any more: services that failed are tried again
every two seconds."""
AFTERWARDS = 2.5
"""Seconds for which the traffic goes on after that."""
STORE_LIMIT = 5.0
"""Seconds that a request waits for a store, by default."""
NOTIFIED = 10.0
"""Seconds within which a client that resumes a stream is told that its worker has died."""
CAUGHT_UP = 5.0
"""Seconds within which workers read what they missed of a layer that was away."""
SLACK = 4.0
"""Seconds for a busy machine, and for clients to connect again."""

Work = Callable[[Cluster, float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: what is done, and how long a request may wait then."""

    name: str
    do: Work
    wait: Callable[[float], float]
    """The longest wait of a request by the seconds of the fault. For an announcement, it is the
    whole fault, and the time in which workers catch up."""
    empties: bool = False
    """Whether it deletes what is in Redis."""
    service: str = ""
    """What fails, if it is no worker."""

    def exceeded(self, tally: Tally, seconds: float) -> list[str]:
        """The kinds of requests that waited for longer than they may."""
        others = seconds + CAUGHT_UP + NOTIFIED + SLACK
        waiting = (*ANNOUNCED, traffic.Saving.kind, traffic.HttpSse.kind)
        limits = dict.fromkeys(waiting, others)
        limits |= dict.fromkeys(WORK, others + actor.WORK)
        bound = self.wait(seconds) + SLACK
        return [
            f"{kind}: {waited:.1f} s, at most {limits.get(kind, bound):.1f} s"
            for kind, waited in tally.longest.items()
            if waited > limits.get(kind, bound)
        ]


async def play(fault: Fault, cluster: Cluster, store: str, seconds: float) -> Tally:
    """Let the fault happen to the cluster, and return what became of the requests."""
    # Whoever hears of a change hears of it when the fault is over.
    limit = max(actor.LIMIT, seconds + CAUGHT_UP + SLACK + 2 * traffic.AGAIN)
    forgets = fault.empties and store == "cache"
    silences = fault.service == EVENTS[store]
    drops = fault.service == "redis"
    described: dict[str, Any] = {"forgets": forgets, "silences": silences, "drops": drops}
    if store == "gunicorn":
        described["kinds"] = traffic.WITHOUT_STREAMS
    async with traffic.running(cluster.url, cluster, limit=limit, **described) as running:
        await fault.do(cluster, seconds)
        await asyncio.to_thread(_all_answer, cluster)
        await asyncio.sleep(SETTLED)
        running.tally.ended = time.monotonic()
        await asyncio.sleep(AFTERWARDS)
    return running.tally


EVENTS = {"database": "postgresql", "cache": "redis", "sqlite": "", "gunicorn": "postgresql"}
"""The service which has the events, by store."""


def _all_answer(cluster: Cluster) -> None:
    for instance in (*cluster.workers, *cluster.queue_workers, cluster.redis, cluster.postgresql):
        if instance is not None:
            instance.start()


# What is done.


async def kill_workers(cluster: Cluster, seconds: float) -> None:
    await _kill_some(cluster.workers, seconds)


async def kill_queue_workers(cluster: Cluster, seconds: float) -> None:
    await _kill_some(cluster.queue_workers, seconds)


async def kill_prefork_workers(cluster: Cluster, seconds: float) -> None:
    """Kill a worker of gunicorn at random every two seconds."""
    for _ in range(round(seconds / BETWEEN_KILLS)):
        gunicorn_of(cluster).kill_one()
        await asyncio.sleep(BETWEEN_KILLS)


async def reload_gunicorn(cluster: Cluster, seconds: float) -> None:
    """Replace all workers, and again as often as there is time."""
    for _ in range(round(seconds / BETWEEN_RESTARTS)):
        gunicorn_of(cluster).reload()
        await asyncio.sleep(BETWEEN_RESTARTS)


def gunicorn_of(cluster: Cluster) -> Gunicorn:
    (server,) = cluster.workers
    assert isinstance(server, Gunicorn)
    return server


async def _kill_some(instances: Sequence[Instance], seconds: float) -> None:
    """Kill one at random every two seconds; start it again at once."""
    ends = time.monotonic() + seconds
    starting: dict[Instance, asyncio.Task[None]] = {}
    while time.monotonic() < ends:
        there = [each for each in instances if each not in starting or starting[each].done()]
        # A machine that is too busy to start them in time shall not be left without any.
        if len(there) > 1:
            worker = random.choice(there)
            await asyncio.to_thread(worker.kill)
            starting[worker] = asyncio.create_task(asyncio.to_thread(worker.start))
        await asyncio.sleep(BETWEEN_KILLS)
    await asyncio.gather(*starting.values())


def restarted(service: str) -> Work:
    """Once, and again as often as there is time."""

    async def restart(cluster: Cluster, seconds: float) -> None:
        ends = time.monotonic() + seconds
        await asyncio.to_thread(_service(cluster, service).restart)
        while time.monotonic() + BETWEEN_RESTARTS < ends:
            await asyncio.sleep(BETWEEN_RESTARTS)
            await asyncio.to_thread(_service(cluster, service).restart)

    return restart


def away(service: str) -> Work:
    """Connections are refused."""

    async def stop_and_start(cluster: Cluster, seconds: float) -> None:
        instance = _service(cluster, service)
        await asyncio.to_thread(instance.stop)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(instance.start)

    return stop_and_start


def hanging(service: str) -> Work:
    """Connections stay open, and nothing is answered."""

    async def hang_and_resume(cluster: Cluster, seconds: float) -> None:
        instance = _service(cluster, service)
        instance.hang()
        await asyncio.sleep(seconds)
        instance.resume()

    return hang_and_resume


async def flush(cluster: Cluster, seconds: float) -> None:
    assert cluster.redis is not None
    await asyncio.to_thread(cluster.redis.flush)


def _service(cluster: Cluster, name: str) -> Instance:
    found: Instance | None = getattr(cluster, name)
    assert found is not None
    return found


def at_once(seconds: float) -> float:
    return STORE_LIMIT


def until_back(seconds: float) -> float:
    """A stream that breaks is resumed when the service is back."""
    return seconds + STORE_LIMIT


def until_notified(seconds: float) -> float:
    return NOTIFIED


KILLS = (
    Fault(name="workers killed", do=kill_workers, wait=until_notified),
    Fault(name="queue workers killed", do=kill_queue_workers, wait=at_once),
)
PREFORK = (
    Fault(name="prefork workers killed", do=kill_prefork_workers, wait=until_notified),
    Fault(name="gunicorn reloaded", do=reload_gunicorn, wait=until_notified),
)
REDIS = (
    Fault(
        name="Redis restarted", service="redis", do=restarted("redis"), wait=at_once, empties=True
    ),
    Fault(name="Redis flushed", service="redis", do=flush, wait=at_once, empties=True),
    Fault(name="Redis hangs", service="redis", do=hanging("redis"), wait=at_once),
    Fault(
        name="Redis away",
        service="redis",
        do=away("redis"),
        wait=until_back,
        empties=True,
    ),
)
POSTGRESQL = (
    Fault(
        name="PostgreSQL restarted", service="postgresql", do=restarted("postgresql"), wait=at_once
    ),
    Fault(
        name="PostgreSQL hangs",
        service="postgresql",
        do=hanging("postgresql"),
        wait=at_once,
    ),
    Fault(
        name="PostgreSQL away",
        service="postgresql",
        do=away("postgresql"),
        wait=until_back,
    ),
)
FAULTS: Mapping[str, Sequence[Fault]] = {
    "database": (*KILLS, *REDIS, *POSTGRESQL),
    "cache": (*KILLS, *REDIS),
    "sqlite": KILLS,
    "gunicorn": PREFORK,
}
"""By the store of sessions and events. The channel layer is always in Redis."""
