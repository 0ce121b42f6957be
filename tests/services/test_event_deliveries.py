"""Webhooks while workers are killed: nothing is lost or overtakes, and nobody is sent too much."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from django_mcp.contrib.events.testing import FakeReceiver, Received
from tests.processes import ROOT
from tests.services.instances import PostgreSQL, Redis
from tests.services.workers import SITE, broker_of
from tests.waiting import wait_until

WORKER = [sys.executable, "-m", "tests.services.event_worker"]
WORKERS = 3
CHANGES = int(os.environ.get("EVENT_CHANGES", "12500"))
"""Four of five have a reader: 10,000 events."""
KILLS = int(os.environ.get("EVENT_KILLS", "30"))
SECONDS = 1500.0
READERS = ("ann", "bob")


class Site:
    """Workers with a new database."""

    def __init__(self, folder: Path, database: dict[str, Any], **given: str) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.services.site.settings",
            "PYTHONPATH": str(ROOT),
            "SERVICES_SITE": json.dumps(
                {
                    "database": database,
                    "layer": {"BACKEND": "channels.layers.InMemoryChannelLayer"},
                    "cache": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
                    "settings": {"PRIVATE_HOSTS": ["127.0.0.1"]},
                    "apps": ["django_mcp.contrib.events"],
                    **given,
                }
            ),
        }

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._environment, cwd=ROOT, check=True, capture_output=True, text=True
        )
        return done.stdout

    def begin(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a process, which writes the log of this name."""
        with (self._folder / f"log-{name}").open("ab") as log:
            return subprocess.Popen(
                command, env=self._environment, cwd=ROOT, stdout=log, stderr=log
            )

    def work(
        self, number: int, workers: int = WORKERS, changes: int = CHANGES
    ) -> subprocess.Popen[bytes]:
        """Start one of the processes that make changes, and deliver as the site does."""
        arguments = ["work", str(number), str(workers), str(changes)]
        return self.begin(str(number), [*WORKER, *arguments])

    def report(self) -> tuple[list[str], bool, dict[str, int]]:
        """Return the names of all rows, whether there is work, and the deliveries by status."""
        names, has_work, deliveries = json.loads(self.run(*WORKER, "report"))
        return names, has_work, deliveries

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in self._folder.glob("log-*"))


def migrated(postgresql: PostgreSQL, folder: Path, **given: str) -> Site:
    made = Site(folder, postgresql.settings(postgresql.create_database()), **given)
    made.run(sys.executable, "-m", "django", "migrate", "--verbosity", "0")
    return made


@pytest.fixture
def site(postgresql: PostgreSQL, tmp_path: Path) -> Site:
    return migrated(postgresql, tmp_path)


@pytest.fixture
def workers(site: Site) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes, of which each has its number; what is in the list is killed at the end."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    finally:
        for process in running:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def names(received: Sequence[Received], reader: str) -> list[str]:
    """Return the rows that a reader was sent, each at its first arrival, and no others."""
    sent = [(each.subscription, each.body["data"]["name"]) for each in received]
    own = {subscription for subscription, name in sent if name.startswith(f"{reader} ")}
    assert len(own) == 1
    shown = [name for subscription, name in sent if subscription in own]
    assert {name.split()[0] for name in shown} == {reader}
    return list(dict.fromkeys(shown))


@pytest.mark.nightly
@pytest.mark.timeout(SECONDS + 300)
def test_every_committed_change_is_delivered_in_order_while_workers_are_killed(
    site: Site, workers: list[subprocess.Popen[bytes]]
) -> None:
    with FakeReceiver() as receiver:
        site.run(*WORKER, "subscribe", receiver.url, receiver.secret)
        workers += [site.work(number) for number in range(WORKERS)]
        expected = CHANGES - CHANGES // 5
        until = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < until:
            time.sleep(0.2)
            arrived = len({body["eventId"] for body in receiver.events})
            # One after the other, while there is something to lose.
            if kills < KILLS and arrived > expected * kills / (KILLS + 1):
                number = random.randrange(WORKERS)
                kill(workers[number])
                workers[number] = site.work(number)
                kills += 1
            if arrived >= expected and kills == KILLS:
                break
        while (report := site.report())[1] and time.monotonic() < until:
            time.sleep(1)
    rows, _, deliveries = report
    assert kills == KILLS
    assert len(rows) == CHANGES, site.log[-3000:]
    assert receiver.refused == []
    events = [each for each in receiver.requests if "eventId" in each.body]
    for reader in READERS:
        received = names(events, reader)
        assert sorted(received) == sorted(row for row in rows if row.startswith(f"{reader} "))
        for number in range(WORKERS):
            mine = [int(row.split()[1]) for row in received if row.endswith(f" {number}")]
            assert mine == sorted(mine)
    again = len(events) - expected
    print(f"{expected} events, {kills} kills, {again} delivered again, {deliveries}")


QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning")
RUNNERS = {
    "celery": ("celery", "-A", SITE, "worker", "-Q", "jobs", "--pool", "solo", *QUIET),
    "django_tasks": ("django", "db_worker", "--no-reload", "--interval", "0.1"),
}
"""The workers of the runners that a site may have."""
COMMITTED = 25
LOOKS = 2.0
"""Seconds in which a process looks at the tables several times."""


@pytest.mark.nightly
@pytest.mark.parametrize("runner", RUNNERS)
def test_worker_of_the_runner_delivers_what_killed_processes_left(
    runner: str,
    redis: Redis,
    postgresql: PostgreSQL,
    tmp_path: Path,
    workers: list[subprocess.Popen[bytes]],
) -> None:
    given = {
        "celery": broker_of(redis),
        "django_tasks": {"task_database": "django_tasks_db.DatabaseBackend"},
    }
    site = migrated(postgresql, tmp_path, **given[runner])
    command = [sys.executable, "-m", *RUNNERS[runner]]
    killed: list[str] = []

    def kill_worker(received: Received) -> int:
        """Kill the worker that sends the first event, so that it cannot read the answer."""
        if killed:
            return 200
        killed.append(received.id)
        kill(workers[-1])
        return 503

    with FakeReceiver() as receiver:
        receiver.status = kill_worker
        site.run(*WORKER, "subscribe", receiver.url, receiver.secret)
        workers.append(site.work(0, 1, COMMITTED))
        wait_until(lambda: len(site.report()[0]) == COMMITTED, "The changes are committed")
        kill(workers[0])
        time.sleep(LOOKS)
        of_nobody = [*receiver.events]
        workers.append(site.begin("first", command))
        wait_until(lambda: killed, "The worker has sent an event")
        # The message of the job, if the broker kept it, is in the hands of the killed worker.
        workers.append(site.work(0, 1, COMMITTED))
        time.sleep(LOOKS)
        of_killed = {body["eventId"] for body in receiver.events}
        workers.append(site.begin("second", command))
        wait_until(lambda: not site.report()[1], "Nothing is left to do", seconds=60)
        rows, _, deliveries = site.report()

    assert of_nobody == []
    assert killed[0] not in of_killed
    events = [each for each in receiver.requests if "eventId" in each.body]
    assert [each.id for each in events].count(killed[0]) == 2
    expected = COMMITTED - COMMITTED // 5
    assert len({body["eventId"] for body in receiver.events}) == expected, site.log[-3000:]
    for reader in READERS:
        assert names(events, reader) == [row for row in rows if row.startswith(f"{reader} ")]
    assert deliveries == {"delivered": expected}
