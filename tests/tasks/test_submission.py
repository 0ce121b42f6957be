"""Calls whose task cannot be submitted: a broker that is away, or hangs, whichever runner it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError

from django_mcp import Server
from django_mcp.models import McpTask
from django_mcp.tasks import execution, run, store, submission
from django_mcp.tasks.runners import celery, django_tasks, in_process
from django_mcp.tasks.runners.base import Runner
from django_mcp.tasks.store import TaskStore
from django_mcp.testing import Client, ErrorResponse
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.waiting import SECONDS, until

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = SECONDS
Send = Callable[..., None]
ran: list[str] = []


class BrokenInProcessRunner(in_process.InProcessRunner):
    send: Send

    async def submit(self, task_id: str) -> None:
        await asyncio.to_thread(type(self).send, task_id)


def break_celery(monkeypatch: pytest.MonkeyPatch, send: Send) -> str:
    monkeypatch.setattr(celery.run_task, "apply_async", lambda args, **_: send(*args))
    monkeypatch.setattr(celery, "FALLBACK", "none of this name")
    return "django_mcp.tasks.runners.celery.CeleryRunner"


def break_django_tasks(monkeypatch: pytest.MonkeyPatch, send: Send) -> str:
    monkeypatch.setattr(type(django_tasks.run_task), "enqueue", lambda self, *args: send(*args))
    return "django_mcp.tasks.runners.django_tasks.DjangoTasksRunner"


def break_in_process(monkeypatch: pytest.MonkeyPatch, send: Send) -> str:
    monkeypatch.setattr(BrokenInProcessRunner, "send", staticmethod(send), raising=False)
    return f"{__name__}.BrokenInProcessRunner"


QUEUES = {"celery": break_celery, "django_tasks": break_django_tasks}
EVERY = {**QUEUES, "in_process": break_in_process}


def make_server() -> Server:
    server = Server("shop")
    ran.clear()

    @server.tool(task_support="required")
    def work() -> str:
        ran.append("work")
        return "done"

    return server


def client_of(server: Server) -> Client:
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    options: dict[str, Any] = {"capabilities": capabilities, "sync_execution": "threads"}
    return Client(server, version="2026-07-28", **options)


async def call(client: Client) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as caught:
        await client.request("tools/call", {"name": "work", "arguments": {}})
    return caught.value


@pytest.fixture
def broker() -> Iterator[threading.Event]:
    """Set when a broker that hangs goes on."""
    event = threading.Event()
    yield event
    event.set()


@spec("TASK-92")
@pytest.mark.parametrize("name", EVERY)
async def test_call_is_refused_while_the_broker_is_away(
    name: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(task_id: str) -> None:
        raise OSError("The broker is gone")

    configure(TASK_RUNNER={"BACKEND": EVERY[name](monkeypatch, send)})
    async with client_of(make_server()) as client, asyncio.timeout(PATIENCE):
        error = await call(client)

    assert (error.code, error.message) == (-32603, "The runner of tasks does not answer")
    assert await McpTask._default_manager.acount() == 0


@pytest.mark.parametrize("name", QUEUES)
async def test_call_that_was_refused_never_runs_however_late_its_message_is(
    name: str, configure: Configure, broker: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def hang(task_id: str) -> None:
        broker.wait(PATIENCE)
        sent.append(task_id)

    runner = {"BACKEND": QUEUES[name](monkeypatch, hang)}
    configure(TASK_RUNNER=runner, STORE_TIMEOUT=0.3)
    async with client_of(make_server()) as client, asyncio.timeout(PATIENCE):
        error = await call(client)
        # The threads of the stores are free: another task of this worker can be looked up.
        with pytest.raises(ErrorResponse, match="Unknown task"):
            await client.request("tasks/get", {"taskId": "unknown"})
        broker.set()
        await until(lambda: sent)
        await execution.run(sent[0])

    assert error.message == "The runner of tasks does not answer"
    assert ran == []


async def test_call_is_given_up_later_if_the_database_is_away_as_well(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(task_id: str) -> None:
        raise OSError("The broker is gone")

    real, failed = TaskStore.delete, list[str]()

    async def delete(self: TaskStore, task_id: str) -> None:
        if not failed:
            failed.append(task_id)
            raise OperationalError("The database is gone")
        await real(self, task_id)

    monkeypatch.setattr(submission, "RETRY", 0.01)
    monkeypatch.setattr(TaskStore, "delete", delete)
    configure(TASK_RUNNER={"BACKEND": break_in_process(monkeypatch, send)})
    async with client_of(make_server()) as client, asyncio.timeout(PATIENCE):
        error = await call(client)
        while await McpTask._default_manager.acount():
            await asyncio.sleep(0.01)

    assert (error.message, len(failed)) == ("The runner of tasks does not answer", 1)


@pytest.mark.parametrize("failing", ["start", "answer of the start", "caller"])
async def test_task_starts_once_although_the_database_fails_meanwhile(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_start, real_restore, failed = TaskStore.start, execution.restore, list[str]()

    def fail(where: str) -> None:
        if where == failing and not failed:
            failed.append(where)
            raise OperationalError("The database is restarting")

    async def start(self: TaskStore, task_id: str, lease_owner: str) -> Any:
        fail("start")
        started = await real_start(self, task_id, lease_owner)
        fail("answer of the start")
        return started

    async def restore(*args: Any) -> Any:
        fail("caller")
        return await real_restore(*args)

    monkeypatch.setattr(run, "RETRY", 0.01)
    monkeypatch.setattr(execution, "restore", restore)
    monkeypatch.setattr(TaskStore, "start", start)
    async with client_of(make_server()) as client, asyncio.timeout(PATIENCE):
        task = await client.request("tools/call", {"name": "work", "arguments": {}})
        while task["status"] == "working":
            await asyncio.sleep(0.01)
            task = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert (task["status"], ran, failed) == ("completed", ["work"], [failing])


@pytest.mark.parametrize("name", QUEUES)
async def test_task_may_wait_in_a_queue_for_longer_than_the_lease_of_a_process(
    name: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(store, "LEASE", 0.001)
    configure(TASK_RUNNER={"BACKEND": QUEUES[name](monkeypatch, sent.append)})
    async with client_of(make_server()) as client, asyncio.timeout(PATIENCE):
        task = await client.request("tools/call", {"name": "work", "arguments": {}})
        await asyncio.sleep(0.01)
        task = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert (task["status"], sent) == ("working", [task["taskId"]])


def test_messages_of_celery_are_acknowledged_after_the_run() -> None:
    assert celery.run_task.acks_late
    assert celery.run_task.reject_on_worker_lost


def test_every_runner_of_the_package_is_tested() -> None:
    modules = {cls.__module__.rpartition(".")[2] for cls in Runner.__subclasses__()}
    assert {*EVERY} <= modules
