"""As whom an approved call runs: tenant, language and session of the call."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db.models import F
from django.utils import translation

from django_mcp import Frame, Server
from django_mcp.contrib.approvals import step
from django_mcp.contrib.approvals.models import ROUNDING, Approval, Phase
from django_mcp.core.auth.base import Principal
from django_mcp.models import McpTask
from django_mcp.routing import mount
from django_mcp.tasks import execution
from django_mcp.testing import Client
from django_mcp.testing.asgi import perform
from tests.around.requests import scope_of
from tests.contrib.approvals.till import (
    PERMISSION,
    browser_of,
    carried_out,
    decision,
    id_of,
    page_of,
    register,
    text_of,
    user,
)

pytestmark = pytest.mark.django_db(transaction=True)


class AnnOnly:
    """Authenticates every request as Ann."""

    async def authenticate(self, scope: object, /) -> Principal:
        return Principal(scheme="test", user=await User.objects.aget(username="ann"))


async def django(scope: object, receive: object, send: object) -> None:
    """The application of all other paths."""
    raise LookupError


@pytest.fixture
def tenants(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with one endpoint for each tenant, whose number is converted."""
    server = Server("tenants", path="tenants/<int:tenant>/mcp", authenticators=[AnnOnly()])

    @server.tool(approval=PERMISSION)
    def wipe(frame: Frame) -> str:
        """Delete everything of a tenant."""
        carried_out.append((frame.get_path_param("tenant"), frame.principal.endpoint))
        return "Done"

    @server.tool(task_support="required")
    def wipe_as_task(frame: Frame) -> str:
        """Delete everything of a tenant, as a task."""
        carried_out.append((frame.get_path_param("tenant"), frame.principal.endpoint))
        return "Done"

    register(server, monkeypatch)
    return server


async def call(tool: str, tenant: int) -> dict[str, Any]:
    path = f"/tenants/{tenant}/mcp"
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    scope, body = scope_of("tools/call", {"name": tool, "arguments": {}}, path=path)
    message = json.loads(body)
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities
    reply = await perform(mount(django), scope, json.dumps(message).encode())
    result: dict[str, Any] = reply.json()["result"]
    return result


async def decide(key: str, who: User) -> None:
    await sync_to_async(lambda: browser_of(who).post(page_of(key), decision(key)))()


@pytest.mark.usefixtures("tenants", "ann")
async def test_approved_call_has_the_tenant_of_its_path(bob: User) -> None:
    key = id_of(await call("wipe", 7))
    await decide(key, bob)

    assert carried_out == [(7, "tenant=7")]


@pytest.mark.usefixtures("tenants", "ann")
async def test_approver_sees_the_tenant_of_the_path(bob: User) -> None:
    key = id_of(await call("wipe", 4711))
    page = await sync_to_async(lambda: browser_of(bob).get(page_of(key)))()

    assert "<dt>tenant</dt><dd>4711</dd>" in page.text


@pytest.mark.usefixtures("tenants", "ann")
async def test_fingerprint_of_another_tenant_is_another_one() -> None:
    keys = [id_of(await call("wipe", tenant)) for tenant in (7, 8)]
    digests = [(await Approval.objects.aget(pk=key)).digest for key in keys]

    assert len({*keys}) == len({*digests}) == 2


@pytest.mark.usefixtures("tenants", "ann")
async def test_task_has_the_tenant_of_its_path(configure: Any) -> None:
    configure(TASK_RUNNER={"BACKEND": "tests.tasks.runners.ManualRunner"})
    task = await call("wipe_as_task", 7)
    await execution.run(task["taskId"])

    assert carried_out == [(7, "tenant=7")]
    assert (await McpTask._default_manager.aget()).status == "completed"


