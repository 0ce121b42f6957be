"""Calls that need an approval and run as tasks: the task waits for the decision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.approvals import gate, runner
from django_mcp.approvals.life_cycle import Status
from django_mcp.approvals.models import Approval
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores import retries
from django_mcp.testing import Client
from tests import waiting
from tests.approvals.till import browser_of, carried_out, decision, page_of, released, text_of

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
        timeout=60,
    )


async def create(client: Client, tool: str = "pay_as_task") -> str:
    """Call the tool as a task; return the id of the task."""
    wish = {"task": {"ttl": 60_000}} if client.revision.version == SESSION else {}
    params = {"name": tool, "arguments": {"amount": 7}, **wish}
    created = await client.request("tools/call", params)
    return str(created["task"]["taskId"] if wish else created["taskId"])


async def get(client: Client, task: str) -> dict[str, Any]:
    return await client.request("tasks/get", {"taskId": task})


async def until(client: Client, task: str, *statuses: str) -> dict[str, Any]:
    async def poll() -> dict[str, Any] | None:
        state = await get(client, task)
        return state if state["status"] in statuses else None

    return await waiting.until(poll, f"The task is {statuses}")


async def waiting_row(*, held: bool = False) -> Approval:
    """The row of the call, as soon as it is there; ``held``: as soon as its task waits."""
    rows = Approval.objects.exclude(lease_until=None) if held else Approval.objects.all()
    return await waiting.until(rows.afirst, "There is a row")


async def decide(key: str, who: User, choice: str) -> None:
    def post() -> None:
        browser_of(who).post(page_of(key), decision(key, choice))

    await sync_to_async(post)()


async def test_task_goes_on_waiting_while_the_database_is_away(
    server: Server, ann: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, failed = retries.run_retried, list[str]()

    async def fail_twice(function: Any, *args: Any) -> Any:
        if function.__name__ == "still_waits" and len(failed) < 2:
            failed.append(function.__name__)
            raise StoreUnavailable
        return await run(function, *args)

    monkeypatch.setattr(gate, "run_retried", fail_twice)
    async with client_of(server, SESSION, ann) as client:
        task = await create(client)
        row = await waiting_row()
        async with asyncio.timeout(60):
            while len(failed) < 2:
                await asyncio.sleep(0.01)
        await decide(row.pk, bob, "approve")
        assert (await until(client, task, "completed", "failed"))["status"] == "completed"


@BOTH
@pytest.mark.parametrize(("choice", "expected"), [("approve", "Paid 7"), ("decline", "declined")])
async def test_task_ends_with_the_result_of_the_decision(
    version: str, choice: str, expected: str, server: Server, ann: User, bob: User
) -> None:
    async with client_of(server, version, ann) as client:
        task = await create(client)
        row = await waiting_row()
        async with asyncio.timeout(60):
            while "approval" not in (found := await get(client, task)).get("statusMessage", ""):
                await asyncio.sleep(0.02)
        assert found["status"] == "working"
        assert page_of(row.pk) in found["statusMessage"]
        await decide(row.pk, bob, choice)
        ended = await until(client, task, "completed", "failed")
        if version == SESSION:
            result = await client.request("tasks/result", {"taskId": task})
        else:
            result = ended["result"]
    assert expected in text_of(result)
    assert carried_out == ([7] if choice == "approve" else [])


@BOTH
async def test_cancelled_task_withdraws_its_call(
    version: str, server: Server, ann: User, bob: User
) -> None:
    async with client_of(server, version, ann) as client:
        task = await create(client)
        row = await waiting_row()
        await client.request("tasks/cancel", {"taskId": task})
        async with asyncio.timeout(60):
            while (await Approval.objects.aget()).status == Status.WAITING:
                await asyncio.sleep(0.02)
    await decide(row.pk, bob, "approve")
    assert (await Approval.objects.aget()).status == Status.CANCELLED
    assert carried_out == []


async def test_approved_task_has_progress_and_input(server: Server, ann: User, bob: User) -> None:
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client, "pay_from_drawer")
        await decide((await waiting_row(held=True)).pk, bob, "approve")
        waiting = await until(client, task, "input_required")
        content = {"action": "accept", "content": {"number": 3}}
        responses = dict.fromkeys(waiting["inputRequests"], content)
        await client.request("tasks/update", {"taskId": task, "inputResponses": responses})
        ended = await until(client, task, "completed", "failed")

    assert ended["statusMessage"] == "Counting"
    assert text_of(ended["result"]) == "Paid 7 from 3"
    assert carried_out == [7]


async def test_cancelled_task_stops_its_approved_call(server: Server, ann: User, bob: User) -> None:
    async with client_of(server, STATELESS, ann) as client:
        task = await create(client, "pay_slowly")
        row = await waiting_row(held=True)
        await decide(row.pk, bob, "approve")
        async with asyncio.timeout(60):
            while not carried_out:
                await asyncio.sleep(0.01)
        await client.request("tasks/cancel", {"taskId": task})
        async with asyncio.timeout(60):
            while (row := await Approval.objects.aget()).status == Status.RUNNING:
                await asyncio.sleep(0.01)
        message = text_of(await client.call_tool("approval_status", {"id": row.pk}))

    assert row.status == Status.FAILED
    assert "cancelled it while it ran" in message


@BOTH
async def test_task_waits_for_a_run_in_another_process(
    version: str, server: Server, ann: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The task has not started the call when the process of the page runs it.
    monkeypatch.setattr(gate, "START_TIMEOUT", 0.0)
    monkeypatch.setattr(runner, "JOIN_TIMEOUT", 0.0)
    monkeypatch.setattr(gate, "POLL_INTERVAL", 0.5)
    async with client_of(server, version, ann) as client:
        task = await create(client, "pay_slowly")
        await decide((await waiting_row(held=True)).pk, bob, "approve")
        async with asyncio.timeout(60):
            while (await get(client, task)).get("statusMessage") != "A person has decided":
                await asyncio.sleep(0.01)
        released.set()
        ended = await until(client, task, "completed", "failed")
        if version == SESSION:
            ended["result"] = await client.request("tasks/result", {"taskId": task})

    assert text_of(ended["result"]) == "Paid 7"
    assert carried_out == [7]
