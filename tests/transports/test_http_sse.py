"""The two endpoints of the first revision: a stream to read, and a place to post to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from django_mcp import registry, routing
from django_mcp.testing.exchange import Application, Exchange, Reply, http_scope, perform
from tests.transports.desk import Desk
from tests.transports.driving import methods_of
from tests.transports.test_streams import FIRST, Named

JSON = {"content-type": "application/json"}


@dataclass
class OldClient:
    """A client of the first revision on its open connection."""

    application: Application
    stream: Exchange
    address: str
    headers: dict[str, str]

    async def post(self, message: Any, **headers: str) -> Reply:
        parts = urlsplit(self.address)
        scope = http_scope(
            path=parts.path, query=parts.query, headers={**JSON, **self.headers, **headers}
        )
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await perform(self.application, scope, body)

    async def request(self, method: str, params: Any = None, *, id: Any = 1) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        reply = await self.post(message)
        assert (reply.status, reply.body) == (202, b"")
        return await self.message()

    async def notify(self, method: str, **params: Any) -> None:
        reply = await self.post({"jsonrpc": "2.0", "method": method, "params": params})
        assert reply.status == 202

    async def message(self) -> dict[str, Any]:
        event = await self.stream.event()
        assert event is not None
        assert (event.event, event.id) == ("message", "")
        message: dict[str, Any] = json.loads(event.data)
        return message

    async def initialize(self, **capabilities: Any) -> dict[str, Any]:
        hello = {
            "protocolVersion": "2024-11-05",
            "capabilities": capabilities,
            "clientInfo": {"name": "old", "version": "1"},
        }
        welcome = await self.request("initialize", hello)
        await self.notify("notifications/initialized")
        assert await methods_of(self.stream, 3) == FIRST
        return welcome


@pytest.fixture
def application(desk: Desk, configure: Any, monkeypatch: pytest.MonkeyPatch) -> Application:
    """The site, which serves the desk alone."""
    configure(HTTP_SSE=True)
    monkeypatch.setattr(registry, "mountable", lambda: (desk.server,))
    return routing.mount(_pages)


async def _pages(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected(application: Application, **headers: str) -> AsyncIterator[OldClient]:
    scope = http_scope("GET", "/desk/sse", headers={"accept": "text/event-stream", **headers})
    async with Exchange(application, scope) as stream:
        event = await stream.event()
        assert event is not None
        assert event.event == "endpoint"
        address = urljoin("http://testserver/desk/sse", event.data)
        yield OldClient(application, stream, address, headers)


async def test_the_stream_says_first_where_to_post_to(application: Application) -> None:
    async with connected(application) as client:
        assert urlsplit(client.address).path == "/desk/messages"
        assert len(urlsplit(client.address).query) > 40
        welcome = await client.initialize()
        assert welcome["result"]["protocolVersion"] == "2024-11-05"
        listed = await client.request("tools/list", id="a")
        assert (listed["id"], len(listed["result"]["tools"])) == ("a", 6)


async def test_every_connection_has_an_address_of_its_own(application: Application) -> None:
    async with connected(application) as one, connected(application) as two:
        assert one.address != two.address
        await one.initialize()
        await two.initialize()
        assert (await two.request("ping", id=2))["id"] == 2
        assert one.stream._outgoing.empty()


async def test_notifications_and_questions_travel_on_the_stream(
    application: Application, desk: Desk
) -> None:
    desk.go_on.set()
    async with connected(application) as client:
        await client.initialize(elicitation={})
        call = {"name": "work", "arguments": {}}
        assert (await client.request("tools/call", call))["method"] == "notifications/message"
        assert (await client.message())["params"]["data"] == "going on"
        assert "result" in await client.message()
        ping = await client.request("tools/call", {"name": "ping_client"}, id=2)
        assert ping["method"] == "ping"
        await client.post({"jsonrpc": "2.0", "id": ping["id"], "result": {}})
        assert (await client.message())["result"]["content"][0]["text"] == "there"


async def test_announcements_reach_it(application: Application, desk: Desk) -> None:
    async with connected(application) as client:
        await client.initialize()
        await desk.server.anotify_tools_list_changed()
        assert (await client.message())["method"] == FIRST[0]
        await desk.server.anotify_resource_updated("desk://news")
        await client.request("resources/subscribe", {"uri": "desk://news"})
        await desk.server.anotify_resource_updated("desk://news")
        updated = await client.message()
        assert updated["params"] == {"uri": "desk://news"}
        await client.request("resources/unsubscribe", {"uri": "desk://news"})
        await desk.server.anotify_resource_updated("desk://news")
        assert (await client.request("ping", id=9))["id"] == 9


async def test_a_call_can_be_cancelled(application: Application, desk: Desk) -> None:
    async with connected(application) as client:
        await client.initialize()
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
        await client.post({**call, "params": {"name": "work_silently"}})
        await desk.until_begun()
        await client.notify("notifications/cancelled", requestId=5)
        assert (await client.request("ping", id=6))["id"] == 6
    assert desk.ended == ["cancelled"]


async def test_the_end_of_the_stream_ends_the_session(application: Application, desk: Desk) -> None:
    async with connected(application) as client:
        await client.initialize()
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
        await client.post({**call, "params": {"name": "work_silently"}})
        await desk.until_begun()
    reply = await client.post({"jsonrpc": "2.0", "id": 6, "method": "ping"})
    assert reply.status == 404
    for _ in range(5):
        await asyncio.sleep(0)
    assert desk.ended == ["cancelled"]


async def test_an_address_cannot_be_made_up(application: Application) -> None:
    async with connected(application) as client:
        for query, status in (("", 400), ("?key=abc", 404), ("?other=1", 400)):
            client.address = f"http://testserver/desk/messages{query}"
            assert (
                await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            ).status == status


async def test_nobody_posts_to_anothers_connection(application: Application, desk: Desk) -> None:
    desk.server.auth = [Named()]
    mounted = routing.mount(_pages)
    async with connected(mounted, **{"x-name": "ann"}) as client:
        reply = await client.post(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"}, **{"x-name": "bob"}
        )
        assert reply.status == 404
        assert (await client.request("ping"))["result"] == {}


@pytest.mark.parametrize("path", ["/desk/sse", "/desk/messages"])
async def test_both_endpoints_look_at_the_origin(application: Application, path: str) -> None:
    method = "GET" if path.endswith("sse") else "POST"
    headers = {"origin": "https://evil.example.com", "accept": "text/event-stream", **JSON}
    reply = await perform(application, http_scope(method, path, headers=headers))
    assert reply.status == 403


async def test_a_new_client_learns_that_it_is_old(application: Application) -> None:
    reply = await perform(application, http_scope("POST", "/desk/sse", headers=JSON), b"{}")
    assert (reply.status, reply.headers["allow"]) == (405, "GET")
    reply = await perform(application, http_scope("GET", "/desk/messages"))
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


async def test_junk_is_refused(application: Application) -> None:
    async with connected(application) as client:
        assert (await client.post(b"{")).status == 400
        assert (await client.post(b"{}", **{"content-type": "text/plain"})).status == 415
        reply = await client.post({"jsonrpc": "2.0", "id": 3, "nothing": 1})
        assert reply.status == 202
        assert (await client.message())["error"]["code"] == -32600


async def test_a_caller_has_a_bounded_number_of_connections(
    application: Application, configure: Any
) -> None:
    configure(HTTP_SSE=True, MAX_SESSIONS_PER_PRINCIPAL=1)
    scope = http_scope("GET", "/desk/sse", headers={"accept": "text/event-stream"})
    async with connected(application):
        assert (await perform(application, scope)).status == 429


async def test_it_is_off_unless_it_is_wanted(desk: Desk, configure: Any) -> None:
    configure()
    assert [*routing.endpoints(desk.server)] == ["/desk"]
    configure(HTTP_SSE=True)
    assert [*routing.endpoints(desk.server)] == ["/desk", "/desk/sse", "/desk/messages"]
