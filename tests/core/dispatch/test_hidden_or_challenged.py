"""A hidden component is answered like a missing one; a challenge says exactly what suffices.

Whatever guards a component, whoever calls it, with every method and in every revision, over HTTP.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp import Server
from django_mcp.core.dispatch.methods import METHODS
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.tasks import extension as tasks
from django_mcp.testing.asgi import Reply
from tests.core.dispatch.guarded import (
    CALLERS,
    GUARDS,
    LISTS,
    OF_TASKS,
    OTHERS,
    URI,
    USES,
    Caller,
    Guard,
    Use,
    desk,
)
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import SESSIONS, STATELESS

ALL = [*SESSIONS, STATELESS]
EXAMINED_BELOW = {"subscriptions/listen", "initialize"}


def test_every_method_is_examined() -> None:
    examined = {method for method, _ in (*USES, *OTHERS)} | {*LISTS} | EXAMINED_BELOW
    of_tasks = {method.name for method in tasks.EXTENSION.methods}
    assert {*METHODS} | of_tasks == examined | OF_TASKS, "add the new methods to guarded.py"


async def connect(server: Server, version: str, caller: Caller) -> AsgiClient:
    wire = AsgiClient(server, version, headers=caller.headers)
    if version != STATELESS:
        await wire.initialize()
    return wire


async def post(wire: AsgiClient, message: Any, like: AsgiClient) -> Reply:
    """Return the response of one server to the request that is sent to another."""
    sent = like.headers_of(message)
    same = {name: value for name, value in sent.items() if name != "mcp-session-id"}
    return await wire.post(message, same)


def challenged_scopes(reply: Reply) -> frozenset[str]:
    found = re.search(r'scope="([^"]*)"', reply.headers["www-authenticate"])
    return frozenset(found[1].split() if found else ())


VERSIONS = st.sampled_from(ALL)


def in_each_revision(uses: list[Use]) -> pytest.MarkDecorator:
    """Run a test for each of these requests, in each revision that has its method."""
    having = [(v, use) for v in ALL for use in uses if use[0] in BY_VERSION[v].requests]
    ids = [f"{version}-{method}" for version, (method, _) in having]
    return pytest.mark.parametrize(("version", "use"), having, ids=ids)


@spec(
    "AUTH-RS-10", "AUTH-RS-12", "AUTH-RS-17", "AUTH-RS-24", "AUTH-RS-25", "AUTH-06", "identity-23"
)
@in_each_revision(USES)
@settings(max_examples=8, deadline=None)
@given(guard=GUARDS, caller=CALLERS)
async def test_guarded_component_is_used_hidden_or_challenged(
    guard: Guard, caller: Caller, version: str, use: Use
) -> None:
    method, params = use
    expected = guard.answer(caller)
    if expected == "rejected":
        return
    there, missing = desk(guard, has_guarded=True), desk(guard, has_guarded=False)
    wire, other = await connect(there, version, caller), await connect(missing, version, caller)
    message = wire.request(method, params)

    reply = await wire.post(message)

    if expected == "result":
        assert reply.status == 200
        assert "result" in reply.json()
    elif expected == "hidden":
        await check_hidden(wire, other, message, reply)
    else:
        assert reply.status == (401 if caller.is_anonymous else 403)
        assert challenged_scopes(reply) == guard.suffices
        await check_suffices(there, version, use, guard)
    await check_lists(wire, other, guard, caller)


async def check_hidden(wire: AsgiClient, other: AsgiClient, message: Any, reply: Reply) -> None:
    """Check that the response is the one to a request for a component that does not exist."""
    assert "error" in reply.json()
    assert await post(other, message, wire) == reply
    if wire.version == "2025-03-26":
        assert await post(other, [message], wire) == await wire.post([message])


async def check_suffices(server: Server, version: str, use: Use, guard: Guard) -> None:
    """Check that the scopes suffice, and that none of them can be left out."""
    for left_out in [None, *guard.suffices]:
        caller = Caller(scopes=guard.suffices - {left_out})
        if left_out in guard.of_server:
            assert guard.answer(caller) == "rejected"
            reply = await AsgiClient(server, version, headers=caller.headers).perform("POST")
        else:
            wire = await connect(server, version, caller)
            reply = await wire.post(wire.request(*use))
        assert reply.status == (200 if left_out is None else 403)


async def check_lists(wire: AsgiClient, other: AsgiClient, guard: Guard, caller: Caller) -> None:
    """Check that a hidden component is in no list, and that any other one is."""
    for method in LISTS:
        message = wire.request(method)
        reply, without = await wire.post(message), await post(other, message, wire)
        assert reply.status == 200
        assert (reply == without) is (guard.answer(caller) == "hidden")


@in_each_revision(OTHERS)
@settings(max_examples=5, deadline=None)
@given(guard=GUARDS, caller=CALLERS)
async def test_response_of_another_method_is_the_same_without_the_component(
    guard: Guard, caller: Caller, version: str, use: Use
) -> None:
    if guard.answer(caller) == "rejected":
        return
    wire = await connect(desk(guard, has_guarded=True), version, caller)
    other = await connect(desk(guard, has_guarded=False), version, caller)
    message = wire.request(*use)

    reply = await wire.post(message)

    assert reply.status == 200
    assert await post(other, message, wire) == reply


@pytest.mark.parametrize("version", SESSIONS)
@settings(max_examples=5, deadline=None)
@given(guard=GUARDS, caller=CALLERS)
async def test_session_is_opened_alike_without_the_component(
    guard: Guard, caller: Caller, version: str
) -> None:
    if guard.answer(caller) == "rejected":
        return
    replies = []
    for has_guarded in (True, False):
        wire = AsgiClient(desk(guard, has_guarded=has_guarded), version, headers=caller.headers)
        reply = await wire.post(wire.initialize_request())
        headers = {k: v for k, v in reply.headers.items() if k != "mcp-session-id"}
        replies.append((reply.status, headers, reply.body))
    assert replies[0] == replies[1]
    assert replies[0][0] == 200


@spec("AUTH-RS-17", "AUTH-04")
@settings(max_examples=40, deadline=None)
@given(guard=GUARDS, caller=CALLERS, version=VERSIONS)
async def test_token_without_the_scopes_of_the_server_is_rejected_before_the_message_is_read(
    guard: Guard, caller: Caller, version: str
) -> None:
    if guard.answer(caller) != "rejected":
        return
    wire = AsgiClient(desk(guard, has_guarded=True), version, headers=caller.headers)

    reply = await wire.post(b"{")

    assert (reply.status, challenged_scopes(reply)) == (403, guard.of_server)


@settings(max_examples=60, deadline=None)
@given(guard=GUARDS, caller=CALLERS, uri=st.sampled_from([URI, f"{URI}/7"]))
async def test_listening_to_a_guarded_resource_is_acknowledged_ignored_or_challenged(
    guard: Guard, caller: Caller, uri: str
) -> None:
    expected = guard.answer(caller)
    if expected == "rejected":
        return
    acknowledged = []
    for has_guarded in (True, False):
        wire = await connect(desk(guard, has_guarded=has_guarded), STATELESS, caller)
        wanted = {"notifications": {"resourceSubscriptions": [uri]}}
        async with wire.open_post(wire.request("subscriptions/listen", wanted)) as stream:
            status, headers = await stream.status(), await stream.headers()
            event = await stream.event() if status == 200 else None
        acknowledged.append((status, headers, event))
    (status, headers, event), without = acknowledged
    if expected == "challenged":
        assert status == (401 if caller.is_anonymous else 403)
        assert challenged_scopes(Reply(status=status, headers=headers, body=b"")) == guard.suffices
    else:
        assert status == 200
        assert event is not None
        assert (uri in event.data) is (expected == "result")
        assert (acknowledged[0] == without) is (expected == "hidden")
