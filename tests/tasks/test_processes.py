"""Tasks in worker processes of django-tasks, and two web processes that answer for them.

No channel layer connects the processes: everything crosses by the row of the task.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.processes import ROOT
from tests.running_site import manage, serving
from tests.spec import spec
from tests.tasks.postgres import running_postgres, why_not
from tests.tasks.processes import LEASE, PYTHON, Site, Web, cancel_loop, has_reported, text_of

reason = why_not()
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_postgres() as database:
        site = Site(database, tmp_path_factory.mktemp("notes"))
        manage(PYTHON, ROOT, site.environment, "migrate", "--verbosity", "0")
        yield site


@pytest.fixture(scope="module")
def webs(site: Site) -> Iterator[tuple[Web, Web]]:
    """Two processes that answer clients."""
    with site.web() as one, site.web() as other:
        yield one, other


@pytest.fixture(scope="class")
def worker(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    with site.worker() as worker:
        yield worker


class TestOneWorker:
    def test_worker_runs_a_task_while_two_web_processes_answer(
        self, webs: tuple[Web, Web], worker: subprocess.Popen[bytes]
    ) -> None:
        task_id = webs[0].create("process", seconds=1.5)
        reports = [has_reported(web, task_id)["statusMessage"] for web in webs]
        done = [web.until(task_id, "completed", "failed") for web in webs]

        assert reports == [f"In {worker.pid}"] * 2
        assert [text_of(task) for task in done] == [str(worker.pid)] * 2

    @spec("TASK-81")
    @pytest.mark.usefixtures("worker")
    def test_cancelling_stops_a_synchronous_loop_in_the_worker(
        self, site: Site, webs: tuple[Web, Web]
    ) -> None:
        web = webs[0]
        assert cancel_loop(site, web) == ("cancelled", "completed", "ended")

    @pytest.mark.usefixtures("worker")
    def test_input_reaches_a_task_in_another_process(self, webs: tuple[Web, Web]) -> None:
        web = webs[0]
        task_id = web.create("greet")
        waiting = web.until(task_id, "input_required")
        accepted = {"action": "accept", "content": {"name": "Ada"}}
        responses = dict.fromkeys(waiting["inputRequests"], accepted)
        webs[1].request("tasks/update", taskId=task_id, inputResponses=responses)
        done = web.until(task_id, "completed", "failed")

        assert text_of(done) == "Hello, Ada!"


@pytest.mark.nightly
def test_killed_web_process_loses_no_task(site: Site, webs: tuple[Web, Web]) -> None:
    with ExitStack() as stack:
        served = serving("example_site.asgi:application", PYTHON, ROOT, site.environment)
        one = stack.enter_context(served)
        task_id = Web(one).create("process", seconds=0.5)
        one.kill()
        stack.enter_context(site.worker())
        done = webs[0].until(task_id, "completed", "failed")

    assert done["status"] == "completed"


@pytest.mark.nightly
def test_task_of_a_killed_worker_fails_within_two_leases(site: Site, webs: tuple[Web, Web]) -> None:
    with site.worker() as worker:
        task_id = webs[0].create("process", seconds=3600)
        has_reported(webs[0], task_id)
        worker.kill()
        killed = time.monotonic()
    failed = webs[1].until(task_id, "failed")
    took = time.monotonic() - killed

    assert failed["error"]["message"] == "The process that ran this task has stopped"
    assert took < 2 * LEASE + 10


@pytest.mark.nightly
def test_restart_of_the_database_loses_no_task(site: Site, webs: tuple[Web, Web]) -> None:
    with site.worker() as worker:
        task_id = webs[0].create("process", seconds=3)
        has_reported(webs[0], task_id)
        site.database.stop()
        site.database.start()
        done = webs[0].until(task_id, "completed", "failed")

    assert done["status"] == "completed", done
    assert text_of(done) == str(worker.pid)


@pytest.mark.nightly
def test_hundred_tasks_on_two_workers_run_once_each(site: Site, webs: tuple[Web, Web]) -> None:
    web = webs[0]
    ids = [web.create("once", number=number) for number in range(100)]
    with site.worker(), site.worker():
        done = [web.until(task_id, "completed", "failed") for task_id in ids]

    assert [text_of(task) for task in done] == [str(number) for number in range(100)]
    assert sorted(map(int, site.lines("once"))) == list(range(100))
