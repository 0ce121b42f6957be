"""The Frame of a handler: the request, the principal, the transport, assigns and processors."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import Frame, McpError, Server
from django_mcp.frame import HttpTransport, StdioTransport
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.spec import spec

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"

in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)
over_http = pytest.mark.parametrize("mcp_transport", ["http"])


class FrameRecorder:
    """A server with one tool, which records its Frames."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.server = Server("desk", path="/desk/mcp")
        self.server.tool(name="record")(self.record)

    def record(self, frame: Frame, number: int = 0) -> None:
        self.frames.append(frame)

    @property
    def frame(self) -> Frame:
        (frame,) = self.frames
        return frame


# The request.


async def test_frame_request_contains_the_message_as_received(client_for: ClientFor) -> None:
    seen = FrameRecorder()

    async with client_for(seen.server) as client:
        await client.call_tool("record", {"number": 7}, meta={"com.example/key": [1]})

    request = seen.frame.request
    assert request is not None
    assert request.method == "tools/call"
    assert isinstance(request.id, int)
    assert request.params["arguments"] == {"number": 7}
    assert request.params["_meta"]["com.example/key"] == [1]


async def test_frame_exposes_client_and_protocol_version(
    client_for: ClientFor, mcp_version: str
) -> None:
    seen = FrameRecorder()

    async with client_for(seen.server, capabilities={"roots": {}}) as client:
        await client.call_tool("record")

    frame = seen.frame
    assert frame.get_protocol_version() == mcp_version
    assert getattr(frame.get_protocol_module(), "version", None) == mcp_version
    assert frame.get_client_capabilities() == {"roots": {}}
    assert (frame.get_client_info() or {})["name"] == "django-mcp-test-client"
    assert frame.server is seen.server


async def test_session_id_is_set_in_sessions_and_none_in_stateless_requests(
    client_for: ClientFor, mcp_version: str
) -> None:
    seen = FrameRecorder()

    async with client_for(seen.server) as client:
        await client.call_tool("record")
        await client.call_tool("record")

    ids = [frame.get_mcp_session_id() for frame in seen.frames]
    assert ids[0] == ids[1]
    assert (ids[0] is None) == (mcp_version == STATELESS)


@in_sessions
async def test_initialize_meta_and_initialized_state_are_stored_in_the_session(
    client_for: ClientFor,
) -> None:
    seen = FrameRecorder()
    client = client_for(seen.server)
    params = {
        "protocolVersion": client.revision.version,
        "capabilities": {},
        "clientInfo": {"name": "other", "version": "1"},
    }
    await client.connect()

    await client.request("initialize", params, meta={"com.example/tenant": "acme"})
    await client.call_tool("record")
    await client.notify("notifications/initialized")
    await client.call_tool("record")
    await client.close()

    assert seen.frames[0].private["init_meta"] == {"com.example/tenant": "acme"}
    assert [frame.initialized for frame in seen.frames] == [False, True]


# The principal.


@spec("ELIC-27", "2026/META-05", "2026/ELI-06")
async def test_user_is_anonymous_without_authentication(
    client_for: ClientFor,
) -> None:
    seen = FrameRecorder()

    async with client_for(seen.server) as client:
        await client.call_tool("record")

    assert isinstance(seen.frame.user, AnonymousUser)


@spec("ELIC-26")
async def test_frame_exposes_the_authenticated_user_and_scopes(client_for: ClientFor) -> None:
    seen = FrameRecorder()
    user = AnonymousUser()

    async with client_for(seen.server, user=user, scopes=["read"]) as client:
        await client.call_tool("record")

    assert seen.frame.user is user
    assert seen.frame.auth is not None
    assert seen.frame.auth.scopes == {"read"}


# The transport.


@over_http
async def test_http_transport_exposes_headers_query_and_remote_ip(client_for: ClientFor) -> None:
    seen = FrameRecorder()
    sent = {"X-Tenant": "acme", "Host": "localhost:8443"}

    async with client_for(seen.server, headers=sent, query="a=1&b=&c=caf%C3%A9&a=2") as client:
        await client.call_tool("record")

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
async def test_http_port_defaults_to_the_port_of_the_scheme(client_for: ClientFor) -> None:
    seen = FrameRecorder()

    async with client_for(seen.server) as client:
        await client.call_tool("record")

    assert isinstance(seen.frame.transport, HttpTransport)
    assert (seen.frame.transport.host, seen.frame.transport.port) == ("testserver", 80)


