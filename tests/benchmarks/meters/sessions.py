"""Sessions per second: initialize, initialized, ten calls and the deletion, in sequence.

Sixteen clients run concurrently, each on a persistent connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.benchmarks import machine, wire
from tests.benchmarks.answers import MeasurementError
from tests.benchmarks.calls import SESSIONS, Call
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.processes import Served, serving
from tests.benchmarks.samples import Effort, Meter, Ready, Sample, percentile

CALLS = 10
CLIENT = {"name": "bench", "version": "1.0"}
INITIALIZE = Call(
    method="initialize",
    params={"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": CLIENT},
    is_expected=lambda messages: messages[-1].get("result", {}).get("protocolVersion") == SESSIONS,
    version=SESSIONS,
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


@contextmanager
def ready(contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Start the contestant, verify the responses of one session, and warm it up."""
    with serving(contestant) as served:
        asyncio.run(_check(served))
        asyncio.run(_run(served, effort.connections, effort.warm_up))
        yield Ready(sample=lambda: asyncio.run(_run(served, effort.connections, effort.seconds)))


METER = Meter(unit="sessions/s", ready=ready)


class Session:
    """A client with its connection. It parses only the length of a response."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._call = served.contestant.call

    async def connect(self) -> None:
        """Open the connection."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._served.port)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def conversation(self) -> list[bytes]:
        """Run one session; return the bodies of the responses."""
        headers, first = await self._send("POST", INITIALIZE.all_headers, INITIALIZE.body)
        named = {"mcp-session-id": headers["mcp-session-id"]}
        await self._send("POST", self._call.all_headers | named, INITIALIZED)
        request = self._request("POST", self._call.all_headers | named, self._call.body)
        answers = [(await self._exchange(request))[1] for _ in range(CALLS)]
        await self._send("DELETE", self._call.all_headers | named, b"")
        return [first, *answers]

    def _request(self, verb: str, headers: dict[str, str], body: bytes) -> bytes:
        served = self._served
        return wire.request(served.port, served.contestant.path, headers, body, verb=verb)

    async def _send(
        self, verb: str, headers: dict[str, str], body: bytes
    ) -> tuple[dict[str, str], bytes]:
        return await self._exchange(self._request(verb, headers, body))

    async def _exchange(self, request: bytes) -> tuple[dict[str, str], bytes]:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head[:-4].split("\r\n")
        headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}
        body = await self._body(headers)
        if status.split(" ", 2)[1] not in {"200", "202", "204"}:
            raise MeasurementError(f"{self._served.contestant.label}: {status} {body!r}")
        return headers, body

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return b""
        parts: list[bytes] = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(parts)


async def _check(served: Served) -> None:
    session = Session(served)
    await session.connect()
    first, *answers = await session.conversation()
    session.close()
    is_expected = served.contestant.call.is_expected
    are_expected = all(is_expected(_messages(each)) for each in answers)
    if not INITIALIZE.is_expected(_messages(first)) or not are_expected:
        raise MeasurementError(f"{served.contestant.label} answered {first!r}, {answers[-1]!r}")


def _messages(body: bytes) -> list[dict[str, Any]]:
    if body.startswith(b"{"):
        return [json.loads(body)]
    data = (line[5:].strip() for line in body.splitlines() if line.startswith(b"data:"))
    return [json.loads(text) for text in data if text]


async def _run(served: Served, clients: int, seconds: float) -> Sample:
    durations: list[float] = []
    before = machine.processor_seconds(served.pid)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(_converse(served, durations, began + seconds))
    lasted = time.perf_counter() - began
    return Sample(
        value=len(durations) / lasted,
        p50=percentile(durations, 50) * 1000,
        p99=percentile(durations, 99) * 1000,
        processor=(machine.processor_seconds(served.pid) - before) * 1e6 / len(durations),
    )


async def _converse(served: Served, durations: list[float], until: float) -> None:
    session = Session(served)
    await session.connect()
    while not durations or time.perf_counter() < until:
        began = time.perf_counter()
        await session.conversation()
        durations.append(time.perf_counter() - began)
    session.close()
