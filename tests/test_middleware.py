"""Rate limits per principal."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.cache import caches
from django.core.cache.backends.locmem import LocMemCache

from django_mcp import ConfigurationError, Frame, Server, ToolError
from django_mcp.core.auth.base import Principal
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.frame import HttpTransport, RequestInfo, StdioTransport
from django_mcp.middleware import RateLimit, caller_of
from django_mcp.routing import endpoint
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.around.requests import post
from tests.http_errors import error_of
from tests.memory_stores import configure
from tests.spec import spec

__all__ = ["configure"]

TOO_MANY_REQUESTS = 429


class Member(AnonymousUser):
    """An authenticator that names the user."""

    def __init__(self, pk: int) -> None:
        self.pk = pk  # type: ignore[assignment]


async def attempt(limit: RateLimit, user: int, claims: Any, tenant: str = "") -> bool:
    """Whether the limit lets a call of this user with these claims pass."""
    principal = Principal(scheme="test", user=User(pk=user), claims=claims, tenant=tenant)
    request = RequestInfo(1, "tools/call", {"name": "buy"})
    frame = Frame(user=principal.user, auth=principal, request=request, private=private_of_shop())
    try:
        await limit(frame, passed)
    except ToolError:
        return False
    return True


async def passed(frame: Frame) -> Any:
    return {}, frame


def private_of_shop() -> Any:
    return {"server": shop(), "revision": NEWEST}


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    caches["default"].clear()


@pytest.fixture(autouse=True)
def _frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.middleware.time.time", lambda: 1_000_000.0)


def shop(*limits: RateLimit) -> Server:
    server = Server("shop", middleware=limits)

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
        refused = await client.call("buy")
        error = await error_of(client.complete("order", "size"))
        listed = await client.list_tools()

    # The model reads how long to wait, and the program has it as data.
    refused.assert_error("Too many calls: at most 2 in 60 s. Try again in 20 s.")
    assert error.code == TOO_MANY_REQUESTS
    assert error.data == {"retryAfter": 20.0}
    assert len(listed) == 1


async def test_refused_call_has_the_header_that_says_when_to_retry() -> None:
    application = endpoint(shop(RateLimit(1, per=60)))
    replies = [await post(application, "tools/call", {"name": "buy"}) for _ in range(2)]

    assert [reply.status for reply in replies] == [200, 200]
    assert "retry-after" not in replies[0].headers
    assert replies[1].headers["retry-after"] == "20"


async def test_limit_holds_to_the_call_for_calls_at_the_same_time() -> None:
    async with Client(shop(RateLimit(10, per=60)), sync_execution="threads") as client:
        results = await asyncio.gather(*(client.call("buy") for _ in range(40)))

    assert sum(not result.is_error for result in results) == 10


async def test_error_of_middleware_around_a_tool_is_read_by_the_model(
    client_for: ClientFor,
) -> None:
    async def closed(frame: Frame, call_next: Any) -> Any:
        if frame.message.method == "tools/call":
            raise ToolError("The shop is closed.")
        return await call_next(frame)

    server = Server("shop", middleware=[closed])
    server.tool(name="buy")(lambda: "bought")

    async with client_for(server) as client:
        (await client.call("buy")).assert_error("The shop is closed.")


async def test_rate_limit_resets_in_the_next_period(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_for(shop(RateLimit(1, per=60))) as client:
        await client.call_tool("buy")
        (await client.call("buy")).assert_error()
        monkeypatch.setattr("django_mcp.middleware.time.time", lambda: 1_000_020.0)
        (await client.call("buy")).assert_ok()


async def test_quota_of_a_day_ends_at_midnight_of_the_site(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    # The clocks are set back in this night, so that the day has 25 hours.
    noon = datetime(2026, 10, 25, 12, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    monkeypatch.setattr("django_mcp.middleware.time.time", lambda: noon)

    async with Client(shop(RateLimit(1, per="day"))) as client:
        (await client.call("buy")).assert_ok()
        refused = await client.call("buy")
        monkeypatch.setattr("django_mcp.middleware.time.time", lambda: noon + 12 * 3600 - 1)
        (await client.call("buy")).assert_error("Try again in 1 s.")
        monkeypatch.setattr("django_mcp.middleware.time.time", lambda: noon + 12 * 3600)
        (await client.call("buy")).assert_ok()

    refused.assert_error("at most 1 in a day. Try again in 43200 s.")


TOKEN = {"token_id": 1}
OTHER_TOKEN = {"token_id": 2}
PROGRAM = {"client_id": "editor"}
OTHER_PROGRAM = {"azp": "browser"}


@pytest.mark.parametrize(
    ("by", "same", "other"),
    [
        ("caller", (1, TOKEN), (2, TOKEN)),
        ("user", (1, PROGRAM), (2, PROGRAM)),
        ("token", (1, TOKEN), (1, OTHER_TOKEN)),
        ("program", (2, PROGRAM), (1, OTHER_PROGRAM)),
        ("program", (1, TOKEN), (1, OTHER_TOKEN)),
        (("user", "program"), (1, PROGRAM), (1, OTHER_PROGRAM)),
    ],
)
async def test_rate_limit_counts_together_what_by_names(
    by: Any, same: tuple[int, Any], other: tuple[int, Any]
) -> None:
    limit = RateLimit(1, per=60, by=by)
    claims = PROGRAM if "client_id" in same[1] else TOKEN
    first = await attempt(limit, 1, claims)
    second = await attempt(limit, *same)
    third = await attempt(limit, *other)

    assert (first, second, third) == (True, False, True)


@pytest.mark.parametrize("claims", [TOKEN, PROGRAM])
@pytest.mark.parametrize("by", ["caller", "user", "token", "program", "tool", None])
async def test_rate_limit_counts_each_tenant_for_itself(by: Any, claims: Any) -> None:
    identity = {"key": lambda frame: "all"} if by is None else {"by": by}
    limit = RateLimit(1, per=60, **identity)
    attempts = [await attempt(limit, 1, claims, tenant) for tenant in ("north", "south", "north")]

    assert attempts == [True, True, False]


async def test_limit_by_tool_counts_each_tool_and_leaves_out_others(client_for: ClientFor) -> None:
    server = shop(RateLimit(1, per=60, by="tool", tools=["buy", "sell"]))
    server.tool(name="sell")(lambda: "sold")
    server.tool(name="look")(lambda: "seen")

    async with client_for(server) as client:
        for name in ("buy", "sell"):
            (await client.call(name)).assert_ok()
            (await client.call(name)).assert_error("Too many calls")
        for _ in range(2):
            (await client.call("look")).assert_ok()


async def test_two_limits_of_a_server_count_for_themselves() -> None:
    server = Server("shop", middleware=[RateLimit(1, per=60), RateLimit(2, per="day")])
    server.tool(name="buy")(lambda: "bought")

    async with Client(server) as client:
        (await client.call("buy")).assert_ok()
        (await client.call("buy")).assert_error("at most 1 in 60 s")


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


async def account(frame: Frame) -> str:
    return "1"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"calls": 0}, "calls of RateLimit is 0: write 1 or more"),
        ({"calls": "5/min"}, r"calls of RateLimit is '5/min': .* RateLimit\(5, per=60\)"),
        ({"calls": None}, "calls of RateLimit is None: write 1 or more"),
        ({"calls": 1, "key": lambda: "all"}, "key of RateLimit is called with the Frame"),
        ({"calls": 1, "key": "user"}, "key of RateLimit is 'user', which is no function"),
        ({"calls": 1, "key": account}, "key of RateLimit is async: write def"),
        ({"calls": 1, "per": 0}, "per of RateLimit is 0"),
        ({"calls": 1, "per": "week"}, "per of RateLimit is 'week'"),
        ({"calls": 1, "by": "ip"}, "by of RateLimit is 'ip': write some of caller, user"),
        ({"calls": 1, "by": []}, "write some of caller, user"),
        ({"calls": 1, "tools": "sell"}, r"tools of RateLimit is the string 'sell': .*\['sell'\]"),
        ({"calls": 1, "methods": "tools/call"}, "methods of RateLimit is the string"),
        ({"calls": 1, "tools": [len]}, "tools of RateLimit has <built-in"),
    ],
)
def test_invalid_rate_limit_is_rejected(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        RateLimit(**options)


async def test_limits_of_different_tools_count_for_themselves() -> None:
    limits = [RateLimit(1, per=60, tools=[name]) for name in ("buy", "sell")]
    server = shop(*limits)
    server.tool(name="sell")(lambda: "sold")
    async with Client(server) as client:
        for name in ("buy", "sell"):
            (await client.call(name)).assert_ok()
            (await client.call(name)).assert_error("Too many calls")


async def test_hidden_tool_of_a_limit_is_unknown_and_uses_up_nothing() -> None:
    server = shop(RateLimit(1, per=60, by="tool", tools=["secret", "buy"]))

    @server.tool(permission="staff_member")
    def secret() -> str:
        return "secret"

    async with Client(server, user=User(pk=1)) as client:
        for name in ("secret", "secret", "secret", "unknown"):
            error = await error_of(client.call_tool(name))
            assert str(error.message) == f"Unknown tool: {name}"
    async with Client(server, user=User(pk=2, is_staff=True)) as client:
        (await client.call("secret")).assert_ok()
        (await client.call("secret")).assert_error("Too many calls")


async def test_challenged_tool_is_challenged_and_uses_up_nothing() -> None:
    server = shop(RateLimit(1, per=60, by="tool"))

    @server.tool(scopes=["shop"])
    def order() -> str:
        return "ordered"

    async with Client(server, user=User(pk=1), scopes=["other"]) as client:
        for _ in range(2):
            error = await error_of(client.call_tool("order"))
            assert "scope" in str(error.message)
    async with Client(server, user=User(pk=2), scopes=["shop"]) as client:
        (await client.call("order")).assert_ok()


@pytest.mark.parametrize("tools", [None, ["buy"]])
@pytest.mark.parametrize("name", [["buy"], {"buy": 1}, 5, None])
async def test_name_of_another_type_is_invalid_params(name: Any, tools: Any) -> None:
    async with Client(shop(RateLimit(1, tools=tools))) as client:
        error = await error_of(client.request("tools/call", {"name": name}))
    assert error.code == -32602


def test_caller_of_two_endpoints_is_one_caller() -> None:
    transport = HttpTransport(remote_ip="192.0.2.1")
    for subject in ("", "7"):
        keys = {
            caller_of(
                Frame(
                    auth=Principal(scheme="test", subject=subject, endpoint=endpoint),
                    transport=transport,
                )
            )
            for endpoint in ("", "org=1", "org=2")
        }
        assert len(keys) == 1


class BrokenCache(LocMemCache):
    """A cache of which the server is away, or hangs."""

    hangs = False

    def incr(self, *args: Any, **kwargs: Any) -> int:
        if self.hangs:
            time.sleep(1)
        raise ConnectionError("away")


@pytest.mark.parametrize("hangs", [False, True])
async def test_quota_without_its_cache_is_answered_with_503_in_time(
    settings: Any, caplog: pytest.LogCaptureFixture, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokenCache, "hangs", hangs)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "STORE_TIMEOUT": 0.2}
    settings.CACHES = {
        **settings.CACHES,
        "away": {"BACKEND": f"{__name__}.BrokenCache", "LOCATION": "away"},
    }
    application = endpoint(shop(RateLimit(5, cache="away")))
    begun = time.monotonic()
    replies = [await post(application, "tools/call", {"name": "buy"}) for _ in range(3)]

    assert time.monotonic() - begun < 3
    assert [reply.status for reply in replies] == [503, 503, 503]
    assert all(reply.headers["retry-after"] for reply in replies)
    lines = [record for record in caplog.records if record.name == "django_mcp"]
    assert [record.getMessage() for record in lines] == ["A store does not answer"]
