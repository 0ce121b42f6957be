"""Rate limits per principal."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.cache import caches

from django_mcp import Frame, Server
from django_mcp.auth.base import Principal
from django_mcp.frame import HttpTransport, StdioTransport
from django_mcp.middleware import RateLimit, caller_of
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import configure
from tests.spec import spec

__all__ = ["configure"]

TOO_MANY_REQUESTS = 429


class Member(AnonymousUser):
    """An authenticator that names the user."""

    def __init__(self, pk: int) -> None:
        self.pk = pk  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    caches["default"].clear()


@pytest.fixture(autouse=True)
def _frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.middleware.time.time", lambda: 1_000_000.0)


def shop(limit: RateLimit) -> Server:
    server = Server("shop", middleware=[limit])

    @server.tool
    def buy() -> str:
        return "bought"

    @server.prompt(complete={"size": lambda value: ["s", "m"]})
    def order(size: str) -> str:
        return size

    return server


@spec("TOOL-32", "COMP-07", "COMP-09", "2026/CMP-04", "2026/TOOL-11")
async def test_calls_and_completions_share_one_rate_limit(client_for: ClientFor) -> None:
    async with client_for(shop(RateLimit(2, per=60))) as client:
        await client.call_tool("buy")
        await client.complete("order", "size")
        errors = [
            await error_of(client.call_tool("buy")),
            await error_of(client.complete("order", "size")),
        ]
        listed = await client.list_tools()

    assert [error.code for error in errors] == [TOO_MANY_REQUESTS, TOO_MANY_REQUESTS]
    assert errors[0].data == {"retryAfter": 20.0}
    assert len(listed) == 1


async def test_rate_limit_resets_in_the_next_period(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_for(shop(RateLimit(1, per=60))) as client:
        await client.call_tool("buy")
        await error_of(client.call_tool("buy"))
        monkeypatch.setattr("django_mcp.middleware.time.time", lambda: 1_000_020.0)
        assert not (await client.call_tool("buy")).get("isError")


async def test_rate_limit_is_counted_per_user(client_for: ClientFor) -> None:
    server = shop(RateLimit(1, per=60))

    for user in (Member(1), Member(2)):
        async with client_for(server, user=user) as client:
            await client.call_tool("buy")
            await error_of(client.call_tool("buy"))
    async with client_for(server, user=Member(1)) as client:
        await error_of(client.call_tool("buy"))


async def test_rate_limit_uses_custom_key_and_methods(client_for: ClientFor) -> None:
    def shop_wide(frame: Frame) -> str:
        return frame.server.name

    limit = RateLimit(1, per=60, key=shop_wide, methods=["prompts/get"])
    server = shop(limit)

    async with client_for(server, user=Member(1)) as client:
        await client.call_tool("buy")
        await client.get_prompt("order", {"size": "s"})
    async with client_for(server, user=Member(2)) as client:
        error = await error_of(client.get_prompt("order", {"size": "s"}))

    assert error.code == TOO_MANY_REQUESTS


def test_anonymous_callers_are_distinguished_by_ip_address() -> None:
    anonymous = Principal(scheme="public")
    here = Frame(auth=anonymous, transport=HttpTransport(remote_ip="192.0.2.1"))
    there = Frame(auth=anonymous, transport=HttpTransport(remote_ip="192.0.2.2"))
    known = Frame(auth=Principal(scheme="test", subject="1"), transport=here.transport)
    beside = Frame(auth=anonymous, transport=StdioTransport())

    assert len({caller_of(frame) for frame in (here, there, known, beside)}) == 4


@pytest.mark.parametrize("options", [{"calls": 0}, {"calls": 1, "per": 0}])
def test_rate_limit_of_zero_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        RateLimit(**options)
