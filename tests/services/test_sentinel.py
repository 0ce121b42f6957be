"""Redis behind Sentinel, several servers for the channel layer, and why not Redis Cluster."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from channels_redis.core import RedisChannelLayer  # type: ignore[import-untyped]
from redis.exceptions import RedisError

from tests.services.instances import Redis, running, why_not_redis_server
from tests.services.workers import CACHE_STORES, SITE, Worker, manage, sqlite
from tests.waiting import SECONDS, until
from tests.wire.live import Failed, LiveClient
from tests.wire.messages import NEWEST_SESSION, Message, text_of

pytestmark = pytest.mark.nightly

TIMEOUT = SECONDS
"""Seconds until another server has taken over, and for answers."""


class Configured(Redis):
    """Redis with further options."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self._options = options

    def _command(self) -> list[str]:
        return [*super()._command(), *self._options]


class Sentinel(Redis):
    """Sentinel, which replaces the primary after a second of silence."""

    def __init__(self, folder: Path, primary: Redis) -> None:
        super().__init__(folder)
        (folder / "sentinel.conf").write_text(
            f"port {self.port}\n"
            "bind 127.0.0.1\n"
            f"dir {folder}\n"
            f"sentinel monitor main 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds main 1000\n"
            "sentinel failover-timeout main 3000\n"
        )

    def primary(self) -> int:
        """The port of the primary, as Sentinel knows it."""
        answer = self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        return int(answer.split(b"\r\n")[4])

    def replicas(self) -> int:
        """How many replicas of the primary Sentinel has found."""
        return int(self.command("SENTINEL", "REPLICAS", "main").split(b"\r\n")[0][1:])

    def _command(self) -> list[str]:
        binary = shutil.which("redis-server")
        assert binary is not None
        return [binary, str(self.folder / "sentinel.conf"), "--sentinel"]


@pytest.fixture
def folder() -> Iterator[Path]:
    if (reason := why_not_redis_server()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="sentinel-") as folder:
        yield Path(folder)


def sub_folder(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


@contextmanager
def two_workers(folder: Path, sentinel: Sentinel) -> Iterator[list[Worker]]:
    """Workers whose sessions, events and messages are in the Redis that Sentinel names."""
    given = {
        "database": sqlite(folder),
        "layer": {},
        "cache": {},
        "settings": {"STORES": CACHE_STORES},
    }
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": f"{SITE}.sentinel_settings",
        "SERVICES_SITE": json.dumps(given),
        "SENTINELS": json.dumps([["127.0.0.1", sentinel.port]]),
    }
    manage(environment, "migrate", "--verbosity", "0")
    with ExitStack() as stack:
        workers = [Worker(sub_folder(folder), environment) for _ in range(2)]
        for worker in workers:
            stack.callback(worker.kill)
            worker.begin()
        for worker in workers:
            worker.start()
        yield workers


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=TIMEOUT) as client:
        yield client


async def converse(http: httpx.AsyncClient, workers: list[Worker], word: str) -> None:
    """Keep something on one worker and ask by the other; both ways."""
    peer = LiveClient(http, f"{workers[0].url}/mcp", NEWEST_SESSION, elicitation={})
    await peer.initialize()
    for here, there in (workers, reversed(workers)):
        peer.url = f"{here.url}/mcp"
        await peer.tool("remember", token=word)

        async def requested(question: Message, there: Worker = there) -> None:
            peer.url = f"{there.url}/mcp"
            answer = {"action": "accept", "content": {"word": word}}
            await peer.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})

        assert text_of(await peer.stream_call("ask", requested, token=word)) == f"{word} {word}"
        assert word in text_of(await peer.tool("recall"))


async def test_workers_follow_the_primary_that_sentinel_names(
    folder: Path, http: httpx.AsyncClient
) -> None:
    with ExitStack() as stack:
        primary = stack.enter_context(running(Configured(sub_folder(folder))))
        follow = ("--replicaof", "127.0.0.1", str(primary.port))
        replica = stack.enter_context(running(Configured(sub_folder(folder), *follow)))
        sentinel = stack.enter_context(running(Sentinel(sub_folder(folder), primary)))
        workers = stack.enter_context(two_workers(folder, sentinel))
        await until(lambda: sentinel.replicas() == 1)
        await converse(http, workers, "before")

        primary.kill()
        await until(lambda: sentinel.primary() == replica.port)

        async with asyncio.timeout(TIMEOUT):
            while True:
                with suppress(Failed):
                    await converse(http, workers, "after")
                    break
                await asyncio.sleep(0.5)
        assert b"db2:" in replica.command("INFO", "keyspace")


async def test_layer_divides_groups_among_several_servers(folder: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(running(Redis(sub_folder(folder)))) for _ in range(2)]
        layer = RedisChannelLayer(hosts=[server.url for server in servers])
        channel = await layer.new_channel()
        groups = [f"group-{number}" for number in range(20)]
        for group in groups:
            await layer.group_add(group, channel)
            await layer.group_send(group, {"type": "hint", "group": group})
        async with asyncio.timeout(TIMEOUT):
            received = [(await layer.receive(channel))["group"] for _ in groups]
        assert sorted(received) == sorted(groups)
        assert all(server.keys() for server in servers)
        await layer.close_pools()


async def test_layer_does_not_work_on_redis_cluster(folder: Path) -> None:
    """The reason that the documentation gives: if this fails, it has changed."""
    with running(Configured(sub_folder(folder), "--cluster-enabled", "yes")) as server:
        server.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        await until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
        # As those of two processes: the channels of one are in one key, and so in one slot.
        layers = [RedisChannelLayer(hosts=[server.url]) for _ in range(2)]
        for layer in layers:
            await layer.group_add("group", await layer.new_channel())
        with pytest.raises(RedisError, match="slot"):
            await layers[0].group_send("group", {"type": "hint"})
        for layer in layers:
            await layer.close_pools()
