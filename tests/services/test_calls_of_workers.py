"""What three workers count together: quotas, and the call log while they are restarted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import httpx
import pytest

from tests.http_client import TIMEOUT, message
from tests.services.instances import PostgreSQL, Redis
from tests.services.limits import LIMIT
from tests.services.workers import Cluster, cluster
from tests.waiting import PAUSE

pytestmark = pytest.mark.nightly

CALLERS = 12


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(CALLERS) as threads:
        return list(threads.map(work, range(CALLERS)))


@pytest.mark.parametrize("cache", ["redis", "database", "database on SQLite"])
def test_quota_allows_exactly_its_calls_over_three_workers(
    cache: str, redis: Redis, postgresql: PostgreSQL
) -> None:
    body, headers = message("limited", {})
    choices: dict[str, dict[str, Any]] = {
        "redis": {"postgresql": postgresql, "cache": True},
        "database": {"postgresql": postgresql, "database_cache": True},
        "database on SQLite": {"database_cache": True},
    }
    with cluster(redis=redis, **choices[cache]) as site:

        def call(number: int) -> list[dict[str, Any]]:
            url = f"{site.workers[number % 3].url}/limited"
            with httpx.Client(timeout=TIMEOUT, trust_env=False) as client:
                posts = range(2 * LIMIT // CALLERS)
                return [client.post(url, content=body, headers=headers).json() for _ in posts]

        answers = [answer for of_thread in in_threads(call) for answer in of_thread]
    results = [answer["result"] for answer in answers if "result" in answer]
    allowed = [result for result in results if not result.get("isError")]
    refused = [result for result in results if result.get("isError")]
    assert len(results) == len(answers), [each for each in answers if "result" not in each]
    assert all("Too many calls" in result["content"][0]["text"] for result in refused)
    assert (len(allowed), len(refused)) == (LIMIT, len(answers) - LIMIT)
    by_process = Counter(result["structuredContent"] for result in allowed)
    assert len(by_process) == 3, by_process


CALLS = 10_000
TOLD_TO_STOP_AFTER = (2_000, 4_500, 7_000)
"""Answers before each worker in turn is told to stop."""


class Callers:
    """Threads that call a tool through the balancer, until there are enough answers."""

    def __init__(self, url: str) -> None:
        self._statuses: list[int] = []
        self.unanswered: list[str] = []
        self._url = url
        self._numbers = count()
        self._body, self._headers = message("echo_async", {"token": "t"})

    @property
    def answered(self) -> int:
        return len(self._statuses)

    def call(self, _thread: int) -> None:
        with httpx.Client(timeout=TIMEOUT, trust_env=False) as client:
            while next(self._numbers) < CALLS:
                self._post(client)

    def _post(self, client: httpx.Client) -> None:
        try:
            response = client.post(self._url, content=self._body, headers=self._headers)
        except httpx.TransportError as error:
            self.unanswered.append(repr(error))
            return
        if response.status_code == 200 and "result" in response.json():
            self._statuses.append(response.status_code)
        else:
            self.unanswered.append(response.text[:200])


def restart_workers(site: Cluster, answered: Callable[[], int]) -> None:
    for worker, threshold in zip(site.workers, TOLD_TO_STOP_AFTER, strict=True):
        while answered() < threshold:
            time.sleep(PAUSE)
        worker.restart()


@pytest.mark.parametrize("store", ["postgresql", "sqlite"])
def test_each_answered_call_is_a_row_while_workers_are_restarted(
    store: str, redis: Redis, postgresql: PostgreSQL
) -> None:
    where: dict[str, Any] = {"postgresql": postgresql} if store == "postgresql" else {}
    with cluster(redis=redis, apps=["django_mcp.contrib.call_log"], **where) as site:
        callers = Callers(site.url)
        began = time.monotonic()
        with ThreadPoolExecutor(CALLERS + 1) as threads:
            restarting = threads.submit(restart_workers, site, lambda: callers.answered)
            list(threads.map(callers.call, range(CALLERS)))
            restarting.result()
        seconds = time.monotonic() - began
        for worker in site.workers:
            worker.stop()
        rows = int(site.manage("shell", "--verbosity", "0", "--command", COUNT))
    print(f"{callers.answered} answers, {callers.unanswered} others, {rows} rows, {seconds:.0f} s")
    # A response may be lost with its connection; its call is a row.
    assert callers.answered <= rows <= callers.answered + len(callers.unanswered)
    assert callers.answered + len(callers.unanswered) == CALLS
    assert len(callers.unanswered) < CALLS / 1000, callers.unanswered


COUNT = "from django_mcp.contrib.call_log.models import Call; print(Call.objects.count())"
