"""HTTP+SSE, the transport with two endpoints: an event stream, and a URI for POST requests."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from django_mcp import registry, routing
from django_mcp.testing.asgi import Application, Exchange, http_scope, perform
from django_mcp.transports.http import http_sse, open_streams, shutdown
from tests.constants import SetConstants
from tests.spec import spec
from tests.transports.http.session.streams import INITIAL_NOTIFICATIONS, NameHeaderAuthentication
from tests.transports.http.token_servers import bearer, tokens_of
from tests.transports.http.token_servers import desk as token_desk
from tests.transports.http_sse_client import JSON, HttpSseClient, connected, not_found
from tests.transports.sample_server import Desk
from tests.waiting import SECONDS


@pytest.fixture
def application(desk: Desk, configure: Any, monkeypatch: pytest.MonkeyPatch) -> Application:
    """The site, which mounts the desk server only."""
    configure(HTTP_SSE=True)
    monkeypatch.setattr(registry, "mountable", lambda: (desk.server,))
    return routing.mount(not_found)


async def initialized(client: HttpSseClient, **capabilities: Any) -> dict[str, Any]:
    """Open the session, and return the response, after the first notifications."""
    response = await client.initialize(**capabilities)
    assert await client.stream.methods(3) == INITIAL_NOTIFICATIONS
    return response


@spec("T-HTTP-80", "T-SSE-01", "T-SSE-02")
async def test_first_event_names_the_message_endpoint(application: Application) -> None:
    async with connected(application) as client:
        assert urlsplit(client.endpoint_uri).path == "/desk/messages"
        assert len(urlsplit(client.endpoint_uri).query) > 40
        response = await initialized(client)
        assert response["result"]["protocolVersion"] == "2024-11-05"
        listed = await client.request("tools/list", id="a")
        assert (listed["id"], len(listed["result"]["tools"])) == ("a", 6)


@pytest.mark.parametrize("path", ["/desk/sse", "/app/desk/sse"])
async def test_message_endpoint_is_below_the_prefix_of_the_site(
    application: Application, settings: Any, path: str
) -> None:
    settings.FORCE_SCRIPT_NAME = "/app"

    async with connected(application, path=path) as client:
        assert urlsplit(client.endpoint_uri).path == "/app/desk/messages"


@spec("T-SSE-07")
async def test_each_connection_has_its_own_endpoint_uri(application: Application) -> None:
    async with connected(application) as one, connected(application) as two:
        assert one.endpoint_uri != two.endpoint_uri
        await initialized(one)
        await initialized(two)
        assert (await two.request("ping", id=2))["id"] == 2
        assert one.stream._outgoing.empty()


@spec("T-SSE-04")
async def test_notifications_and_server_requests_are_sent_on_the_stream(
    application: Application, desk: Desk
) -> None:
    desk.proceed.set()
    async with connected(application) as client:
        await initialized(client, elicitation={})
        call = {"name": "work", "arguments": {}}
        assert (await client.request("tools/call", call))["method"] == "notifications/message"
        assert (await client.message())["params"]["data"] == "going on"
        assert "result" in await client.message()
        ping = await client.request("tools/call", {"name": "ping_client"}, id=2)
        assert ping["method"] == "ping"
        await client.post({"jsonrpc": "2.0", "id": ping["id"], "result": {}})
        assert (await client.message())["result"]["content"][0]["text"] == "there"


async def test_list_changes_and_resource_updates_are_sent_on_the_stream(
    application: Application, desk: Desk
) -> None:
    async with connected(application) as client:
        await initialized(client)
        await desk.server.anotify_tools_list_changed()
        assert (await client.message())["method"] == INITIAL_NOTIFICATIONS[0]
        await desk.server.anotify_resource_updated("desk://news")
        await client.request("resources/subscribe", {"uri": "desk://news"})
        await desk.server.anotify_resource_updated("desk://news")
        updated = await client.message()
        assert updated["params"] == {"uri": "desk://news"}
        await client.request("resources/unsubscribe", {"uri": "desk://news"})
        await desk.server.anotify_resource_updated("desk://news")
        assert (await client.request("ping", id=9))["id"] == 9


async def test_cancelled_call_stops_its_handler(application: Application, desk: Desk) -> None:
    async with connected(application) as client:
        await initialized(client)
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
        await client.post({**call, "params": {"name": "work_silently"}})
        await desk.wait_started()
        await client.notify("notifications/cancelled", requestId=5)
        assert (await client.request("ping", id=6))["id"] == 6
    assert desk.ended == ["cancelled"]


@spec("T-SSE-08")
async def test_disconnect_ends_the_session_and_cancels_its_calls(
    application: Application, desk: Desk
) -> None:
    async with connected(application) as client:
        await initialized(client)
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
        await client.post({**call, "params": {"name": "work_silently"}})
        await desk.wait_started()
    reply = await client.post({"jsonrpc": "2.0", "id": 6, "method": "ping"})
    assert reply.status == 404
    for _ in range(5):
        await asyncio.sleep(0)
    assert desk.ended == ["cancelled"]


@spec("T-SSE-07")
async def test_invalid_endpoint_key_is_rejected(application: Application) -> None:
    async with connected(application) as client:
        for query, status in (("", 400), ("?key=abc", 404), ("?other=1", 400)):
            client.endpoint_uri = f"http://testserver/desk/messages{query}"
            assert (
                await client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            ).status == status


@spec("T-SSE-06", "T-SSE-07")
async def test_post_by_another_principal_is_not_found(application: Application, desk: Desk) -> None:
    desk.server.authenticators = [NameHeaderAuthentication()]
    mounted = routing.mount(not_found)
    async with connected(mounted, **{"x-name": "ann"}) as client:
        reply = await client.post(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"}, **{"x-name": "bob"}
        )
        assert reply.status == 404
        assert (await client.request("ping"))["result"] == {}


@spec("T-CUST-04", "T-SSE-05")
@pytest.mark.parametrize("path", ["/desk/sse", "/desk/messages"])
async def test_foreign_origin_is_rejected_by_both_endpoints(
    application: Application, path: str
) -> None:
    method = "GET" if path.endswith("sse") else "POST"
    headers = {"origin": "https://evil.example.com", "accept": "text/event-stream", **JSON}
    reply = await perform(application, http_scope(method, path, headers=headers))
    assert reply.status == 403


@spec("T-HTTP-82", "T-HTTP-83", "T-SSE-03")
async def test_wrong_http_method_gets_405_with_an_allow_header(application: Application) -> None:
    reply = await perform(application, http_scope("POST", "/desk/sse", headers=JSON), b"{}")
    assert (reply.status, reply.headers["allow"]) == (405, "GET")
    reply = await perform(application, http_scope("GET", "/desk/messages"))
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


async def test_malformed_messages_are_rejected(application: Application) -> None:
    async with connected(application) as client:
        assert (await client.post(b"{")).status == 400
        assert (await client.post(b"{}", **{"content-type": "text/plain"})).status == 415
        reply = await client.post({"jsonrpc": "2.0", "id": 3, "nothing": 1})
        assert reply.status == 202
        assert (await client.message())["error"]["code"] == -32600


async def test_connection_beyond_the_session_limit_is_rejected(
    application: Application, set_constants: SetConstants
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=1)
    scope = http_scope("GET", "/desk/sse", headers={"accept": "text/event-stream"})
    async with connected(application):
        assert (await perform(application, scope)).status == 429


async def test_connection_uses_the_current_scopes_and_ends_with_the_token(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = token_desk()
    configure(HTTP_SSE=True)
    monkeypatch.setattr(registry, "mountable", lambda: (server,))
    tokens, call = tokens_of(server), {"name": "look", "arguments": {}}

    async with connected(routing.mount(not_found), **bearer("read")) as client:
        params = {"protocolVersion": "2024-11-05", "capabilities": {}}
        params |= {"clientInfo": {"name": "old", "version": "1"}}
        await client.request("initialize", params)
        await client.notify("notifications/initialized")
        assert "result" in await client.request("tools/call", call)
        set_token(client.stream, b"Bearer other")
        (held,) = open_streams.here().streams
        await held.check()
        lacking = await client.request("tools/call", call)
        tokens.revoked.add("other")
        await held.check()
        assert await client.stream.event() is None
        tokens.revoked.add("read")
        reply = await client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})

    assert lacking["error"]["data"] == {"scopes": ["read"]}
    assert (reply.status, 'error="invalid_token"' in reply.headers["www-authenticate"]) == (
        401,
        True,
    )


def set_token(stream: Exchange, value: bytes) -> None:
    stream._scope["headers"] = [
        (name, value if name == b"authorization" else old) for name, old in stream._scope["headers"]
    ]


async def test_connection_in_use_is_served_until_it_is_idle_when_the_process_stops(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "LATE", 0.0)
    async with connected(application) as client:
        await initialized(client)
        ending = shutdown.here(asyncio.get_running_loop()).begin()
        await asyncio.sleep(0.2)
        answer = await client.request("tools/list", id="late")
        monkeypatch.setattr(http_sse, "IDLE_AFTER", 0.1)
        async with asyncio.timeout(SECONDS):
            await ending

    assert len(answer["result"]["tools"]) == 6


@spec("2026/HTTP-18")
async def test_http_sse_endpoints_are_off_by_default(desk: Desk, configure: Any) -> None:
    configure()
    assert [*routing.endpoints(desk.server)] == ["/desk"]
    configure(HTTP_SSE=True)
    assert [*routing.endpoints(desk.server)] == ["/desk", "/desk/sse", "/desk/messages"]
