"""Questions of tasks to clients that drop their stream, or whose user takes long."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from pydantic import BaseModel

from django_mcp import Frame, Server
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.tasks import changes, result_streams, run, store
from django_mcp.testing import Client
from tests.constants import SetConstants
from tests.memory_stores import configure
from tests.waiting import SECONDS, until

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = SECONDS
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}


class Name(BaseModel):
    name: str


def make_server() -> Server:
    server = Server("shop")

    @server.tool(task_support="required")
    async def greet(frame: Frame) -> str:
        await frame.client.alog("info", "Asking")
        answer = await frame.client.aelicit("Your name?", Name, key="name")
        return f"Hello, {answer.content.name}!"

    return server


async def create(client: Client) -> dict[str, Any]:
    """The parameters that name a new task."""
    params = {"name": "greet", "arguments": {}, "task": {"ttl": 60_000}}
    return {"taskId": (await client.request("tools/call", params))["task"]["taskId"]}


class Person:
    """A user of a client; the first ``ignored`` questions are never answered."""

    def __init__(self, ignored: int = 0) -> None:
        self.ignored = ignored
        self.asked = 0
        self.is_asked = asyncio.Event()

    async def answer(self, params: Any) -> dict[str, Any]:
        self.asked += 1
        self.is_asked.set()
        if self.asked <= self.ignored:
            await asyncio.Event().wait()
        return ACCEPTED


def client_of(server: Server, who: User, user: Person, **options: Any) -> Client:
    return Client(server, version="2025-11-25", user=who, elicitation=user.answer, **options)


async def test_question_without_an_answer_is_asked_again_in_another_session() -> None:
    ada = await User.objects.acreate_user("ada")
    server, gone, back = make_server(), Person(ignored=100), Person()
    async with (
        client_of(server, ada, gone) as first,
        client_of(server, ada, back) as second,
        asyncio.timeout(PATIENCE),
    ):
        task = await create(first)
        waiting = asyncio.create_task(first.request("tasks/result", task))
        await gone.is_asked.wait()
        result = await second.request("tasks/result", task)
        late = await waiting

    assert result["content"] == late["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert (gone.asked, back.asked) == (1, 1)


async def test_question_is_asked_on_the_stream_of_the_session_if_no_request_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_streams, "GRACE", 0.05)
    ada = await User.objects.acreate_user("ada")
    user = Person()
    async with (
        client_of(make_server(), ada, user, transport="http") as client,
        client.listen(),
        asyncio.timeout(PATIENCE),
    ):
        task = await create(client)

        async def is_completed() -> bool:
            state: dict[str, Any] = await client.request("tasks/get", task)
            return bool(state["status"] == "completed")

        # As a client does which polls, and waits for the result at the end alone.
        await until(is_completed)
        result = await client.request("tasks/result", task)

    assert result["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert user.asked == 1


@pytest.mark.parametrize("operation", ["row", "load", "change", "send_request"])
async def test_question_is_asked_on_the_stream_of_the_session_after_an_outage(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ``operation`` of the run that sends the question finds no database."""
    monkeypatch.setattr(result_streams, "GRACE", 0.05)
    monkeypatch.setattr(changes, "POLL", 0.05)
    monkeypatch.setattr(run, "RETRY", 0.05)
    rows = store.get()
    of_delivery = SimpleNamespace(get=lambda: rows, call_of=store.call_of)
    monkeypatch.setattr(result_streams, "store", of_delivery)
    failing = result_streams._SessionStream if operation == "send_request" else rows
    work = getattr(failing, operation)
    failed: list[str] = []

    async def fail_once(*args: Any, **options: Any) -> Any:
        if not failed:
            failed.append(operation)
            raise StoreUnavailable
        return await work(*args, **options)

    monkeypatch.setattr(failing, operation, fail_once)
    ada = await User.objects.acreate_user("ada")
    user = Person()
    async with (
        client_of(make_server(), ada, user, transport="http") as client,
        client.listen(),
        asyncio.timeout(PATIENCE),
    ):
        task = await create(client)
        await user.is_asked.wait()

        async def is_completed() -> bool:
            state: dict[str, Any] = await client.request("tasks/get", task)
            return bool(state["status"] == "completed")

        await until(is_completed)

    assert failed == [operation]
    assert user.asked == 1


async def test_question_on_the_stream_of_the_session_is_cancelled_for_a_request_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_streams, "GRACE", 0.05)
    ada = await User.objects.acreate_user("ada")
    user = Person(ignored=1)
    async with (
        client_of(make_server(), ada, user, transport="http") as client,
        client.listen(),
        asyncio.timeout(PATIENCE),
    ):
        task = await create(client)
        await user.is_asked.wait()
        result = await client.request("tasks/result", task)

    assert result["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert user.asked == 2


async def test_question_is_asked_again_when_its_time_is_over(set_constants: SetConstants) -> None:
    set_constants(RESPONSE_TIMEOUT=0.2)
    ada = await User.objects.acreate_user("ada")
    user = Person(ignored=1)
    async with client_of(make_server(), ada, user) as client, asyncio.timeout(PATIENCE):
        task = await create(client)
        result = await client.request("tasks/result", task)

    assert result.text == "Hello, Ada!"
    assert user.asked == 2


async def test_older_request_asks_at_once_when_the_newest_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "POLL", 2 * PATIENCE)
    ada = await User.objects.acreate_user("ada")
    server, patient, gone = make_server(), Person(ignored=1), Person(ignored=100)
    async with (
        client_of(server, ada, patient) as first,
        client_of(server, ada, gone) as second,
        asyncio.timeout(PATIENCE),
    ):
        task = await create(first)
        waiting = asyncio.create_task(first.request("tasks/result", task))
        await patient.is_asked.wait()
        newest = asyncio.create_task(second.request("tasks/result", task))
        await gone.is_asked.wait()
        newest.cancel()
        result = await waiting

    assert result.text == "Hello, Ada!"
