"""Django's middleware around MCP requests, where DJANGO_MIDDLEWARE asks for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone, translation
from pytest_django import Settings

from django_mcp import Frame, Server
from django_mcp.core.frame.session import address
from django_mcp.routing import endpoint
from django_mcp.testing import Client
from django_mcp.testing.asgi import Exchange
from django_mcp.transports.http import open_streams
from tests.around.requests import call, post, scope_of
from tests.memory_stores import Configure
from tests.waiting import SECONDS

SAMPLES = "tests.around.middleware_samples"
LOGIN_REQUIRED = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Server:
    """Tools which say what they see of the middleware."""
    server = Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @server.tool
    def in_thread(frame: Frame) -> str:
        request = frame.django_request
        is_same = getattr(request, "thread", None) == threading.get_ident()
        on_connection = getattr(connection, "tenant", None)
        return f"{getattr(request, 'tenant', None)} {on_connection} {is_same}"

    @server.tool
    async def in_loop(frame: Frame) -> str:
        return f"{getattr(frame.django_request, 'tenant', None)} {translation.get_language()}"

    @server.tool
    def zone() -> str:
        return timezone.get_current_timezone_name()

    @server.tool
    async def who(frame: Frame) -> str:
        assert frame.auth is not None
        return f"{frame.user} {frame.django_request.user} {frame.auth.key}"

    @server.tool
    async def streams(frame: Frame) -> str:
        await frame.client.aprogress(1, 2)
        return "done"

    @server.resource("shop://news")
    def news() -> str:
        return "none"

    return server


def use(settings: Settings, *names: str) -> None:
    paths = [name if "." in name else f"{SAMPLES}.{name}" for name in names]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": paths}


async def test_sync_middleware_shares_thread_and_connection_with_the_handler(
    server: Server, settings: Settings
) -> None:
    use(settings, "sync_tenant")
    assert await call(server, "in_thread", x_tenant="acme") == "acme acme True"
    assert await call(server, "in_loop", x_tenant="acme") == "acme en-gb"


async def test_parallel_requests_have_threads_of_their_own(
    server: Server, settings: Settings
) -> None:
    use(settings, "sync_tenant")
    calls = [call(server, "in_thread", x_tenant=f"t{number}") for number in range(8)]
    assert await asyncio.gather(*calls) == [f"t{n} t{n} True" for n in range(8)]


@pytest.mark.parametrize(
    "names", [("async_tenant",), ("TimezoneMiddleware", "async_tenant", "OldStyle")]
)
async def test_async_middleware_is_seen_by_handlers(
    server: Server, settings: Settings, names: tuple[str, ...]
) -> None:
    use(settings, *names)
    assert await call(server, "in_loop", x_tenant="acme") == "acme de"
    assert (await call(server, "in_thread", x_tenant="acme")).startswith("acme")


async def test_time_zone_of_middleware_is_active_in_handlers(
    server: Server, settings: Settings
) -> None:
    use(settings, "TimezoneMiddleware", "sync_tenant")
    assert await call(server, "zone", x_timezone="Asia/Tokyo") == "Asia/Tokyo"


async def test_methods_of_old_middleware_are_called_and_headers_are_sent(
    server: Server, settings: Settings
) -> None:
    use(settings, "OldStyle")
    reply = await post(server, "tools/call", {"name": "in_loop"})
    assert reply.headers["x-called"] == "request view response"
    assert reply.headers["set-cookie"].startswith("seen=1")
    assert reply.headers["content-type"] == "application/json"
    assert int(reply.headers["content-length"]) == len(reply.body)


async def test_content_that_middleware_changes_has_its_own_length(
    server: Server, settings: Settings
) -> None:
    use(settings, "longer", "django.middleware.common.CommonMiddleware")
    reply = await post(server, "tools/call", {"name": "in_loop"})
    assert reply.body.endswith(b" \n")
    assert int(reply.headers["content-length"]) == len(reply.body)


async def test_stream_is_sent_while_the_middleware_runs(server: Server, settings: Settings) -> None:
    use(settings, "sync_tenant", "OldStyle")
    scope, body = scope_of("tools/call", {"name": "streams"})
    body = body.replace(b'"_meta": {', b'"_meta": {"progressToken": 1, ')
    async with Exchange(endpoint(server), scope, body) as exchange:
        events = [event.data async for event in exchange.events()]
    assert len(events) == 2
    assert "done" in events[-1]


@pytest.mark.parametrize(
    ("name", "status", "headers"),
    [
        ("denies", 403, {}),
        ("redirects", 302, {"location": "https://example.org/mcp"}),
        ("answers", 403, {}),
        ("too_many", 429, {"retry-after": "9"}),
    ],
)
async def test_answer_of_middleware_becomes_an_error_for_the_client(
    server: Server, settings: Settings, name: str, status: int, headers: dict[str, str]
) -> None:
    use(settings, name)
    reply = await post(server, "tools/call", {"name": "in_loop"})
    assert reply.status == status
    assert reply.json()["error"]["code"] == -32600
    assert headers.items() <= reply.headers.items()
    assert b"secret" not in reply.body
    assert b"<h1>" not in reply.body


async def test_error_of_middleware_is_not_shown(
    server: Server, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    use(settings, "fails")
    settings.DEBUG = True
    reply = await post(server, "tools/call", {"name": "in_loop"})
    assert reply.status == 500
    assert b"a secret" not in reply.body
    assert "a secret of the middleware" in caplog.text


async def test_login_required_is_a_challenge_and_not_a_page(
    server: Server, settings: Settings
) -> None:
    use(settings, *LOGIN_REQUIRED)
    reply = await post(server, "tools/call", {"name": "who"})
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert reply.json()["error"]["message"].startswith("Log in")


async def test_login_required_lets_the_user_of_a_token_in(
    settings: Settings, server: Server
) -> None:
    use(settings, *LOGIN_REQUIRED)
    user = await User.objects.acreate(username="ann")
    async with Client(server, transport="http", user=user) as client:
        result = await client.call_tool("who")
    assert result.text.startswith("ann ann ")


async def test_user_of_middleware_is_the_caller(server: Server, settings: Settings) -> None:
    use(settings, "impersonates")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MIDDLEWARE_CHANGES_USER": True}
    user = await User.objects.acreate(username="ann")
    assert await call(server, "who", x_act_as="ann") == f"ann ann django_middleware:{user.pk}"
    assert await call(server, "who") == "AnonymousUser AnonymousUser public:"


async def test_session_of_one_user_of_middleware_is_not_found_by_another(
    server: Server, settings: Settings
) -> None:
    use(settings, "impersonates")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MIDDLEWARE_CHANGES_USER": True}
    await User.objects.acreate(username="ann")
    await User.objects.acreate(username="bob")
    ann = Client(server, transport="http", version="2025-11-25", headers={"X-Act-As": "ann"})
    async with ann:
        assert (await ann.call_tool("who")).text.startswith("ann ")
        headers = {
            "mcp-session-id": ann.session_id or "",
            "x-act-as": "bob",
            "mcp-protocol-version": "2025-11-25",
        }
        scope, _ = scope_of("tools/list", {}, headers)
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
        async with Exchange(endpoint(server), scope, body) as exchange:
            assert await exchange.status() == 404


@pytest.mark.parametrize("name", ["sync_tenant", "async_tenant"])
@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
async def test_calls_in_a_session_run_within_the_middleware(
    server: Server, settings: Settings, name: str, version: str
) -> None:
    use(settings, name)
    headers = {"X-Tenant": "acme"}
    client = Client(
        server, transport="http", version=version, headers=headers, sync_execution="threads"
    )
    async with client:
        for tool in ("in_loop", "in_thread", "streams"):
            result = await client.call_tool(tool)
            assert result.text.startswith(("acme", "done"))


async def test_call_in_a_session_goes_on_within_the_middleware_after_a_disconnect(
    server: Server, settings: Settings
) -> None:
    started, proceed, seen = threading.Event(), threading.Event(), []

    @server.tool
    def slow(frame: Frame) -> str:
        started.set()
        proceed.wait(SECONDS)
        seen.append(getattr(connection, "tenant", None))
        return "done"

    use(settings, "sync_tenant")
    headers = {"X-Tenant": "acme"}
    async with Client(server, transport="http", version="2025-11-25", headers=headers) as client:
        sent = {
            **headers,
            "mcp-session-id": client.session_id or "",
            "mcp-protocol-version": "2025-11-25",
        }
        scope, _ = scope_of("tools/call", {"name": "slow"}, sent)
        body = (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call",'
            b' "params": {"name": "slow", "arguments": {}}}'
        )
        exchange = Exchange(endpoint(server), scope, body)
        task = asyncio.create_task(exchange._run())
        await asyncio.to_thread(started.wait, 10)
        exchange.disconnect()
        await asyncio.sleep(0.2)  # Longer than two ticks of the call's monitor.
        proceed.set()
        await asyncio.wait_for(task, SECONDS)
    assert seen == ["acme"]


async def test_listen_stream_begins_after_the_middleware(
    server: Server, settings: Settings
) -> None:
    use(settings, "sync_tenant")
    params = {"notifications": {"toolsListChanged": True}}
    scope, body = scope_of("subscriptions/listen", params)
    threads = threading.active_count()
    async with Exchange(endpoint(server), scope, body) as exchange:
        event = await exchange.event()
        assert event is not None
        assert "acknowledged" in event.data
        assert threading.active_count() <= threads + 1


async def test_open_stream_ends_when_the_middleware_denies_its_caller(
    server: Server, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(settings, "sync_tenant")
    params = {"notifications": {"toolsListChanged": True}}
    scope, body = scope_of("subscriptions/listen", params)
    async with Exchange(endpoint(server), scope, body) as exchange:
        await exchange.event()
        use(settings, "denies")
        for stream in tuple(open_streams.here().streams):
            await stream.check()
        assert await exchange.event() is None or exchange._complete


async def test_all_middleware_of_the_site_runs(server: Server, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": "all"}
    reply = await post(server, "tools/call", {"name": "who"})
    assert reply.status == 200
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["x-content-type-options"] == "nosniff"


async def test_no_middleware_runs_by_default(server: Server) -> None:
    reply = await post(server, "tools/call", {"name": "who"})
    assert "x-frame-options" not in reply.headers


async def test_session_address_is_unchanged_by_middleware(
    server: Server, settings: Settings
) -> None:
    use(settings, "OldStyle")
    async with Client(server, transport="http", version="2025-11-25") as client:
        assert client.session_id
        assert address(client.session_id)


def test_invalid_names_are_rejected(configure: Configure, settings: Settings) -> None:
    from django.core.exceptions import ImproperlyConfigured

    from django_mcp import conf

    invalid: list[dict[str, Any]] = [
        {"DJANGO_MIDDLEWARE": "some"},
        {"DJANGO_MIDDLEWARE": [3]},
        {"DJANGO_MIDDLEWARE": "django.middleware.locale.LocaleMiddleware"},
    ]
    for settings.DJANGO_MCP in invalid:
        with pytest.raises(ImproperlyConfigured, match="DJANGO_MIDDLEWARE"):
            conf.get()


async def test_call_of_a_middleware_of_ones_own_is_synchronous(
    server: Server, settings: Settings
) -> None:
    """It inherits that it can be asynchronous, which its ``__call__`` is not."""
    use(settings, "sync_tenant", "OwnCall", "async_tenant")
    reply = await post(server, "tools/call", {"name": "in_thread"}, {"x-tenant": "acme"})
    assert reply.status == 200
    assert reply.headers["x-status"] == "200"
