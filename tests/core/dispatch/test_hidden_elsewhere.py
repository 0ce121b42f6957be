"""A hidden component is answered like a missing one over every transport.

Over HTTP, see ``test_hidden_or_challenged``, which also compares status and headers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp import Server, registry, routing
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.testing import Client
from tests.core.dispatch.guarded import (
    CALLERS,
    GUARDS,
    LISTS,
    OTHERS,
    USES,
    Caller,
    Guard,
    Member,
    Use,
    desk,
)
from tests.memory_stores import Configure, configure
from tests.transports.http_sse_client import connected, not_found
from tests.wire.messages import SESSIONS, STATELESS

__all__ = ["configure"]

Answer = Callable[[Use], Awaitable[dict[str, Any]]]
"""Sends a request and returns the whole response; each has the same id."""

# The scopes of a server are checked where a token arrives, which is over HTTP only.
OF_COMPONENTS = GUARDS.map(lambda guard: replace(guard, of_server=frozenset()))
ID = 77
CHALLENGES = {
    True: "Authentication required",
    False: "The access token lacks a scope that this needs",
}
"""By whether the caller is anonymous."""


@asynccontextmanager
async def in_process(
    transport: Any, server: Server, version: str, caller: Caller
) -> AsyncIterator[Answer]:
    """Answers over memory or stdio."""
    user = None if caller.is_anonymous else Member(is_permitted=caller.is_permitted)
    options: Any = {"transport": transport, "version": version}
    async with Client(server, user=user, scopes=caller.scopes, **options) as client:

        async def answer(use: Use) -> dict[str, Any]:
            response = await client.send({**client.message(*use), "id": ID})
            assert response is not None
            return response

        yield answer


@asynccontextmanager
async def over_http_sse(server: Server, caller: Caller) -> AsyncIterator[Answer]:
    """Answers over HTTP+SSE: the response is an event of the stream."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "mountable", lambda: (server,))
        application = routing.mount(not_found)
        async with connected(application, **caller.headers) as client:
            await client.initialize()

            async def answer(use: Use) -> dict[str, Any]:
                reply = await client.post(jsonrpc.request(ID, *use))
                assert (reply.status, reply.body) == (202, b"")
                return await client.message()

            yield answer


async def check(
    opened: Callable[[Server, Caller], Any], guard: Guard, caller: Caller, version: str
) -> None:
    """Compare a server that has guarded components with one that does not."""
    there, missing = desk(guard, has_guarded=True), desk(guard, has_guarded=False)
    expected = guard.answer(caller)
    async with opened(there, caller) as answer, opened(missing, caller) as other:
        for use in _of(version, USES):
            response = await answer(use)
            if expected == "result":
                assert "result" in response, use
            elif expected == "hidden":
                assert response == await other(use)
                assert "error" in response
            else:
                error = response["error"]
                assert error["message"] == CHALLENGES[caller.is_anonymous]
                assert error.get("data", {}) == (
                    {"scopes": sorted(guard.suffices)} if guard.suffices else {}
                )
        for method in LISTS:
            alike = await answer((method, {})) == await other((method, {}))
            assert alike is (expected == "hidden")
        for use in _of(version, OTHERS):
            assert await answer(use) == await other(use)
    if expected == "challenged":
        await check_suffices(opened, there, guard, version)


async def check_suffices(
    opened: Callable[[Server, Caller], Any], server: Server, guard: Guard, version: str
) -> None:
    """Check that the scopes of the challenge suffice, and that none of them can be left out."""
    for left_out in [None, *guard.suffices]:
        caller = Caller(scopes=guard.suffices - {left_out})
        async with opened(server, caller) as answer:
            for use in _of(version, USES):
                assert ("result" in await answer(use)) is (left_out is None)


def _of(version: str, uses: list[Use]) -> list[Use]:
    return [use for use in uses if use[0] in BY_VERSION[version].requests]


@pytest.mark.parametrize("transport", ["memory", "stdio"])
@pytest.mark.parametrize("version", [*SESSIONS, STATELESS])
@settings(max_examples=10, deadline=None)
@given(guard=OF_COMPONENTS, caller=CALLERS)
async def test_guarded_component_is_used_hidden_or_challenged_in_process(
    transport: str, version: str, guard: Guard, caller: Caller
) -> None:
    def opened(server: Server, caller: Caller) -> Any:
        return in_process(transport, server, version, caller)

    await check(opened, guard, caller, version)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
async def test_guarded_component_is_used_hidden_or_challenged_over_http_sse(data: Any) -> None:
    guard, caller = data.draw(OF_COMPONENTS), data.draw(CALLERS)
    await check(over_http_sse, guard, caller, "2024-11-05")


@pytest.fixture(autouse=True)
def _http_sse(configure: Configure) -> None:
    configure(HTTP_SSE=True)
