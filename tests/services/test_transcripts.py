"""Conversations with three workers, of which any gets each request: they are those with one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.core.protocol.revisions import BY_VERSION
from tests.services.conversation import VERSIONS, transcript
from tests.services.instances import PostgreSQL, Redis
from tests.services.workers import Cluster, GunicornWithThreads, cluster

AT_ONCE = 3


@pytest.mark.parametrize("version", VERSIONS)
async def test_transcript_of_three_workers_equals_that_of_one(site: Cluster, version: str) -> None:
    one = await transcript(site.workers[0].url, version)
    found = await asyncio.gather(*(transcript(site.nginx.url, version) for _ in range(AT_ONCE)))

    for three in found:
        assert three == one


@pytest.mark.nightly
def test_transcript_under_wsgi_equals_that_under_asgi(redis: Redis, postgresql: PostgreSQL) -> None:
    """With streams admitted, so that both declare the same."""
    services: dict[str, Any] = {"redis": redis, "postgresql": postgresql, "WSGI_STREAMS": 6}
    with (
        cluster(1, **services) as asgi,
        cluster(1, server=GunicornWithThreads, **services) as wsgi,
    ):
        for version in BY_VERSION:
            expected = asyncio.run(transcript(asgi.workers[0].url, version))
            assert asyncio.run(transcript(wsgi.workers[0].url, version)) == expected
