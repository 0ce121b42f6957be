"""Conversations with three workers, of which any gets each request: they are those with one."""

from __future__ import annotations

import asyncio

import pytest

from tests.services.conversation import VERSIONS, transcript
from tests.services.workers import Cluster

AT_ONCE = 3


@pytest.mark.parametrize("version", VERSIONS)
async def test_transcript_of_three_workers_equals_that_of_one(site: Cluster, version: str) -> None:
    one = await transcript(site.workers[0].url, version)
    found = await asyncio.gather(*(transcript(site.nginx.url, version) for _ in range(AT_ONCE)))

    for three in found:
        assert three == one
