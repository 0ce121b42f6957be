"""Tasks in Celery workers over Redis, and web processes that answer for them.

No channel layer connects the processes: everything but the id crosses by the row of the task.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from tests import databases
from tests.processes import ROOT, kill_group
from tests.running_site import manage
from tests.tasks.postgres import running_postgres, why_not
from tests.tasks.processes import (
    LEASE,
    PYTHON,
    Site,
    Web,
    cancel_loop,
    has_reported,
    text_of,
)

reason = why_not() or databases.why_not_redis("redis")
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))

APP = "tests.tasks.celery_site"
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning")


def command(pool: str = "solo", concurrency: int = 1) -> list[str]:
    pools = ["--pool", pool, "--concurrency", str(concurrency)]
    return ["-m", "celery", "-A", APP, "worker", "-Q", "jobs", *pools, *QUIET]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    prefix = f"test-{uuid4().hex}-"
    settings = {
        "DJANGO_SETTINGS_MODULE": "tests.tasks.celery_site.settings",
        "TASKS_BROKER": databases.REDIS_URL,
        "TASKS_PREFIX": prefix,
    }
    with running_postgres() as database, keys_deleted(prefix):
        site = Site(database, tmp_path_factory.mktemp("notes"), **settings)
        manage(PYTHON, ROOT, site.environment, "migrate", "--verbosity", "0")
        yield site


@contextmanager
def keys_deleted(prefix: str) -> Iterator[None]:
    import redis

    try:
        yield
    finally:
        with redis.Redis.from_url(databases.REDIS_URL) as server:
            for key in server.scan_iter(f"{prefix}*"):
                server.delete(key)


@pytest.fixture(scope="module")
def web(site: Site) -> Iterator[Web]:
    with site.web() as web:
        yield web


@pytest.fixture(scope="class")
def worker(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """The only worker, which runs one task at a time."""
    with site.worker(command()) as worker:
        yield worker


class TestOneWorker:
    def test_celery_worker_runs_a_task_with_progress(
        self, web: Web, worker: subprocess.Popen[bytes]
    ) -> None:
        task_id = web.create("process", seconds=1.5)
        reported = has_reported(web, task_id)
        done = web.until(task_id, "completed", "failed")

        assert reported["statusMessage"] == f"In {worker.pid}"
        assert text_of(done) == str(worker.pid)

    @pytest.mark.usefixtures("worker")
    def test_input_reaches_a_task_in_a_celery_worker(self, web: Web) -> None:
        task_id = web.create("greet")
        waiting = web.until(task_id, "input_required")
        accepted = {"action": "accept", "content": {"name": "Ada"}}
        responses = dict.fromkeys(waiting["inputRequests"], accepted)
        web.request("tasks/update", taskId=task_id, inputResponses=responses)
        done = web.until(task_id, "completed", "failed")

        assert text_of(done) == "Hello, Ada!"

    @pytest.mark.usefixtures("worker")
    def test_cancelling_stops_a_synchronous_loop_in_a_celery_worker(
        self, site: Site, web: Web
    ) -> None:
        assert cancel_loop(site, web) == ("cancelled", "completed", "ended")


@pytest.mark.nightly
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_tasks_on_two_celery_workers_run_once_each(site: Site, web: Web, pool: str) -> None:
    first = {"prefork": 100, "threads": 200}[pool]
    numbers = range(first, first + 20)
    ids = [web.create("once", number=number) for number in numbers]
    one, other = ([*command(pool, 2), "-n", f"{name}@%h"] for name in ("one", "other"))
    with site.worker(one), site.worker(other):
        done = [web.until(task_id, "completed", "failed") for task_id in ids]
    ran = sorted(int(line) for line in site.lines("once") if int(line) in numbers)

    assert [int(text_of(task)) for task in done] == ran == list(numbers)


@pytest.mark.nightly
def test_task_of_a_killed_celery_worker_fails_within_two_leases(site: Site, web: Web) -> None:
    with site.worker(command()) as worker:
        task_id = web.create("process", seconds=3600)
        has_reported(web, task_id)
        kill_group(worker)
        killed = time.monotonic()
        failed = web.until(task_id, "failed")
        took = time.monotonic() - killed

    assert failed["error"]["message"] == "The process that ran this task has stopped"
    assert took < 2 * LEASE + 10


@pytest.mark.parametrize("broker", ["away", "hangs"])
def test_call_is_refused_and_no_task_while_the_broker_does_not_answer(
    site: Site, broker: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        if broker == "away":
            silent.close()
        broken = Site(site.database, site.folder, **{**site.environment, "TASKS_BROKER": url})
        before = rows(site)
        with broken.web() as web:
            answer = web.post("tools/call", name="once", arguments={"number": 1})

    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert answer.json()["error"]["message"] == "The runner of tasks does not answer"
    assert rows(site) == before


def rows(site: Site) -> int:
    """The number of tasks in the database."""
    import psycopg

    port = site.database.port
    with psycopg.connect(host="127.0.0.1", port=port, user="postgres") as connection:
        found = connection.execute("SELECT count(*) FROM django_mcp_mcptask").fetchone()
    assert found is not None
    return int(found[0])