@pytest.mark.parametrize("mcp_transport", ["stdio"])
async def test_stdio_transport_exposes_environment_and_process_id(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = FrameRecorder()
    monkeypatch.setenv("SHOP_TENANT", "acme")

    async with client_for(seen.server) as client:
        await client.call_tool("record")

    frame = seen.frame
    assert isinstance(frame.transport, StdioTransport)
    assert frame.transport.type == "stdio"
    assert frame.transport.env["SHOP_TENANT"] == "acme"
    assert frame.transport.os_pid == os.getpid()
    assert frame.transport.pid == str(os.getpid())
    assert frame.session is None
    assert (frame.get_req_header("x"), frame.get_query_param("x")) == (None, None)


# Assigns.


def assigns_server() -> Server:
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


@in_sessions
async def test_assigns_of_a_returned_frame_are_stored_in_the_session(
    client_for: ClientFor,
) -> None:
    async with client_for(assigns_server()) as client:
        await client.call_tool("put", {"key": "a", "value": [1, {"b": None}]})
        await client.call_tool("put", {"key": "c", "value": "d"})
        assert (await client.call_tool("everything")).text == "{'a': [1, {'b': None}], 'c': 'd'}"


@spec("2026/ST-01")
@pytest.mark.parametrize("mcp_version", [STATELESS])
async def test_assigns_are_discarded_without_a_session(client_for: ClientFor) -> None:
    async with client_for(assigns_server()) as client:
        await client.call_tool("put", {"key": "a", "value": 1})
        assert (await client.call_tool("everything")).text == "{}"


@in_sessions
async def test_assigns_are_isolated_between_sessions(client_for: ClientFor) -> None:
    server = assigns_server()

    async with client_for(server) as one, client_for(server) as other:
        await one.call_tool("put", {"key": "a", "value": 1})
        assert (await other.call_tool("everything")).text == "{}"


@in_sessions
async def test_frame_is_stored_with_a_returned_error_but_not_with_a_raised_error(
    client_for: ClientFor,
) -> None:
    async with client_for(assigns_server()) as client:
        await error_of(client.call_tool("refuse"))
        await error_of(client.call_tool("explode"))
        assert (await client.call_tool("everything")).text == "{'refused': 1}"


@in_sessions
async def test_concurrent_calls_preserve_the_assigns_of_each_other(client_for: ClientFor) -> None:
    server = assigns_server()
    both = asyncio.Barrier(2)

    @server.tool
    async def meet(key: str, frame: Frame) -> tuple[str, Frame]:
        await both.wait()
        return "met", frame.assign(key, 1)

    async with client_for(server) as client:
        await asyncio.gather(
            client.call_tool("meet", {"key": "a"}), client.call_tool("meet", {"key": "b"})
        )
        assert (await client.call_tool("everything")).text == "{'a': 1, 'b': 1}"


async def test_call_is_answered_when_its_handler_clears_the_frame(
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
        assert (await client.call_tool("clear")).text == "cleared"
        assert (await error_of(client.call_tool("refuse"))).message == "No"
        assert (await error_of(client.call_tool("pretend"))).message == "No"


@in_sessions
async def test_unserializable_assign_returns_internal_error_and_is_not_stored(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = assigns_server()

    @server.tool
    def hoard(frame: Frame) -> Frame:
        return frame.assign("it", object())

    async with client_for(server) as client:
        error = await error_of(client.call_tool("hoard"))
        assert (await client.call_tool("everything")).text == "{}"

    assert error.code == -32603
    assert "A session stores JSON" in caplog.text


# Frame processors.


def tenant(frame: Frame) -> dict[str, Any]:
    return {"tenant": "acme", "who": type(frame.user).__name__}


async def atenant(frame: Frame) -> dict[str, Any]:
    return {"tenant": "acme", "who": type(frame.user).__name__}


@pytest.mark.parametrize("processor", ["tenant", "atenant"])
async def test_frame_processors_add_assigns_to_each_message(
    client_for: ClientFor, configure: Configure, processor: str
) -> None:
    configure(FRAME_PROCESSORS=[f"{__name__}.{processor}"])

    async with client_for(assigns_server()) as client:
        expected = "{'tenant': 'acme', 'who': 'AnonymousUser'}"
        assert (await client.call_tool("everything")).text == expected


numbers = iter(range(1000))


def number(frame: Frame) -> dict[str, Any]:
    return {"number": next(numbers)}


@in_sessions
async def test_frame_processor_assigns_override_session_values_and_are_not_stored(
    client_for: ClientFor, configure: Configure
) -> None:
    configure(FRAME_PROCESSORS=[f"{__name__}.number"])
    server = assigns_server()

    @server.tool
    def stored(frame: Frame) -> tuple[str, Frame]:
        return repr([change.key for change in frame.changes]), frame

    async with client_for(server) as client:
        await client.call_tool("put", {"key": "number", "value": "mine"})
        first = (await client.call_tool("everything")).text
        second = (await client.call_tool("everything")).text
        assert (await client.call_tool("stored")).text == "[]"

    assert first != second
    assert "mine" not in first


async def test_frame_repr_omits_assigned_values(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.tool
    def show(frame: Frame) -> str:
        return repr(frame.assign("password", "xyzzy"))

    async with client_for(server) as client:
        shown = (await client.call_tool("show")).text

    assert "password" in shown
    assert "xyzzy" not in shown
