"""What a caller of a challenged component is answered over HTTP, before the first byte."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import AuthenticationRequired, Frame, InsufficientScope, Server
from django_mcp.core.protocol import jsonrpc
from django_mcp.testing.asgi import Reply, perform
from django_mcp.transports.http import open_streams
from tests.spec import spec
from tests.transports.http.token_servers import bearer, desk, tokens_of
from tests.wire.asgi import AsgiClient
from tests.wire.messages import REPORTING, SESSIONS, STATELESS

METADATA = 'resource_metadata="http://testserver/.well-known/oauth-protected-resource/desk"'
LACKING = (
    'error="insufficient_scope", error_description="The access token lacks a scope that this needs"'
)
ALL = [*SESSIONS, STATELESS]


async def opened(server: Server, version: str, token: str | None = None) -> AsgiClient:
    wire = AsgiClient(
        server, version, headers=None if token is None else bearer(token), meta=REPORTING
    )
    if version != STATELESS:
        await wire.initialize()
    return wire


def challenge_of(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.headers["www-authenticate"]


@spec(
    "AUTH-RS-02",
    "AUTH-RS-04",
    "AUTH-RS-07",
    "AUTH-RS-08",
    "AUTH-RS-10",
    "AUTH-RS-11",
    "AUTH-01",
    "AUTH-03",
)
@pytest.mark.parametrize("version", ALL)
async def test_anonymous_call_of_a_challenged_tool_gets_401(version: str) -> None:
    wire = await opened(desk(), version)

    reply = await wire.post(wire.call("close"))

    assert challenge_of(reply) == (401, f'Bearer {METADATA}, scope="read write"')
    assert reply.media_type == "application/json"
    assert reply.json()["error"]["data"] == {"scopes": ["read", "write"]}


@spec("AUTH-RS-22", "AUTH-RS-23", "AUTH-05")
@pytest.mark.parametrize("version", ALL)
async def test_call_with_a_token_without_the_scopes_gets_403_with_all_of_them(version: str) -> None:
    wire = await opened(desk(scopes=["mcp"]), version, "mcp+read")

    reply = await wire.post(wire.call("close"))

    assert challenge_of(reply) == (403, f'Bearer {METADATA}, scope="mcp read write", {LACKING}')
    assert (await wire.post(wire.call("look"))).status == 200


@spec("AUTH-RS-01")
@pytest.mark.parametrize("version", ALL)
async def test_public_tool_is_called_without_a_token(version: str) -> None:
    wire = await opened(desk(), version)

    assert (await wire.post(wire.call("hello"))).status == 200


@spec(
    "AUTH-RS-04",
    "AUTH-RS-07",
    "AUTH-RS-14",
    "AUTH-RS-21",
    "AUTH-RS-22",
    "AUTH-RS-32",
    "AUTH-05",
    "AUTH-09",
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("token", [None, "expired"])
async def test_every_request_of_a_session_needs_the_token(method: str, token: str | None) -> None:
    server = desk(public=False, scopes=["mcp"])
    wire = await opened(server, "2025-11-25", "mcp")
    changes = {"authorization": None if token is None else f"Bearer {token}"}

    reply = await wire.perform(method, changes)

    status, challenge = challenge_of(reply)
    assert status == 401
    assert challenge.startswith(f'Bearer {METADATA}, scope="mcp"')
    assert ('error="invalid_token"' in challenge) is (token is not None)
    assert "id" not in reply.json()


@spec("AUTH-RS-22", "AUTH-05")
async def test_two_different_authorization_headers_get_400() -> None:
    wire = AsgiClient(desk(), meta=REPORTING)
    scope = wire.scope(wire.call("hello"), bearer("read"))
    scope["headers"].append((b"authorization", b"Bearer write"))

    reply = await perform(wire.application, scope, b"{}")

    assert reply.status == 400


async def test_session_of_an_anonymous_caller_is_taken_over_with_a_token() -> None:
    wire = await opened(desk(), "2025-11-25")

    assert (await wire.post(wire.call("look"), bearer("read"))).status == 200
    assert (await wire.post(wire.call("look"))).status == 404


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("error", [AuthenticationRequired, InsufficientScope])
async def test_handler_can_raise_a_challenge(
    version: str, error: type[AuthenticationRequired]
) -> None:
    server = desk()

    @server.tool(name="transfer")
    def transfer() -> str:
        raise error(scopes=["transfer"])

    wire = await opened(server, version, "read")

    status, challenge = challenge_of(await wire.post(wire.call("transfer")))

    assert status == (403 if error is InsufficientScope else 401)
    assert 'scope="transfer"' in challenge


async def test_challenge_after_the_stream_has_begun_is_an_error_on_it() -> None:
    server = desk()

    @server.tool(name="transfer")
    async def transfer(frame: Frame) -> str:
        await frame.client.aprogress(1, 2)
        raise InsufficientScope(scopes=["transfer"])

    wire = await opened(server, STATELESS, "read")
    async with wire.open_post(wire.call("transfer")) as stream:
        assert await stream.status() == 200
        messages = [jsonrpc.decode(event.data.encode()) async for event in stream.events()]

    assert messages[-1]["error"]["data"] == {"scopes": ["transfer"]}


async def test_initialize_hook_can_challenge() -> None:
    server = desk()

    @server.hook
    def on_initialize(client_info: Any, capabilities: Any, frame: Frame) -> Frame:
        raise AuthenticationRequired(scopes=["read"])

    wire = AsgiClient(server, "2025-11-25", meta=REPORTING)

    reply = await wire.post(wire.initialize_request())

    assert challenge_of(reply) == (401, f'Bearer {METADATA}, scope="read"')
    assert "mcp-session-id" not in reply.headers


async def test_challenge_of_a_server_without_issuers_names_no_metadata() -> None:
    wire = await opened(desk(issuer=None), STATELESS)

    assert challenge_of(await wire.post(wire.call("look"))) == (401, 'Bearer scope="read"')


# Batches.


@spec("AUTH-RS-24")
async def test_batch_of_challenged_requests_is_challenged_with_the_scopes_of_all() -> None:
    wire = await opened(desk(), "2025-03-26")
    read = wire.request("resources/read", {"uri": "desk://news"})

    reply = await wire.post([wire.call("look"), wire.call("close"), read])

    assert challenge_of(reply) == (401, f'Bearer {METADATA}, scope="read write"')
    assert [each["error"]["message"] for each in reply.json()] == ["Authentication required"] * 3


async def test_batch_of_one_is_challenged_for_a_token_without_the_scopes() -> None:
    wire = await opened(desk(), "2025-03-26", "read")

    reply = await wire.post([wire.call("close")])

    assert challenge_of(reply) == (403, f'Bearer {METADATA}, scope="read write", {LACKING}')


async def test_batch_of_which_something_was_done_is_answered_with_each_error() -> None:
    wire = await opened(desk(), "2025-03-26")

    reply = await wire.post([wire.call("hello"), wire.call("look")])

    assert reply.status == 200
    assert "www-authenticate" not in reply.headers
    found = {"error" in each: each for each in reply.json()}
    assert found[True]["error"]["data"] == {"scopes": ["read"]}
    assert found[False]["result"]["content"][0]["text"] == "hello"


# Streams.


@spec("AUTH-06")
async def test_listening_to_a_challenged_resource_is_challenged_before_the_first_byte() -> None:
    peer = AsgiClient(desk(capabilities={"resources": {"subscribe": True}}), STATELESS)

    reply = await peer.post(peer.listen(id=1, resourceSubscriptions=["desk://news"]))

    assert challenge_of(reply) == (401, f'Bearer {METADATA}, scope="read"')
    assert reply.json()["id"] == 1


@pytest.mark.parametrize("version", [STATELESS, "2025-11-25"])
async def test_open_stream_ends_when_its_token_is_revoked(version: str) -> None:
    server = desk()
    peer = AsgiClient(server, version, headers=bearer("read"))
    if version != STATELESS:
        await peer.initialize()
    opening = peer.open_post(peer.listen(id=1)) if version == STATELESS else peer.open_get()
    async with opening as stream:
        assert await stream.status() == 200
        if version == STATELESS:
            await stream.message()
        (held,) = open_streams.here().streams
        await held.check()
        assert held.is_denied is False
        tokens_of(server).revoked.add("read")
        await held.check()
        assert bool(held.is_denied)
        await stream.wait_closed()
    tokens_of(server).revoked.clear()
    assert open_streams.here().streams == {}


async def test_update_is_not_sent_after_a_token_has_lost_its_scope() -> None:
    server = desk(capabilities={"resources": {"subscribe": True}})
    peer = AsgiClient(server, STATELESS, headers=bearer("read"))
    async with peer.open_post(
        peer.listen(id=1, resourceSubscriptions=["desk://news"], toolsListChanged=True)
    ) as stream:
        await stream.message()
        await server.anotify_resource_updated("desk://news")
        assert (await stream.message())["method"] == "notifications/resources/updated"
        stream._scope["headers"] = [
            (name, b"Bearer other" if name == b"authorization" else value)
            for name, value in stream._scope["headers"]
        ]
        (held,) = open_streams.here().streams
        await held.check()
        await server.anotify_resource_updated("desk://news")
        await server.anotify_tools_list_changed()
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
