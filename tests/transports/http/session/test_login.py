"""A session that was opened anonymously, and in which its caller logs in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Frame, Server, stores
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.session import Session
from django_mcp.pubsub import session_messages
from tests.constants import SetConstants
from tests.transports.http.token_servers import Tokens, bearer, desk
from tests.wire.asgi import AsgiClient, Exchange
from tests.wire.messages import NEWEST_SESSION, SESSIONS, Message


class Names(Tokens):
    """Accepts the token ``name`` or ``name:scopes`` for the user of this name."""

    async def authenticate(self, scope: Any, /) -> Any:
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        if not header:
            return None
        name, _, scopes = header.removeprefix("Bearer ").partition(":")
        return Principal(scheme="token", subject=name, scopes=frozenset(scopes.split("+")))


def shop(**options: Any) -> Server:
    """A server for everybody, which remembers values in sessions."""
    server = Server("shop", authenticators=[Names(), AnonymousAuthentication()], **options)

    @server.tool
    def remember(frame: Frame, value: str) -> tuple[str, Frame]:
        return "kept", frame.assign(value=value)

    @server.tool
    def recall(frame: Frame) -> str:
        return f"{frame.principal.subject or 'nobody'}: {frame.assigns.get('value')}"

    @server.tool(scopes=["read"])
    def mine(frame: Frame) -> str:
        return f"of {frame.principal.subject}"

    @server.resource("shop://news")
    def news() -> str:
        return "Nothing new"

    return server


async def opened(server: Server, version: str = NEWEST_SESSION, **options: Any) -> AsgiClient:
    peer = AsgiClient(server, version, **options)
    await peer.initialize()
    return peer


def as_caller(peer: AsgiClient, token: str | None) -> AsgiClient:
    """Another client with the id of the session, and this token."""
    headers = {} if token is None else bearer(token)
    return AsgiClient(peer.server, peer.version, session=peer.session, headers=headers)


async def text_of(peer: AsgiClient, tool: str, **arguments: Any) -> str:
    reply = await peer.post(peer.call(tool, **arguments))
    assert reply.status == 200, reply.body
    text: str = reply.json()["result"]["content"][0]["text"]
    return text


async def session_of(peer: AsgiClient) -> Session:
    assert peer.session is not None
    session = await stores.sessions().load(peer.session)
    assert session is not None
    return session


@pytest.mark.parametrize("version", SESSIONS)
async def test_call_is_repeated_in_the_same_session_after_the_login(version: str) -> None:
    peer = await opened(desk(), version=version)
    assert (await peer.post(peer.call("look"))).status == 401

    assert await text_of(as_caller(peer, "read"), "look") == "seen"


async def test_session_has_the_principal_that_logged_in_from_then_on() -> None:
    peer = await opened(shop())

    assert await text_of(as_caller(peer, "ann:read"), "mine") == "of ann"

    session = await session_of(peer)
    assert (session.principal, session.caller, session.anonymous_at) == ("token:ann", "", None)


async def test_anonymous_caller_has_no_access_after_the_login() -> None:
    peer = await opened(shop())
    await text_of(as_caller(peer, "ann"), "recall")

    assert (await peer.post(peer.call("recall"))).status == 404
    assert (await peer.delete()).status == 404
    async with peer.open_get() as stream:
        assert await stream.status() == 404


async def test_second_principal_has_no_access_after_the_login() -> None:
    peer = await opened(shop())
    await text_of(as_caller(peer, "ann"), "recall")

    bob = as_caller(peer, "bob")
    assert (await bob.post(bob.call("recall"))).status == 404


async def test_session_of_a_principal_is_never_taken_over() -> None:
    ann = await opened(shop(), headers=bearer("ann"))

    for token in ("bob", None):
        other = as_caller(ann, token)
        assert (await other.post(other.call("recall"))).status == 404
    assert (await session_of(ann)).principal == "token:ann"


async def test_session_of_another_server_is_not_taken_over() -> None:
    peer = await opened(shop())
    other = Server("other", authenticators=[Names(), AnonymousAuthentication()])
    ann = AsgiClient(other, NEWEST_SESSION, session=peer.session, headers=bearer("ann"))

    assert (await ann.post(ann.request("tools/list"))).status == 404
    assert (await session_of(peer)).anonymous_at == ""


async def test_what_the_session_remembers_from_before_the_login_is_dropped() -> None:
    peer = await opened(shop())
    await text_of(peer, "remember", value="planted")
    await peer.post(peer.request("resources/subscribe", {"uri": "shop://news"}))
    await peer.post(peer.request("logging/setLevel", {"level": "error"}))
    assert (await session_of(peer)).subscriptions

    assert await text_of(as_caller(peer, "ann"), "recall") == "ann: None"

    session = await session_of(peer)
    assert (session.assigns, session.subscriptions, session.log_level) == ({}, frozenset(), None)
    assert session.initialized


async def test_messages_from_before_the_login_are_dropped() -> None:
    peer = await opened(shop())
    address = (await session_of(peer)).address
    await session_messages.post_to_outbox(address, {"jsonrpc": "2.0", "method": "planted"})

    await text_of(as_caller(peer, "ann"), "recall")

    assert await stores.events().after(address, session_messages.OUTBOX, 0) is None


async def test_what_an_earlier_call_changes_after_the_login_is_dropped() -> None:
    server, started, proceed = shop(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def remember_late(frame: Frame) -> tuple[str, Frame]:
        started.set()
        try:
            await proceed.wait()
        except asyncio.CancelledError:
            await proceed.wait()  # As a handler that runs in a thread, which cannot be cancelled.
        return "kept", frame.assign(value="planted")

    peer = await opened(server)
    async with peer.open_post(peer.call("remember_late")) as call:
        await started.wait()
        await text_of(as_caller(peer, "ann"), "recall")
        proceed.set()
        await call.status()

    assert await text_of(as_caller(peer, "ann"), "recall") == "ann: None"


async def test_response_to_a_request_from_before_the_login_is_rejected() -> None:
    server = shop()

    @server.tool
    async def ask(frame: Frame) -> str:
        await frame.client.aping(timeout=20)
        return "there"

    peer = await opened(server)
    async with peer.open_post(peer.call("ask")) as call:
        request = await call.message()
        ann = as_caller(peer, "ann")
        await text_of(ann, "recall")

        reply = await ann.post({"jsonrpc": "2.0", "id": request["id"], "result": {}})

        assert reply.status == 400
        assert "error" in await last_of(call)


async def last_of(call: Exchange) -> Message:
    """The response to a call, after its notifications."""
    while True:
        message = await call.message()
        if "method" not in message:
            return message


async def test_open_stream_of_the_anonymous_caller_ends_with_the_login() -> None:
    peer = await opened(shop())
    async with peer.stream() as stream:
        await stream.event()
        ann = as_caller(peer, "ann")
        await text_of(ann, "recall")
        address = (await session_of(peer)).address
        await session_messages.post_to_outbox(address, {"jsonrpc": "2.0", "method": "secret"})

        events = [event async for event in until_end(stream)]
        assert not any("secret" in event.data for event in events)

    async with ann.stream() as stream:
        assert (await stream.message())["method"] == "secret"


async def until_end(stream: Any) -> Any:
    while (event := await stream.event()) is not None:
        yield event


async def test_stream_that_misses_the_login_sends_no_message_of_the_principal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = await opened(shop())
    async with peer.stream() as stream:
        await stream.event()
        with monkeypatch.context() as patched:

            async def lose(*_: Any, **__: Any) -> None:
                """Publish nothing."""

            patched.setattr(session_messages, "send_to_session", lose)
            await text_of(as_caller(peer, "ann"), "recall")
        address = (await session_of(peer)).address
        await session_messages.post_to_outbox(address, {"jsonrpc": "2.0", "method": "secret"})

        events = [event async for event in until_end(stream)]
        assert not any("secret" in event.data for event in events)


async def test_login_by_initialized_takes_the_session_over() -> None:
    peer = AsgiClient(shop(), NEWEST_SESSION)
    await peer.initialize(ready=False)
    ann = as_caller(peer, "ann")

    assert (await ann.notify("notifications/initialized")).status == 202

    session = await session_of(peer)
    assert (session.principal, session.initialized) == ("token:ann", True)


async def test_principal_may_end_an_anonymous_session() -> None:
    peer = await opened(shop())

    assert (await as_caller(peer, "ann").delete()).status == 204
    assert (await peer.post(peer.call("recall"))).status == 404


async def test_stream_of_a_principal_takes_the_session_over() -> None:
    peer = await opened(shop())

    async with as_caller(peer, "ann").stream():
        assert (await session_of(peer)).principal == "token:ann"


async def test_one_of_several_principals_at_once_gets_the_session() -> None:
    peer = await opened(shop())
    callers = [as_caller(peer, name) for name in ("ann", "bob", "cleo", "dan")]

    replies = await asyncio.gather(*(each.post(each.call("recall")) for each in callers))

    assert sorted(reply.status for reply in replies) == [200, 404, 404, 404]


async def test_requests_of_one_principal_at_once_are_all_answered() -> None:
    peer = await opened(shop())
    ann = as_caller(peer, "ann")

    replies = await asyncio.gather(*(ann.post(ann.call("recall")) for _ in range(5)))

    assert [reply.status for reply in replies] == [200] * 5


async def test_init_hook_is_called_again_for_who_has_logged_in() -> None:
    server = shop()

    @server.hook
    def init(client_info: Any, frame: Frame) -> Frame:
        return frame.assign(value=f"hello {frame.principal.subject or 'nobody'}")

    peer = await opened(server)
    assert await text_of(peer, "recall") == "nobody: hello nobody"

    assert await text_of(as_caller(peer, "ann"), "recall") == "ann: hello ann"


async def test_session_counts_as_one_of_the_principal_after_the_login(
    set_constants: SetConstants,
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=1)
    server = shop()
    peer = await opened(server)
    await text_of(as_caller(peer, "ann"), "recall")

    second = AsgiClient(server, NEWEST_SESSION, headers=bearer("ann"))
    assert (await second.post(second.initialize_request())).status == 429