async def test_approved_call_has_the_language_and_the_session_of_its_caller(
    server: Server, ann: User, bob: User
) -> None:
    @server.tool
    def remember(value: str, frame: Frame) -> tuple[str, Frame]:
        """Remember a value in the session."""
        return "Remembered", frame.assign(value=value)

    @server.tool(approval=PERMISSION)
    def tell(frame: Frame) -> str:
        """Tell what the call has."""
        return f"{translation.get_language()} {frame.assigns.get('value')}"

    async with Client(server, version="2025-11-25", user=ann) as client:
        await client.call_tool("remember", {"value": "tea"})
        with translation.override("de"):
            key = id_of(await client.call_tool("tell"))
        await decide(key, bob)
        result = await client.call_tool("approval_status", {"id": key})

    assert text_of(result) == "de tea"


async def test_call_whose_expiry_was_changed_does_not_run(
    server: Server, ann: User, bob: User, configure: Any
) -> None:
    configure(APPROVAL_LIFETIME=1)
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
    await Approval.objects.aupdate(lease_until=F("lease_until") + timedelta(days=30))
    await asyncio.sleep(1 + ROUNDING)
    configure(APPROVAL_LIFETIME=3600)
    await decide(key, bob)

    assert "could not be verified" in str((await Approval.objects.aget()).stored_outcome())
    assert carried_out == []


@pytest.mark.parametrize("column", ["user_key", "permission", "four_eyes"])
async def test_call_whose_row_was_changed_does_not_run(
    column: str, server: Server, ann: User
) -> None:
    root = await User.objects.acreate_superuser("root")
    approver = await sync_to_async(user)("carol", PERMISSION, "auth.view_group")
    changed = {
        "user_key": str(root.pk),
        "permission": "auth.view_group",
        "four_eyes": True,
    }
    async with Client(server, user=ann) as client:
        key = id_of(await client.call_tool("pay", {"amount": 7}))
        await Approval.objects.aupdate(**{column: changed[column]})
        page = await sync_to_async(lambda: browser_of(approver).get(page_of(key)))()
        await decide(key, approver)

    row = await Approval.objects.aget()
    assert "cannot be decrypted" in page.text
    assert row.phase == Phase.FAILED
    assert "could not be verified" in str(row.stored_outcome())
    assert carried_out == []


async def test_task_whose_row_names_another_user_does_not_run(configure: Any) -> None:
    configure(TASK_RUNNER={"BACKEND": "tests.tasks.runners.ManualRunner"})
    ann, root = [await User.objects.acreate_user(name) for name in ("ann2", "root")]
    server = Server("shop")

    @server.tool(task_support="required")
    def work(frame: Frame) -> str:
        """Work."""
        carried_out.append(frame.user.username)
        return "Done"

    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with Client(server, version="2026-07-28", user=ann, capabilities=capabilities) as client:
        task = await client.request("tools/call", {"name": "work", "arguments": {}})
        await McpTask._default_manager.aupdate(user_key=str(root.pk))
        await execution.run(task["taskId"])

    assert carried_out == []
    assert (await McpTask._default_manager.aget()).status == "failed"


async def test_large_arguments_do_not_wait_for_an_approval(server: Server, ann: User) -> None:
    async with Client(server, user=ann) as client:
        most = step.MAX_ARGUMENTS - len('{"amount": 7, "note": ""}')
        result = await client.call_tool("pay", {"amount": 7, "note": "x" * (most + 1)})
        assert result["isError"]
        assert "too large" in text_of(result)
        assert not await Approval.objects.aexists()
        assert id_of(await client.call_tool("pay", {"amount": 7, "note": "x" * most}))


async def test_status_of_a_call_is_unknown_to_a_token_without_the_scope_of_its_tool(
    server: Server, bob: User
) -> None:
    @server.tool(approval=PERMISSION, scopes=["admin"])
    def pay_as_admin(amount: int) -> str:
        return f"Paid {amount}"

    async with Client(server, user=bob, scopes=["admin"]) as admin:
        waiting = await admin.call_tool("pay_as_admin", {"amount": 1})
        key = id_of(waiting)
        assert id_of(await admin.call_tool("approval_status", {"id": key})) == key
    async with Client(server, user=bob, scopes=["shop"]) as other:
        answer = await other.call_tool("approval_status", {"id": key})
        unknown = await other.call_tool("approval_status", {"id": "A" * 22})
    assert answer["isError"]
    assert text_of(answer) == text_of(unknown)
