"""Runtime components, lost permissions, and what is hidden."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.admin import utils

from django_mcp import Frame, Server
from django_mcp.core.auth.base import Principal
from django_mcp.models import McpSession
from tests.by_hand.outside import ran, run
from tests.by_hand.people import ByHeader, Person, bearer
from tests.event_loops import accelerated
from tests.memory_stores import Configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, Message, messages_of


@spec("isolation-15")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread_sensitive")
@pytest.mark.parametrize(
    "place", ["tests.by_hand.outside:run", "django.contrib.admin.utils:unquote"]
)
async def test_handler_that_was_written_into_the_session_table_is_not_run(
    place: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(STORES={})
    ran.clear()
    monkeypatch.setattr(utils, "unquote", run)
    server = Server("shop")

    @server.tool
    async def register(frame: Frame) -> Any:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return "done", frame.register_tool("own", handler=REGISTERED, input_schema=schema)

    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    await peer.tool("register")
    first = await peer.tool("own", text="x")
    assert not first.result.get("isError")
    row = await McpSession.objects.aget()
    assert REGISTERED in row.data
    row.data = row.data.replace(REGISTERED, place)
    await row.asave()

    await peer.tool("own", text="x")

    assert ran == []


REGISTERED = "django.contrib.admin.utils:quote"


@spec("isolation-13")
async def test_lost_permission_ends_the_news_of_a_listen_stream_within_a_minute() -> None:
    may_see = True

    class Changing:
        """Says at each authentication what the caller may do."""

        async def authenticate(self, scope: Any, /) -> Principal:
            permissions = {"vault.see"} if may_see else set[str]()
            return Principal(scheme="test", subject="1", user=Person(1, permissions))

    server = Server("shop", authenticators=[Changing()])

    @server.resource("vault://fn", permission="vault.see")
    def read() -> str:
        return ""

    @server.resource("vault://other")
    def read_other() -> str:
        return ""

    peer = AsgiClient(server)
    async with (
        accelerated(40),
        # The clock of all streams starts with the first; the second is opened between two ticks.
        peer.open_post(peer.listen(resourceSubscriptions=["vault://other"])) as first,
    ):
        await first.message()
        await asyncio.sleep(1)
        wanted = peer.listen("second", resourceSubscriptions=["vault://fn", "vault://other"])
        async with peer.open_post(wanted) as second:
            await second.message()
            may_see = False
            await asyncio.sleep(66)
            await server.anotify_resource_updated("vault://fn")
            await asyncio.sleep(4)
            received = [message["method"] for message in messages_of(second.sent_body)[1:]]

    assert received == []


@spec("isolation-11")
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_hidden_component_is_looked_up_like_an_unknown_one(kind: str) -> None:
    user = Person(1)
    server = Server("shop", authenticators=[ByHeader(user)])

    @server.tool(permission="vault.see")
    def hidden() -> str:
        return ""

    @server.prompt(name="hidden", permission="vault.see")
    def hidden_prompt() -> str:
        return ""

    @server.resource("vault://hidden", permission="vault.see")
    def hidden_resource() -> str:
        return ""

    peer = AsgiClient(server, headers=bearer(1))

    def message(name: str) -> Message:
        if kind == "resource":
            return peer.request("resources/read", {"uri": f"vault://{name}"})
        method = {"tool": "tools/call", "prompt": "prompts/get"}[kind]
        return peer.request(method, {"name": name, "arguments": {}})

    counts = []
    for name in ("hidden", "unknown"):
        before = user.looked_up
        error = (await peer.post(message(name))).error
        assert error["code"] in (-32602, -32002)
        counts.append(user.looked_up - before)

    assert counts[0] == counts[1], "The time tells that the component exists"


@spec("isolation-12")
async def test_permission_that_raises_hides_its_component_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("shop")

    def broken(frame: Frame) -> bool:
        raise AttributeError("No profile")

    @server.tool(permission=broken)
    def guarded() -> str:
        return ""

    @server.tool
    def public() -> str:
        return ""

    peer = AsgiClient(server)
    listed = await peer.post(peer.request("tools/list"))
    error = (await peer.tool("guarded")).error
    unknown = (await peer.tool("unknown")).error

    assert [tool["name"] for tool in listed.result["tools"]] == ["public"]
    assert error["code"] == unknown["code"]
    assert error["message"] == unknown["message"].replace("unknown", "guarded")
    assert any(record.exc_info for record in caplog.records)
