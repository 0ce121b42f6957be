"""Tasks of a user, looked at with another token: what may not be called does not exist."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from django_mcp import Frame, Server
from django_mcp.models import McpTask
from django_mcp.testing import Client, ErrorResponse
from tests.memory_stores import configure

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

SESSION, STATELESS = "2025-11-25", "2026-07-28"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
METHODS = {
    SESSION: ("tasks/get", "tasks/result", "tasks/cancel"),
    STATELESS: ("tasks/get", "tasks/update", "tasks/cancel"),
}


@pytest.fixture(params=[SESSION, STATELESS])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_server() -> Server:
    server = Server("shop")

    @server.tool(task_support="required", scopes=["admin"])
    async def refund(frame: Frame) -> str:
        return str((await frame.client.aelicit("To whom?", FORM)).content)

    @server.tool(task_support="required", permission="auth.view_group")
    async def permitted() -> str:
        return "done"

    @server.tool(task_support="required")
    async def public() -> str:
        return "done"

    return server


def client_of(server: Server, version: str, user: User, *scopes: str) -> Client:
    capabilities: dict[str, Any] = {"elicitation": {}}
    if version == STATELESS:
        capabilities["extensions"] = {"io.modelcontextprotocol/tasks": {}}
    options: Any = {"user": user, "scopes": scopes, "capabilities": capabilities}
    return Client(server, version=version, **options)


async def create(client: Client, tool: str) -> str:
    task: dict[str, Any] = {"task": {}} if client.revision.version == SESSION else {}
    created = await client.request("tools/call", {"name": tool, "arguments": {}, **task})
    return str(created["task"]["taskId"] if task else created["taskId"])


async def answers(client: Client, task: str) -> set[tuple[int | None, str]]:
    """The errors to all requests about a task."""
    found: set[tuple[int | None, str]] = set()
    for method in METHODS[client.revision.version]:
        with pytest.raises(ErrorResponse) as caught:
            await client.request(method, {"taskId": task, "inputResponses": {}})
        found.add((caught.value.code, caught.value.message))
    return found


@pytest.mark.parametrize("scopes", [("shop",), ()])
async def test_task_of_a_token_with_more_scopes_is_unknown(
    version: str, scopes: tuple[str, ...]
) -> None:
    server = make_server()
    ada = await User.objects.acreate_user("ada")
    async with (
        client_of(server, version, ada, "admin") as admin,
        client_of(server, version, ada, *scopes) as other,
    ):
        task = await create(admin, "refund")
        public = await create(admin, "public")
        assert await answers(other, task) == await answers(other, "unknown")
        if version == SESSION:
            listed = (await other.request("tasks/list"))["tasks"]
            assert [each["taskId"] for each in listed] == [public]
            assert len((await admin.request("tasks/list"))["tasks"]) == 2
        assert (await other.request("tasks/get", {"taskId": public}))["taskId"] == public
        assert (await admin.request("tasks/get", {"taskId": task}))["taskId"] == task
    assert (await McpTask._default_manager.aget(pk=task)).status != "cancelled"


async def test_task_is_unknown_when_the_user_has_lost_the_permission(version: str) -> None:
    server = make_server()
    ada = await User.objects.acreate_user("ada")
    permission = await Permission.objects.aget(codename="view_group")
    await ada.user_permissions.aadd(permission)
    async with client_of(server, version, ada) as client:
        task = await create(client, "permitted")
        assert (await client.request("tasks/get", {"taskId": task}))["taskId"] == task
    await ada.user_permissions.aremove(permission)
    again = await User.objects.aget(pk=ada.pk)
    async with client_of(server, version, again) as client:
        assert await answers(client, task) == await answers(client, "unknown")


async def test_task_of_a_tool_that_was_removed_is_unknown(version: str) -> None:
    server = make_server()
    ada = await User.objects.acreate_user("ada")
    async with client_of(server, version, ada) as client:
        task = await create(client, "public")
        server.unregister_tool("public")
        assert await answers(client, task) == await answers(client, "unknown")


async def test_listen_stream_leaves_out_a_task_of_a_token_with_more_scopes() -> None:
    server = make_server()
    ada = await User.objects.acreate_user("ada")
    async with (
        client_of(server, STATELESS, ada, "admin") as admin,
        client_of(server, STATELESS, ada) as other,
    ):
        task = await create(admin, "refund")
        async with other.listen(tasks=[task]):
            acknowledged = other.params_of("notifications/subscriptions/acknowledged")[0]
    assert "taskIds" not in acknowledged["notifications"]
