"""Calls that need an approval: who decides, what the model receives, and the one run."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone

from django_mcp import Frame, McpError, Server, Tool, ToolError
from django_mcp.contrib.approvals import answers, prompts
from django_mcp.contrib.approvals.models import Approval, Decision, Phase
from django_mcp.contrib.approvals.signals import approval_decided, approval_requested
from django_mcp.contrib.approvals.step import RUN_WAIT
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import Approval as Declared
from django_mcp.core.components.tool import tool_component
from django_mcp.core.protocol import tasks
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import execution, store
from django_mcp.testing import Client, SyncClient, accept, cancel, decline
from django_mcp.testing import client as client_of_tests
from tests.constants import SetConstants
from tests.contrib.approvals.rows import decide
from tests.contrib.approvals.till import (
    PERMISSION,
    browser_of,
    carried_out,
    decision,
    id_of,
    page_of,
    text_of,
    user,
)
from tests.tasks.stored import pass_time

pytestmark = pytest.mark.django_db(transaction=True)

SESSION, STATELESS = "2025-11-25", "2026-07-28"
BOTH = pytest.mark.parametrize("version", [SESSION, STATELESS])
EVERY = pytest.mark.parametrize(
    "version", ["2024-11-05", "2025-03-26", "2025-06-18", SESSION, STATELESS]
)
FORM_ONLY: dict[str, Any] = {"elicitation": {}}
URL_ONLY: dict[str, Any] = {"elicitation": {"url": {}}}


def past() -> datetime:
    return timezone.now() - timedelta(seconds=1)


# Neither form nor URL: the call waits.


@EVERY
async def test_call_waits_and_the_model_looks_again(
    version: str, server: Server, ann: User, bob: User
) -> None:
    async with Client(server, version=version, user=ann) as client:
        waiting = await client.call_tool("pay", {"amount": 7})
        key = id_of(waiting)
        assert "Nothing was done yet" in text_of(waiting)
        assert f"https://till.example{page_of(key)}" in text_of(waiting)
        assert not waiting.get("isError")
        again = await client.call_tool("approval_status", {"id": key})
        assert text_of(again) == text_of(waiting)
        assert carried_out == []

        assert (await decide(key, bob)).status_code == 302
        assert carried_out == [7]
        for _ in range(2):
            done = await client.call_tool("approval_status", {"id": key})
            assert '"paid":7' in text_of(done)
            assert '"for":"ann"' in text_of(done)
        assert carried_out == [7]


@BOTH
async def test_call_through_call_tool_waits_like_one_of_the_tool(
    version: str, server: Server, ann: User, bob: User
) -> None:
    server.tool_search = True
    async with Client(server, version=version, user=ann) as client:
        assert "approval_status" in {tool["name"] for tool in await client.list_tools()}
        call = {"name": "pay", "arguments": {"amount": 7}}
        key = id_of(await client.call_tool("call_tool", call))
        assert (await Approval.objects.aget()).tool == "pay"
        assert carried_out == []
        assert (await decide(key, bob)).status_code == 302
        status = {"name": "approval_status", "arguments": {"id": key}}
        assert '"paid":7' in text_of(await client.call_tool("call_tool", status))
    assert carried_out == [7]


@BOTH
async def test_call_runs_at_the_next_look_if_nobody_ran_it_before(
    version: str, server: Server, ann: User, bob: User
) -> None:
    async with Client(server, version=version, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        row = await Approval.objects.aget()
        assert await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
        assert carried_out == []
        assert '"paid":7' in text_of(await client.call_tool("approval_status", {"id": key}))
        assert '"paid":7' in text_of(await client.call_tool("approval_status", {"id": key}))
    assert carried_out == [7]


async def test_same_call_again_is_the_same_approval(server: Server, ann: User, bob: User) -> None:
    async with Client(server, user=ann) as client:
        first = id_of(await client.call_tool("pay", {"amount": 7}))
        assert id_of(await client.call_tool("pay", {"amount": 7})) == first
        assert id_of(await client.call_tool("pay", {"amount": 8})) != first
        await decide(first, bob)
        assert id_of(await client.call_tool("pay", {"amount": 7})) != first
    assert carried_out == [7]


async def test_declined_call_returns_the_comment(server: Server, ann: User, bob: User) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        await decide(key, bob, "decline", comment="Ask Carol first.")
        result = await client.call_tool("approval_status", {"id": key})
    assert result["isError"]
    assert "declined" in text_of(result)
    assert "Ask Carol first." in text_of(result)
    row = await Approval.objects.aget()
    assert (row.decided_by, row.decided_by_name) == (str(bob.pk), "bob")
    assert (row.decided_in, row.decided_at is not None) == ("page", True)
    assert carried_out == []


async def test_expired_call_is_reported_and_cannot_be_approved(
    server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        await Approval.objects.aupdate(lease_until=past())
        await decide(key, bob)
        result = await client.call_tool("approval_status", {"id": key})
        assert result["isError"]
        assert "Nobody has approved" in text_of(result)
        # It makes room for another call.
        assert id_of(await client.call_tool("pay", {"amount": 7})) != key
    assert carried_out == []


async def test_approved_call_that_nobody_runs_expires(server: Server, ann: User, bob: User) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        row = await Approval.objects.aget()
        await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
        await Approval.objects.aupdate(lease_until=past())
        result = await client.call_tool("approval_status", {"id": key})
    assert "No worker has started this task in time. Nothing was done." in text_of(result)
    assert carried_out == []


async def test_failure_of_the_tool_is_its_result(server: Server, ann: User, bob: User) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("fail", {"amount": 7}))
        await decide(key, bob)
        result = await client.call_tool("approval_status", {"id": key})
    assert result["isError"]
    assert "failed unexpectedly" in text_of(result)
    assert (await Approval.objects.with_arguments().aget()).phase == Phase.FAILED
    assert carried_out == [7]


async def test_error_of_an_approved_call_is_shown_as_failed_with_its_text(
    server: Server, ann: User, bob: User
) -> None:
    @server.tool(approval=PERMISSION)
    def refuse(amount: int) -> str:
        raise ToolError("The drawer is <empty>")

    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("refuse", {"amount": 7}))
        await decide(key, bob)
        assert "is <empty>" in text_of(await client.call_tool("approval_status", {"id": key}))

    def look(path: str) -> str:
        return browser_of(ann).get(path).text

    own = await sync_to_async(look)("/approvals/")
    detail = await sync_to_async(look)(page_of(key))
    for page in (own, detail):
        assert "<dd>failed</dd>" in page
        assert "carried out" not in page
    assert "The drawer is &lt;empty&gt;" in detail


async def test_invalid_arguments_are_rejected_before_an_approval_is_stored(
    server: Server, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        assert (await client.call_tool("pay", {"amount": "much"}))["isError"]
    assert not await Approval.objects.aexists()


async def test_function_decides_whether_a_call_needs_an_approval(server: Server, ann: User) -> None:
    async with Client(server, user=ann) as client:
        assert text_of(await client.call_tool("pay_much", {"amount": 100})) == "Paid 100"
        assert id_of(await client.call_tool("pay_much", {"amount": 101}))
    assert carried_out == [100]


@pytest.mark.parametrize("returned", [True, "", "everybody", 7], ids=repr)
async def test_call_does_not_run_if_the_function_fails(
    returned: Any, server: Server, ann: User
) -> None:
    @server.tool(approval=lambda arguments, frame: returned)
    def broken() -> str:
        """Be broken."""
        carried_out.append(0)
        return "never"

    @server.tool(approval=lambda arguments, frame: arguments["unknown"])
    async def raising() -> str:
        """Raise."""
        carried_out.append(0)
        return "never"

    async with Client(server, user=ann) as client:
        for name in ("broken", "raising"):
            with pytest.raises(McpError):
                await client.call_tool(name)
    assert carried_out == []


async def test_asynchronous_function_decides(server: Server, ann: User) -> None:
    async def needed(arguments: Any, frame: Any) -> str | bool:
        return PERMISSION if await User.objects.filter(username="bob").aexists() else False

    @server.tool(approval=needed)
    def free() -> str:
        """Do something."""
        return "Done"

    async with Client(server, user=ann) as client:
        assert text_of(await client.call_tool("free")) == "Done"


async def test_anonymous_caller_has_to_log_in(server: Server) -> None:
    async with Client(server, user=AnonymousUser()) as client:
        with pytest.raises(McpError, match="Authentication required"):
            await client.call_tool("pay", {"amount": 7})
        assert "approval_status" not in {each["name"] for each in await client.list_tools()}
    assert not await Approval.objects.aexists()


async def test_number_of_waiting_calls_is_bounded(
    server: Server, ann: User, bob: User, set_constants: SetConstants
) -> None:
    set_constants(MAX_WAITING_APPROVALS=2)
    async with Client(server, user=ann) as client:
        first = id_of(await client.call_tool("pay", {"amount": 1}))
        await client.call_tool("pay", {"amount": 2})
        third = await client.call_tool("pay", {"amount": 3})
        assert third["isError"]
        assert "Too many calls" in text_of(third)
        await decide(first, bob, "decline")
        assert id_of(await client.call_tool("pay", {"amount": 3}))


async def test_call_of_the_site_itself_waits_as_well(server: Server, ann: User) -> None:
    result = await server.acall_tool("pay", {"amount": 7}, user=ann)
    assert id_of(result)
    assert carried_out == []


async def test_call_within_an_approved_call_is_not_approved_and_does_not_wait_for_it(
    server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay_twice", {"amount": 7}))
        async with asyncio.timeout(RUN_WAIT / 2):
            await decide(key, bob)
            result = await client.call_tool("approval_status", {"id": key})
    assert carried_out == [7]
    assert "is being carried out" in text_of(result)


@BOTH
async def test_call_within_a_call_that_its_client_approved_does_not_wait_for_it(
    version: str, server: Server, bob: User
) -> None:
    async with Client(
        server,
        version=version,
        user=bob,
        elicitation=accept(decision="approve"),
        capabilities=FORM_ONLY,
    ) as client:
        async with asyncio.timeout(RUN_WAIT / 2):
            result = await client.call_tool("pay_twice", {"amount": 7})
    assert carried_out == [7]
    assert "is being carried out" in text_of(result)


# The client supports input requests, and the caller may approve.

APPROVED = {"decision": "approve"}


@BOTH
@pytest.mark.parametrize(
    ("response", "phase", "expected"),
    [
        (accept(decision="approve", comment="For Eve"), Phase.COMPLETED, '"paid":7'),
        (accept(decision="approve"), Phase.COMPLETED, '"paid":7'),
        (accept(decision="decline"), Phase.DECLINED, "Somebody in the client of its user has"),
        # Hosts answer so without a person.
        ({"action": "accept", "content": {}}, Phase.WAITING, "waits"),
        ({"action": "accept", "content": {"comment": "Go"}}, Phase.WAITING, "waits"),
        ({"action": "accept", "content": {"decision": "yes"}}, Phase.WAITING, "waits"),
        (decline(), Phase.WAITING, "waits"),
        (cancel(), Phase.WAITING, "waits"),
    ],
)
async def test_caller_who_may_approve_receives_a_form(
    version: str, response: Any, phase: Phase, expected: str, server: Server, bob: User
) -> None:
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        return response

    async with Client(
        server, version=version, user=bob, elicitation=answer, capabilities=FORM_ONLY
    ) as client:
        result = await client.call_tool("pay", {"amount": 7, "note": "for tea"})
    assert expected in text_of(result)
    assert "amount: 7\nnote: for tea" in requests[0]["message"]
    assert requests[0]["requestedSchema"]["required"] == ["decision"]
    assert "default" not in requests[0]["requestedSchema"]["properties"]["decision"]
    row = await Approval.objects.aget()
    assert row.phase == phase
    assert row.decided_in == ("" if phase == Phase.WAITING else "client")
    assert row.comment == ("For Eve" if "For Eve" in str(response) else "")
    assert carried_out == ([7] if phase == Phase.COMPLETED else [])


@BOTH
@pytest.mark.parametrize("choice", ["approve", "decline"])
async def test_decision_that_comes_at_once_is_of_no_person(
    version: str, choice: str, server: Server, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "MIN_TIME", 30.0)
    answer = accept(decision=choice)
    async with Client(
        server, version=version, user=bob, elicitation=answer, capabilities=FORM_ONLY
    ) as client:
        assert id_of(await client.call_tool("pay", {"amount": 7}))
    assert (await Approval.objects.aget()).phase == Phase.WAITING
    assert carried_out == []


async def test_call_that_is_approved_by_a_form_keeps_its_client(server: Server, bob: User) -> None:
    def answer(request: Any) -> Any:
        named = "Which drawer" in request["message"]
        return {"action": "accept", "content": {"number": 3} if named else APPROVED}

    async with Client(
        server, version=SESSION, user=bob, elicitation=answer, capabilities=FORM_ONLY
    ) as client:
        result = await client.call_tool("pay_from_drawer", {"amount": 7})

    assert text_of(result) == "Paid 7 from 3"
    assert [each["message"] for each in client.progress] == ["Counting"]
    assert carried_out == [7]


async def test_approved_call_without_its_client_cannot_request_input(
    server: Server, ann: User, bob: User, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server, version=STATELESS, user=ann) as client:
        key = id_of(await client.call_tool("pay_from_drawer", {"amount": 7}))
        await decide(key, bob)
        result = await client.call_tool("approval_status", {"id": key})

    assert "the tool requests input, which is impossible after an approval" in text_of(result)
    assert "pay_from_drawer requested input, but its approved run has no client" in caplog.text
    assert carried_out == []


@BOTH
async def test_caller_who_may_approve_is_sent_to_the_page(
    version: str, server: Server, bob: User
) -> None:
    async def answer(request: Any) -> Any:
        path = urlsplit(request["url"]).path
        key = path.split("/")[2]
        page = await sync_to_async(lambda: browser_of(bob).get(path))()
        assert page.context["can_decide"]
        await sync_to_async(lambda: browser_of(bob).post(path, decision(key)))()
        return accept()

    async with Client(
        server, version=version, user=bob, elicitation=answer, capabilities=URL_ONLY
    ) as client:
        result = await client.call_tool("pay", {"amount": 7})
        methods = [each["method"] for each in client.notifications]
    assert '"paid":7' in text_of(result)
    assert carried_out == [7]
    assert methods.count("notifications/elicitation/complete") == (version == SESSION)


@BOTH
@pytest.mark.parametrize("response", [accept(), decline(), cancel()], ids=str)
async def test_call_waits_if_the_user_does_not_decide_on_the_page(
    version: str,
    response: Any,
    server: Server,
    bob: User,
    configure: Any,
    set_constants: SetConstants,
) -> None:
    configure(BASE_URL="https://till.example")
    set_constants(RESPONSE_TIMEOUT=0.2)
    async with Client(
        server, version=version, user=bob, elicitation=lambda _: response, capabilities=URL_ONLY
    ) as client:
        assert id_of(await client.call_tool("pay", {"amount": 7}))
    assert carried_out == []


@BOTH
async def test_call_waits_if_the_client_answers_with_an_error(
    version: str, server: Server, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(server, version=version, user=bob, capabilities=FORM_ONLY) as client:
        if version == STATELESS:
            message = client.message("tools/call", {"name": "pay", "arguments": {"amount": 7}})
            answer = await client.send(message)
            assert answer is not None
            assert answer["result"]["resultType"] == "input_required"
        else:
            assert id_of(await client.call_tool("pay", {"amount": 7}))
    assert (await Approval.objects.aget()).phase == Phase.WAITING
    assert carried_out == []


@BOTH
async def test_caller_without_the_permission_receives_no_input_request(
    version: str, server: Server, ann: User
) -> None:
    async with Client(
        server, version=version, user=ann, elicitation=lambda _: pytest.fail("a request was sent")
    ) as client:
        assert id_of(await client.call_tool("pay", {"amount": 7}))


@BOTH
async def test_caller_receives_no_input_request_under_four_eyes(
    version: str, server: Server, bob: User
) -> None:
    carol = await sync_to_async(user)("carol", PERMISSION)
    async with Client(
        server, version=version, user=bob, elicitation=lambda _: pytest.fail("a request was sent")
    ) as client:
        key = id_of(await client.call_tool("pay_safely", {"amount": 7}))
        await decide(key, bob)
        assert carried_out == []
        await decide(key, carol)
        assert text_of(await client.call_tool("approval_status", {"id": key})) == "Paid 7"
    assert carried_out == [7]


# The run.


async def test_run_checks_the_permission_of_the_caller_again(server: Server, bob: User) -> None:
    dan = await sync_to_async(user)("dan", "auth.view_group")
    async with Client(server, user=dan) as client:
        key = id_of(await client.call_tool("pay_with_permission", {"amount": 7}))
        await dan.user_permissions.aclear()
        await decide(key, bob)
    row = await Approval.objects.aget()
    assert row.phase == Phase.FAILED
    assert "Unknown tool" in str(row.stored_outcome())
    assert carried_out == []


@pytest.mark.parametrize("change", ["deactivated", "deleted"])
async def test_call_of_a_disabled_caller_does_not_run(
    change: str, server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
    if change == "deleted":
        await ann.adelete()
    else:
        await User.objects.filter(username="ann").aupdate(is_active=False)
    await decide(key, bob)
    row = await Approval.objects.aget()
    assert row.phase == Phase.FAILED
    assert "does not exist, or is not active" in str(row.stored_outcome())
    assert row.caller_name == "ann"
    assert carried_out == []


async def test_lost_run_is_reported_and_never_repeated(
    server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        row = await Approval.objects.aget()
        await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
        # A worker starts it, and dies.
        assert await store.get().start(key, "worker") is not None
        running = await client.call_tool("approval_status", {"id": key})
        assert "being carried out" in text_of(running)
        await Approval.objects.aupdate(lease_until=past())
        late = await client.call_tool("approval_status", {"id": key})
        assert "being carried out" in text_of(late)
        await sync_to_async(pass_time)(store.LEASE + 1)
        for _ in range(2):
            lost = await client.call_tool("approval_status", {"id": key})
            assert lost["isError"]
            assert "may have been carried out or not" in text_of(lost)
        # It was only slow: what it has to say comes too late.
        assert await store.get().change(key, tasks.cancel, lease_owner="worker") is None
    assert await store.get().start(key, "another") is None
    assert carried_out == []


async def test_lease_is_renewed_while_the_call_runs(
    server: Server, ann: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LEASE", 0.5)

    @server.tool(approval=PERMISSION)
    async def wait() -> str:
        """Wait for longer than a lease."""
        await asyncio.sleep(1.5)
        return "Done"

    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("wait"))
        await decide(key, bob)
        await sync_to_async(Approval.objects.all().settle)()
        assert text_of(await client.call_tool("approval_status", {"id": key})) == "Done"


async def test_expired_call_is_refused_though_all_else_is_right(
    server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
    row = await Approval.objects.aget()
    await Approval.objects.aupdate(lease_until=past())

    decided = await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
    started = await store.get().start(key, "worker")

    assert (decided, started) == (None, None)
    assert (await Approval.objects.aget()).phase == Phase.EXPIRED


async def test_approved_call_that_is_late_does_not_start(
    server: Server, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
    row = await Approval.objects.aget()
    await sync_to_async(row.decide)(bob, Decision.APPROVE, where="page")
    await Approval.objects.aupdate(lease_until=past())

    await execution.run(key)

    assert carried_out == []


async def test_run_without_a_decision_is_refused(server: Server, ann: User) -> None:
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
    await execution.run(key)
    assert (await Approval.objects.aget()).phase == Phase.WAITING

    # Somebody who can write to the table changes the status only.
    await Approval.objects.aupdate(status="working")
    await execution.run(key)
    assert (await Approval.objects.aget()).phase == Phase.FAILED
    assert carried_out == []


# Texts of clients.


async def test_texts_of_a_client_are_stored_without_what_databases_refuse(
    server: Server, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_of_tests, "CLIENT_INFO", {"name": "de\0sk", "version": "1"})
    async with Client(
        server,
        user=bob,
        elicitation=accept(decision="decline", comment="Too\0much"),
        capabilities=FORM_ONLY,
    ) as client:
        result = await client.call_tool("pay", {"amount": 7})
    row = await Approval.objects.aget()
    assert (row.client, row.comment) == ("de\ufffdsk 1", "Too\ufffdmuch")
    assert "Too\ufffdmuch" in text_of(result)


# Signals.


async def test_signals_are_sent_to_notify_people(server: Server, ann: User, bob: User) -> None:
    received: list[Any] = []

    def requested(sender: Any, approval: Approval, url: str | None, **_: Any) -> None:
        received.append(("requested", approval.pk, url))
        raise RuntimeError("The mail server is down")

    def decided(sender: Any, approval: Approval, **_: Any) -> None:
        received.append(("decided", approval.pk, approval.phase))

    approval_requested.connect(requested)
    approval_decided.connect(decided)
    try:
        async with Client(server, user=ann) as client:
            key = id_of(await client.call_tool("pay", {"amount": 7}))
            await client.call_tool("pay", {"amount": 7})
            await decide(key, bob)
    finally:
        approval_requested.disconnect(requested)
        approval_decided.disconnect(decided)
    page = f"https://till.example{page_of(key)}"
    assert received == [("requested", key, page), ("decided", key, Phase.APPROVED)]


async def test_receiver_of_a_decision_in_the_client_blocks_no_thread_of_a_store(
    server: Server, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_stored = threading.Event()
    received: list[Any] = []

    async def store_decision(*args: Any, **options: Any) -> Any:
        changed = await run_retried(*args, **options)
        is_stored.set()
        return changed

    def decided(sender: Any, approval: Approval, **_: Any) -> None:
        received.append((approval.phase, is_stored.wait(2.0)))

    monkeypatch.setattr(prompts, "run_retried", store_decision)
    approval_decided.connect(decided)
    try:
        async with Client(
            server,
            user=bob,
            elicitation=accept(decision="approve"),
            capabilities=FORM_ONLY,
            sync_execution="threads",
        ) as client:
            result = await client.call_tool("pay", {"amount": 7})
    finally:
        approval_decided.disconnect(decided)
    assert '"paid":7' in text_of(result)
    assert received == [(Phase.APPROVED, True)]


# Declarations.


def test_output_schema_is_not_listed_because_the_call_may_wait(server: Server, ann: User) -> None:
    with SyncClient(server, user=ann) as client:
        listed = {each["name"]: each for each in client.list_tools()}
    assert "outputSchema" not in listed["pay"]
    assert "approval_status" in listed


def test_server_without_approvals_has_no_status_tool() -> None:
    server = Server("bare")
    server.tool(name="nothing")(lambda: None)
    assert server.components.find("tool", "approval_status") is None


def test_own_tool_with_the_name_of_the_status_tool_is_reported(server: Server) -> None:
    other = Server("other")
    other.tool(name="approval_status")(lambda: None)
    with pytest.raises(ConfigurationError, match="registered twice"):
        other.tool(name="pay", approval=PERMISSION)(lambda: None)


def test_deferred_tool_whose_status_tool_has_a_taken_name_is_not_offered() -> None:
    other = Server("other")
    other.tool(name="approval_status")(lambda: None)
    other.components.defer(lambda: [tool_component(lambda: None, name="pay", approval=PERMISSION)])
    assert other.components.find("tool", "pay") is None
    assert [component.name for component in other.components.left_out] == ["pay"]


@pytest.mark.parametrize(
    "options",
    [{"approval": "everybody"}, {"approval": 7}, {"four_eyes": True}],
    ids=str,
)
def test_invalid_declaration_is_reported(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        Server("other").tool(name="pay", **options)(lambda: None)


def payment_of(arguments: Any, frame: Frame) -> None:
    return None


async def apayment_of(arguments: Any) -> None:
    return None


def declared(subject: Any) -> Declared:
    return Declared(PERMISSION, subject=subject)


@pytest.mark.parametrize(
    ("approval", "problem"),
    [
        (lambda arguments: PERMISSION, "called with the arguments and the Frame .* write"),
        (lambda arguments, frame, user: PERMISSION, "called with the arguments and the Frame"),
        (declared(payment_of), "the arguments alone"),
        (declared(apayment_of), "is async: write def"),
        (declared("Payment"), "is 'Payment', which is no function"),
    ],
)
def test_function_that_cannot_be_called_is_reported(approval: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"approval of .*{problem}"):
        Server("other").tool(name="pay", approval=approval)(lambda: None)


def test_function_in_the_class_of_a_tool_is_reported_with_a_remedy() -> None:
    class Pay(Tool):
        approval = lambda arguments, frame: PERMISSION  # noqa: E731

        def execute(self) -> None: ...

    with pytest.raises(ConfigurationError, match="write approval = staticmethod"):
        Server("other").tool(Pay)


class Rule:
    def __call__(self, arguments: Any, frame: Frame) -> str:
        return PERMISSION

    async def decide(self, limit: int, arguments: Any, frame: Frame) -> str:
        return PERMISSION


@pytest.mark.parametrize(
    "approval", [Rule(), partial(Rule().decide, 100), Declared(print, subject=print)]
)
def test_objects_methods_and_partials_decide_as_functions(approval: Any) -> None:
    Server("other").tool(name="pay", approval=approval)(lambda: None)


def test_tool_of_one_session_cannot_have_an_approval() -> None:
    with pytest.raises(ConfigurationError, match="registered for one session"):
        Frame().register_tool("pay", approval=PERMISSION)


async def test_call_fails_without_the_app(server: Server, ann: User, settings: Any) -> None:
    apps = [name for name in settings.INSTALLED_APPS if name != "django_mcp.contrib.approvals"]
    clients = [Client(server, user=ann, raise_exceptions=raises) for raises in (True, False)]
    settings.INSTALLED_APPS = apps
    for connected, error in zip(clients, (ConfigurationError, McpError), strict=True):
        async with connected as client:
            with pytest.raises(error, match="no installed app reads|Internal error"):
                await client.call_tool("pay", {"amount": 7})
    assert carried_out == []
    with pytest.raises(ConfigurationError, match=r'"django_mcp\.contrib\.approvals" to INSTALLED'):
        Client(server)


def test_tool_is_refused_without_the_app(settings: Any) -> None:
    apps = [name for name in settings.INSTALLED_APPS if name != "django_mcp.contrib.approvals"]
    settings.INSTALLED_APPS = apps
    with pytest.raises(ConfigurationError, match="has approval, which no installed app reads"):
        Server("other").tool(name="pay", approval=PERMISSION)(lambda: None)


def test_every_phase_without_a_result_has_a_message() -> None:
    assert {*answers.MESSAGES, Phase.COMPLETED, Phase.DECLINED, Phase.EXPIRED} == {*Phase}
