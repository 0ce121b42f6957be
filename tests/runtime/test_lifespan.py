"""The start of servers and extensions, which requests on any event loop wait for."""

from __future__ import annotations

import asyncio

import pytest

from django_mcp import Server
from django_mcp.core.server.extensions import INSTALLED, Extension
from django_mcp.runtime.lifespan import Lifespan


async def test_extension_of_servers_that_start_at_once_starts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts: list[str] = []

    async def start() -> None:
        starts.append("begun")
        await asyncio.sleep(0.01)
        starts.append("done")

    monkeypatch.setattr(INSTALLED, "all", (Extension(name="com.example/a", start=start),))
    lifespan = Lifespan()
    servers = [Server("one"), Server("two")]
    await asyncio.gather(*map(lifespan.start, servers))
    assert starts == ["begun", "done"]
    assert [server.is_running for server in servers] == [True, True]


async def test_extension_that_could_not_start_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[str] = []

    async def start() -> None:
        attempts.append("attempt")
        await asyncio.sleep(0.01)
        if len(attempts) == 1:
            raise ConnectionError("not yet")

    monkeypatch.setattr(INSTALLED, "all", (Extension(name="com.example/a", start=start),))
    lifespan = Lifespan()
    servers = [Server("one"), Server("two")]
    starting = [lifespan.start(server) for server in servers]
    errors = await asyncio.gather(*starting, return_exceptions=True)
    assert [type(error) for error in errors] == [ConnectionError, ConnectionError]
    await asyncio.gather(*map(lifespan.start, servers))
    assert attempts == ["attempt", "attempt"]
