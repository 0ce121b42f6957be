"""What a handler knows of its request, and what becomes of what it remembers."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import Frame, McpError, Server
from django_mcp.frame import HttpTransport, StdioTransport
from django_mcp.testing.plugin import ClientFor
from tests.behaviour.conftest import Configure
from tests.refusals import refusal

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"

in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)
over_http = pytest.mark.parametrize("mcp_transport", ["http"])


class Seen:
    """A server with one tool, which keeps the Frames that it is given."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.server = Server("desk", path="/desk/mcp")
        self.server.tool(name="look")(self.look)

    def look(self, frame: Frame, number: int = 0) -> None:
        self.frames.append(frame)

    @property
    def frame(self) -> Frame:
        (frame,) = self.frames
        return frame


# The request.


async def test_the_request_is_there_as_it_came(client_for: ClientFor) -> None:
    seen = Seen()

    async with client_for(seen.server) as client:
        await client.call_tool("look", {"number": 7}, meta={"com.example/key": [1]})

    request = seen.frame.request
    assert request is not None
    assert request.method == "tools/call"
    assert isinstance(request.id, int)
    assert request.params["arguments"] == {"number": 7}
    assert request.params["_meta"]["com.example/key"] == [1]


async def test_the_client_and_the_protocol_are_known(
    client_for: ClientFor, mcp_version: str
) -> None:
    seen = Seen()

    async with client_for(seen.server, capabilities={"roots": {}}) as client:
        await client.call_tool("look")

    frame = seen.frame
    assert frame.get_protocol_version() == mcp_version
    assert getattr(frame.get_protocol_module(), "version", None) == mcp_version
    assert frame.get_client_capabilities() == {"roots": {}}
    assert (frame.get_client_info() or {})["name"] == "django-mcp-test-client"
    assert frame.server is seen.server


async def test_a_session_has_an_id_and_what_needs_none_has_not(
    client_for: ClientFor, mcp_version: str
) -> None:
    seen = Seen()

    async with client_for(seen.server) as client:
        await client.call_tool("look")
        await client.call_tool("look")

    ids = [frame.get_mcp_session_id() for frame in seen.frames]
    assert ids[0] == ids[1]
    assert (ids[0] is None) == (mcp_version == STATELESS)


@in_sessions
async def test_what_initialize_said_beside_is_kept(client_for: ClientFor) -> None:
    seen = Seen()
    client = client_for(seen.server)
    params = {
        "protocolVersion": client.revision.version,
        "capabilities": {},
        "clientInfo": {"name": "other", "version": "1"},
    }
    await client.connect()

    await client.request("initialize", params, meta={"com.example/tenant": "acme"})
    await client.call_tool("look")
    await client.notify("notifications/initialized")
    await client.call_tool("look")
    await client.close()

    assert seen.frames[0].private["init_meta"] == {"com.example/tenant": "acme"}
    assert [frame.initialized for frame in seen.frames] == [False, True]


# The caller.


async def test_a_caller_is_anonymous_unless_somebody_vouches_for_her(
    client_for: ClientFor,
) -> None:
    seen = Seen()

    async with client_for(seen.server) as client:
        await client.call_tool("look")

    assert isinstance(seen.frame.user, AnonymousUser)


async def test_a_caller_is_whom_somebody_vouches_for(client_for: ClientFor) -> None:
    seen = Seen()
    user = AnonymousUser()

    async with client_for(seen.server, user=user, scopes=["read"]) as client:
        await client.call_tool("look")

    assert seen.frame.user is user
    assert seen.frame.auth is not None
    assert seen.frame.auth.scopes == {"read"}


# How the message came.


@over_http
async def test_the_http_request_is_known(client_for: ClientFor) -> None:
    seen = Seen()
    sent = {"X-Tenant": "acme", "Host": "localhost:8443"}

    async with client_for(seen.server, headers=sent, query="a=1&b=&c=caf%C3%A9&a=2") as client:
        await client.call_tool("look")

    frame = seen.frame
    assert isinstance(frame.transport, HttpTransport)
    assert frame.transport.type == "http"
    assert frame.get_req_header("x-tenant") == frame.get_req_header("X-TENANT") == "acme"
    assert frame.get_req_header("x-other") is None
    assert [frame.get_query_param(name) for name in "abcd"] == ["2", "", "café", None]
    assert frame.transport.remote_ip == "127.0.0.1"
    assert frame.transport.scheme == "http"
    assert (frame.transport.host, frame.transport.port) == ("localhost", 8443)
    assert frame.transport.request_path == "/desk/mcp"
    assert ("x-tenant", "acme") in list(frame.transport.req_headers)


@over_http
async def test_without_a_port_it_is_that_of_the_scheme(client_for: ClientFor) -> None:
    seen = Seen()

    async with client_for(seen.server) as client:
        await client.call_tool("look")

    assert isinstance(seen.frame.transport, HttpTransport)
    assert (seen.frame.transport.host, seen.frame.transport.port) == ("testserver", 80)


