"""Calls that need an approval and run as tasks: the task waits for the decision."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from django_mcp import McpError, Server, conf
from django_mcp.contrib.approvals.models import Approval, Decision, Phase
from django_mcp.runtime import housekeeping
from django_mcp.tasks import execution, store, submission
from django_mcp.tasks.runners.base import Runner
from django_mcp.testing import Client
from tests import waiting
from tests.contrib.approvals.till import browser_of, carried_out, decision, page_of, text_of
from tests.waiting import SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

SESSION, STATELESS = "2025-11-25", "2026-07-28"
BOTH = pytest.mark.parametrize("version", [SESSION, STATELESS])
EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def client_of(server: Server, version: str, who: User) -> Client:
    return Client(
        server,
        version=version,
        user=who,
        capabilities={"elicitation": {}, **(EXTENSION if version == STATELESS else {})},
        sync_execution="threads",
        timeout=SECONDS,
    )


async def create(client: Client, tool: str = "pay_as_task", amount: int = 7) -> str:
    """Call the tool as a task; return the id of the task."""
    wish = {"task": {"ttl": 60_000}} if client.revision.version == SESSION else {}
    params = {"name": tool, "arguments": {"amount": amount}, **wish}
    created = await client.request("tools/call", params)
    return str(created["task"]["taskId"] if wish else created["taskId"])


async def get(client: Client, task: str) -> dict[str, Any]:
    return await client.request("tasks/get", {"taskId": task})


async def until(client: Client, task: str, *statuses: str) -> dict[str, Any]:
    async def poll() -> dict[str, Any] | None:
        state = await get(client, task)
        return state if state["status"] in statuses else None

    return await waiting.until(poll, f"The task is {statuses}")


async def decide(key: str, who: User, choice: str) -> None:
    def post() -> None:
        browser_of(who).post(page_of(key), decision(key, choice))

    await sync_to_async(post)()


@BOTH
@pytest.mark.parametrize(("choice", "expected"), [("approve", "Paid 7"), ("decline", "declined")])
async def test_task_ends_with_the_result_of_the_decision(
    version: str, choice: str, expected: str, server: Server, ann: User, bob: User
) -> None:
    async with client_of(server, version, ann) as client:
        task = await create(client)
        waiting = await get(client, task)
        assert waiting["status"] == "working"
        assert page_of(task) in waiting["statusMessage"]
        await decide(task, bob, choice)
        ended = await until(client, task, "completed", "failed")
        if version == SESSION:
            result = await client.request("tasks/result", {"taskId": task})
        else:
            result = ended["result"]
    assert expected in text_of(result)
    assert carried_out == ([7] if choice == "approve" else [])


async def test_approved_task_keeps_the_lifetime_that_its_client_requested(
    server: Server, ann: User, bob: User
) -> None:
    requested = timedelta(hours=20)
    async with client_of(server, SESSION, ann) as client:
        params = {"name": "pay_as_task", "arguments": {"amount": 7}}
        wish = {"task": {"ttl": round(requested.total_seconds() * 1000)}}
        task = (await client.request("tools/call", {**params, **wish}))["task"]["taskId"]
        await decide(task, bob, "approve")
        await until(client, task, "completed")

    row = await Approval.objects.aget(pk=task)
    assert row.decided_at is not None
    lifetime = timedelta(seconds=conf.get().approval_lifetime)
    kept = row.expires_at - row.decided_at - lifetime
    assert abs(kept - requested) < timedelta(minutes=1)


@BOTH
async def test_client_that_waits_for_the_result_receives_it(
    version: str, server: Server, ann: User, bob: User
) -> None:
    if version == STATELESS:
        pytest.skip("tasks/result is a method of sessions")
    async with client_of(server, version, ann) as client:
        task = await create(client)
        waiting = asyncio.create_task(client.request("tasks/result", {"taskId": task}))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await decide(task, bob, "approve")
        assert text_of(await waiting) == "Paid 7"


async def test_approved_task_whose_message_is_lost_is_submitted_again(
    server: Server, ann: User, bob: User
) -> None:
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client)
        row = await Approval.objects.aget()
        await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
        assert submission.submit_unstarted in housekeeping.steps_of_extensions()
        await submission.submit_unstarted(0)
        assert (await Approval.objects.aget()).is_unstarted  # Its message may be on its way.
        await Approval.objects.aupdate(updated_at=timezone.now() - store.START_TIME)
        await submission.submit_unstarted(0)
        ended = await until(client, task, "completed", "failed")
        await submission.submit_unstarted(0)
    assert (text_of(ended["result"]), carried_out) == ("Paid 7", [7])


async def test_task_behind_busy_workers_is_submitted_ever_less_often(
    server: Server, ann: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[str] = []

    async def submit(task_id: str) -> bool:
        submitted.append(task_id)
        return True

    monkeypatch.setattr(submission, "submit_approved", submit)
    async with client_of(server, STATELESS, ann) as client:
        await create(client)
        row = await Approval.objects.aget()
        await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
        rounds = range(60, 8 * 3600, 60)
        for age in rounds:
            since = timezone.now() - timedelta(seconds=age)
            await Approval.objects.aupdate(updated_at=since)
            await submission.submit_unstarted(0)
    assert 20 <= len(submitted) <= 40


async def test_broker_that_is_away_is_asked_once_a_round(
    server: Server, ann: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def submit(task_id: str) -> bool:
        asked.append(task_id)
        return False

    async with client_of(server, STATELESS, ann) as client:
        for amount in (1, 2):
            await create(client, amount=amount)
    for row in [row async for row in Approval.objects.all()]:
        await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
    await Approval.objects.aupdate(updated_at=timezone.now() - store.START_TIME)
    monkeypatch.setattr(submission, "submit_approved", submit)
    await submission.submit_unstarted(0)
    assert len(asked) == 1


async def test_task_that_waits_for_its_approval_is_not_submitted(server: Server, ann: User) -> None:
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client)
        await Approval.objects.aupdate(updated_at=timezone.now() - store.START_TIME)
        await submission.submit_unstarted(0)
        assert (await get(client, task))["status"] == "working"
    assert ((await Approval.objects.aget()).phase, carried_out) == (Phase.WAITING, [])


async def test_task_waits_without_its_process(server: Server, ann: User, bob: User) -> None:
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client)
    await decide(task, bob, "approve")
    async with client_of(server, STATELESS, ann) as client:
        ended = await until(client, task, "completed", "failed")
    assert text_of(ended["result"]) == "Paid 7"


@BOTH
async def test_task_on_which_nobody_decides_ends_with_a_result_that_says_so(
    version: str, server: Server, ann: User, configure: Any
) -> None:
    configure(BASE_URL="https://till.example", APPROVAL_LIFETIME=0.3)
    async with client_of(server, version, ann) as client:
        task = await create(client)
        await until(client, task, "completed", "failed")
        if version == SESSION:
            result = await client.request("tasks/result", {"taskId": task})
        else:
            result = (await get(client, task))["result"]
    assert result["isError"]
    assert "Nobody has approved this call of pay_as_task in time" in text_of(result)


@BOTH
async def test_cancelled_task_withdraws_its_call(
    version: str, server: Server, ann: User, bob: User
) -> None:
    async with client_of(server, version, ann) as client:
        task = await create(client)
        await client.request("tasks/cancel", {"taskId": task})
    await decide(task, bob, "approve")
    assert (await Approval.objects.aget()).phase == Phase.WITHDRAWN
    assert carried_out == []


async def test_approved_task_has_progress_and_input(
    server: Server, ann: User, bob: User, threads_of_decisions: Any
) -> None:
    threads_of_decisions()
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client, "pay_from_drawer")
        await decide(task, bob, "approve")
        waiting = await until(client, task, "input_required")
        content = {"action": "accept", "content": {"number": 3}}
        responses = dict.fromkeys(waiting["inputRequests"], content)
        await client.request("tasks/update", {"taskId": task, "inputResponses": responses})
        ended = await until(client, task, "completed", "failed")

    assert ended["statusMessage"] == "Counting"
    assert text_of(ended["result"]) == "Paid 7 from 3"
    assert carried_out == [7]


async def test_cancelled_task_stops_its_approved_call(
    server: Server, ann: User, bob: User, threads_of_decisions: Any
) -> None:
    threads_of_decisions()
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client, "pay_slowly")
        await decide(task, bob, "approve")
        await waiting.until(lambda: carried_out)
        await client.request("tasks/cancel", {"taskId": task})
        message = text_of(await client.call_tool("approval_status", {"id": task}))

    assert (await Approval.objects.aget()).phase == Phase.STOPPED
    assert "was cancelled while it ran" in message


submitted: list[str] = []


class QueueOfTests(Runner):
    """Keeps the ids of tasks, as a queue does."""

    async def submit(self, task_id: str) -> None:
        submitted.append(task_id)


class BrokenQueue(Runner):
    """Fails once."""

    async def submit(self, task_id: str) -> None:
        submitted.append(task_id)
        if len(submitted) == 1:
            raise OSError("The broker is gone")


@BOTH
@pytest.mark.parametrize("tool", ["pay_as_task", "pay"])
async def test_approved_call_is_submitted_to_the_runner_of_the_site(
    version: str, tool: str, server: Server, ann: User, bob: User, configure: Any
) -> None:
    submitted.clear()
    runner = {"BACKEND": f"{__name__}.QueueOfTests"}
    configure(BASE_URL="https://till.example", TASK_RUNNER=runner)
    async with client_of(server, version, ann) as client:
        if tool == "pay_as_task":
            key = await create(client)
        else:
            await client.call_tool("pay", {"amount": 7})
            key = (await Approval.objects.aget()).pk
        assert submitted == []
        await decide(key, bob, "approve")
        assert submitted == [key]
        assert carried_out == []
        # In a worker, twice: the queue may deliver a message again.
        await execution.run(key)
        await execution.run(key)

    assert (await Approval.objects.aget()).phase == Phase.COMPLETED
    assert carried_out == [7]


async def test_approved_call_stays_approved_without_the_broker(
    server: Server, ann: User, bob: User, configure: Any
) -> None:
    submitted.clear()
    runner = {"BACKEND": f"{__name__}.BrokenQueue"}
    configure(BASE_URL="https://till.example", TASK_RUNNER=runner)
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client)
        await decide(task, bob, "approve")
        row = await Approval.objects.aget()
        assert (row.phase, row.decided_by_name) == (Phase.APPROVED, "bob")
        configure(BASE_URL="https://till.example")
        result = await client.call_tool("approval_status", {"id": task})

    assert text_of(result) == "Paid 7"


@BOTH
async def test_invalid_arguments_are_the_error_of_the_task(
    version: str, server: Server, ann: User
) -> None:
    wish = {"task": {"ttl": 60_000}} if version == SESSION else {}
    params = {"name": "pay_as_task", "arguments": {"amount": "much"}, **wish}
    async with client_of(server, version, ann) as client:
        created = await client.request("tools/call", params)
        task = created["task"]["taskId"] if wish else created["taskId"]
        await until(client, task, "completed", "failed")
    assert not await Approval.objects.aexists()


@BOTH
async def test_plain_call_that_waits_is_no_task_of_the_client(
    version: str, server: Server, ann: User
) -> None:
    async with client_of(server, version, ann) as client:
        await client.call_tool("pay", {"amount": 7})
        key = (await Approval.objects.aget()).pk
        with pytest.raises(McpError):
            await get(client, key)
        if version == SESSION:
            assert (await client.request("tasks/list", {}))["tasks"] == []
