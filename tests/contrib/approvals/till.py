"""A server whose tools need approvals, the people of these tests, and their browsers."""

from __future__ import annotations

import re
import threading
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from pydantic import BaseModel

from django_mcp import Approval, Frame, Server, registry
from django_mcp.contrib.approvals import models
from tests.waiting import until

PERMISSION = "auth.change_group"
WAITS = re.compile(r'approval_status with id="([\w-]{22})"')

carried_out: list[Any] = []
"""The amounts that were paid out."""


released = threading.Event()
"""Lets the calls of ``pay_slowly`` end."""


class Drawer(BaseModel):
    number: int


def over_hundred(arguments: Any, frame: Frame) -> str | None:
    return PERMISSION if arguments["amount"] > 100 else None


def till() -> Server:
    """A server that pays out money."""
    server = Server("till", title="The till", authenticators=[])

    @server.tool(title="Pay out", approval=PERMISSION)
    def pay(amount: int, frame: Frame, note: str = "") -> dict[str, Any]:
        """Pay out money."""
        carried_out.append(amount)
        return {"paid": amount, "for": frame.user.username}

    @server.tool(title="Pay out with four eyes", approval=Approval(PERMISSION, four_eyes=True))
    async def pay_safely(amount: int, note: str = "") -> str:
        """Pay out money, after somebody else has approved it."""
        carried_out.append(amount)
        return f"Paid {amount}"

    @server.tool(approval=over_hundred)
    def pay_much(amount: int) -> str:
        """Pay out money; large amounts need an approval."""
        carried_out.append(amount)
        return f"Paid {amount}"

    @server.tool(approval=PERMISSION, permission="auth.view_group")
    def pay_with_permission(amount: int) -> str:
        """Pay out money, for those who may."""
        carried_out.append(amount)
        return f"Paid {amount}"

    @server.tool(approval=PERMISSION, task_support="required")
    def pay_as_task(amount: int) -> str:
        """Pay out money as a task."""
        carried_out.append(amount)
        return f"Paid {amount}"

    @server.tool(approval=PERMISSION, task_support="optional", task_after=0)
    async def pay_from_drawer(amount: int, frame: Frame) -> str:
        """Pay out money from the drawer that the user names."""
        await frame.client.aprogress(1, 2, "Counting")
        answer = await frame.client.aelicit("Which drawer?", Drawer, key="drawer")
        carried_out.append(amount)
        return f"Paid {amount} from {answer.content.number}"

    @server.tool(approval=PERMISSION, task_support="required")
    async def pay_slowly(amount: int) -> str:
        """Pay out money, which takes long."""
        carried_out.append(amount)
        await until(released.is_set)
        return f"Paid {amount}"

    @server.tool(approval=PERMISSION)
    def fail(amount: int) -> str:
        """Pay out money, which fails."""
        carried_out.append(amount)
        raise RuntimeError("The drawer is stuck")

    @server.tool(approval=PERMISSION)
    async def pay_twice(amount: int, frame: Frame) -> str:
        """Pay out, and once more by a call within this call."""
        carried_out.append(amount)
        inner = await server.acall_tool("pay_twice", {"amount": amount}, frame=frame)
        return str(inner["content"][0]["text"])

    return server


def register(server: Server, monkeypatch: Any) -> None:
    """Let the site know the server."""
    known = {registry.default.name: registry.default, server.name: server}
    monkeypatch.setattr(registry.registered, "servers", known)


def user(name: str, *permissions: str) -> User:
    found = User.objects.create_user(name)
    for each in permissions:
        label, codename = each.split(".")
        found.user_permissions.add(
            Permission.objects.get(codename=codename, content_type__app_label=label)
        )
    return User.objects.get(pk=found.pk)


def browser_of(who: User | None, **options: Any) -> Browser:
    browser = Browser(**options)
    if who is not None:
        browser.force_login(who)
    return browser


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def id_of(result: dict[str, Any]) -> str:
    """The id of the approval for which the result says that the call waits."""
    found = WAITS.search(text_of(result))
    assert found is not None, result
    return found[1]


def page_of(key: str) -> str:
    return f"/approvals/{key}/"


def decision(key: str, decision: str = "approve", **changed: Any) -> dict[str, Any]:
    """The form of the page, as a browser sends it."""
    digest = models.Approval.objects.get(pk=key).digest
    return {"decision": decision, "comment": "", "digest": digest, **changed}