@pytest.mark.parametrize("mcp_transport", ["stdio"])
async def test_the_process_is_known_over_stdio(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    monkeypatch.setenv("SHOP_TENANT", "acme")

    async with client_for(seen.server) as client:
        await client.call_tool("look")

    frame = seen.frame
    assert isinstance(frame.transport, StdioTransport)
    assert frame.transport.type == "stdio"
    assert frame.transport.env["SHOP_TENANT"] == "acme"
    assert frame.transport.os_pid == os.getpid()
    assert frame.transport.pid == str(os.getpid())
    assert frame.session is None
    assert (frame.get_req_header("x"), frame.get_query_param("x")) == (None, None)


# What is remembered.


def counting() -> Server:
    server = Server("desk")

    @server.tool
    def put(key: str, value: Any, frame: Frame) -> tuple[str, Frame]:
        return "kept", frame.assign(key, value)

    @server.tool
    async def everything(frame: Frame) -> str:
        return repr(dict(sorted(frame.assigns.items())))

    @server.tool
    def refuse(frame: Frame) -> tuple[McpError, Frame]:
        return McpError("No"), frame.assign("refused", 1)

    @server.tool
    def explode(frame: Frame) -> None:
        frame.assign("exploded", 1)
        raise McpError("No")

    return server


def said(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


@in_sessions
async def test_a_session_remembers_what_a_returned_frame_was_assigned(
    client_for: ClientFor,
) -> None:
    async with client_for(counting()) as client:
        await client.call_tool("put", {"key": "a", "value": [1, {"b": None}]})
        await client.call_tool("put", {"key": "c", "value": "d"})
        assert said(await client.call_tool("everything")) == "{'a': [1, {'b': None}], 'c': 'd'}"


@pytest.mark.parametrize("mcp_version", [STATELESS])
async def test_without_a_session_nothing_is_remembered(client_for: ClientFor) -> None:
    async with client_for(counting()) as client:
        await client.call_tool("put", {"key": "a", "value": 1})
        assert said(await client.call_tool("everything")) == "{}"


@in_sessions
async def test_sessions_know_nothing_of_each_other(client_for: ClientFor) -> None:
    server = counting()

    async with client_for(server) as one, client_for(server) as other:
        await one.call_tool("put", {"key": "a", "value": 1})
        assert said(await other.call_tool("everything")) == "{}"


@in_sessions
async def test_a_frame_beside_a_returned_error_is_kept_and_of_a_raised_one_not(
    client_for: ClientFor,
) -> None:
    async with client_for(counting()) as client:
        await refusal(client.call_tool("refuse"))
        await refusal(client.call_tool("explode"))
        assert said(await client.call_tool("everything")) == "{'refused': 1}"


@in_sessions
async def test_calls_which_run_at_once_lose_nothing_of_each_other(client_for: ClientFor) -> None:
    server = counting()
    both = asyncio.Barrier(2)

    @server.tool
    async def meet(key: str, frame: Frame) -> tuple[str, Frame]:
        await both.wait()
        return "met", frame.assign(key, 1)

    async with client_for(server) as client:
        await asyncio.gather(
            client.call_tool("meet", {"key": "a"}), client.call_tool("meet", {"key": "b"})
        )
        assert said(await client.call_tool("everything")) == "{'a': 1, 'b': 1}"


async def test_a_handler_which_clears_its_frame_is_answered_all_the_same(
    client_for: ClientFor,
) -> None:
    server = Server("desk")

    @server.tool
    def clear(frame: Frame) -> tuple[str, Frame]:
        return "cleared", frame.clear_request().clear_session()

    @server.tool
    def refuse(frame: Frame) -> tuple[McpError, Frame]:
        return McpError("No"), frame.clear_request().clear_session()

    @server.tool
    def pretend(frame: Frame) -> tuple[McpError, Frame]:
        return McpError("No"), frame.put_request({"id": "other", "method": "ping"})

    async with client_for(server) as client:
        assert said(await client.call_tool("clear")) == "cleared"
        assert (await refusal(client.call_tool("refuse"))).message == "No"
        assert (await refusal(client.call_tool("pretend"))).message == "No"


@in_sessions
async def test_what_json_cannot_say_cannot_be_remembered(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = counting()

    @server.tool
    def hoard(frame: Frame) -> Frame:
        return frame.assign("it", object())

    async with client_for(server) as client:
        error = await refusal(client.call_tool("hoard"))
        assert said(await client.call_tool("everything")) == "{}"

    assert error.code == -32603
    assert "A session remembers only what JSON can say" in caplog.text


# What a site brings to each message.


def tenant(frame: Frame) -> dict[str, Any]:
    return {"tenant": "acme", "who": type(frame.user).__name__}


async def atenant(frame: Frame) -> dict[str, Any]:
    return {"tenant": "acme", "who": type(frame.user).__name__}


@pytest.mark.parametrize("processor", ["tenant", "atenant"])
async def test_frame_processors_bring_assigns_to_each_message(
    client_for: ClientFor, configure: Configure, processor: str
) -> None:
    configure(FRAME_PROCESSORS=[f"{__name__}.{processor}"])

    async with client_for(counting()) as client:
        expected = "{'tenant': 'acme', 'who': 'AnonymousUser'}"
        assert said(await client.call_tool("everything")) == expected


brought = iter(range(1000))


def number(frame: Frame) -> dict[str, Any]:
    return {"number": next(brought)}


@in_sessions
async def test_what_they_bring_wins_and_is_never_stored(
    client_for: ClientFor, configure: Configure
) -> None:
    configure(FRAME_PROCESSORS=[f"{__name__}.number"])
    server = counting()

    @server.tool
    def stored(frame: Frame) -> tuple[str, Frame]:
        return repr([change.key for change in frame.changes]), frame

    async with client_for(server) as client:
        await client.call_tool("put", {"key": "number", "value": "mine"})
        first = said(await client.call_tool("everything"))
        second = said(await client.call_tool("everything"))
        assert said(await client.call_tool("stored")) == "[]"

    assert first != second
    assert "mine" not in first


async def test_a_frame_says_nothing_of_its_contents_in_logs(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.tool
    def show(frame: Frame) -> str:
        return repr(frame.assign("password", "xyzzy"))

    async with client_for(server) as client:
        shown = said(await client.call_tool("show"))

    assert "password" in shown
    assert "xyzzy" not in shown
