"""Sites with tenants: the schema is chosen before the authenticators, and a key has the tenant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.cache import cache
from django.db import connection
from django.test import RequestFactory
from pytest_django import Settings

from django_mcp import Frame, Server
from django_mcp.core.auth.base import OF_ANY_TENANT, Principal, tenant_of_key
from django_mcp.middleware import RateLimit
from django_mcp.routing import endpoint
from django_mcp.runtime.around import tenants
from django_mcp.testing import Client, ErrorResponse
from django_mcp.testing.asgi import Reply, perform
from tests.around import tenant_samples as samples
from tests.around.requests import post, scope_of
from tests.rows import rows

SAMPLES = samples.__name__
TOKENS = f"{SAMPLES}.SchemaTokens"
SESSION = "2025-11-25"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _site(settings: Settings) -> Iterator[None]:
    samples.SchemaTokens.loads.clear()
    settings.ALLOWED_HOSTS = [".example.org"]
    use(settings, FIRST_MIDDLEWARE=[f"{SAMPLES}.by_host"], TENANT=f"{SAMPLES}.of_middleware")
    yield
    assert not hasattr(connection, "schema_name")


def use(settings: Settings, **values: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, **values}


def make_server(*authenticators: Any, **options: Any) -> Server:
    server = Server("shop", authenticators=authenticators or [TOKENS], **options)

    @server.tool
    def who(frame: Frame) -> str:
        schema = getattr(connection, "schema_name", None)
        return f"{frame.user} {frame.principal.tenant} {schema}"

    @server.tool
    async def who_async(frame: Frame) -> str:
        return f"{frame.user} {frame.principal.tenant} {frame.django_request.tenant}"

    for number in range(3):
        server.register_tool(f"t{number}", who_async, description="Another tool")
    return server


def at(tenant: str, user: str | None = "user-1", **more: str) -> dict[str, str]:
    headers = {"host": f"{tenant}.example.org", **more}
    return headers if user is None else {**headers, "authorization": f"Bearer {user}"}


def client(server: Server, tenant: str, user: str | None = "user-1", **more: Any) -> Client:
    return Client(server, transport="http", headers=at(tenant, user), **more)


async def in_session(server: Server, session_id: str | None, headers: dict[str, str]) -> Reply:
    sent = {**headers, "mcp-session-id": session_id or "", "mcp-protocol-version": SESSION}
    scope, _ = scope_of("tools/list", {}, sent)
    return await perform(
        endpoint(server), scope, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    )


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_query_string_that_is_not_utf_8_is_refused(method: str, settings: Settings) -> None:
    """For a program, and for a browser that asks for the page of the server."""
    use(settings, FIRST_MIDDLEWARE=[])
    server = make_server("django_mcp.auth.django_session.DjangoSessionAuthentication")
    headers = {"accept": "text/html"} if method == "GET" else {}
    scope, body = scope_of("tools/list", {}, at("one", None, **headers))

    changes = {"method": method, "query_string": b"a=\xff"}
    reply = await perform(endpoint(server), {**scope, **changes}, body)

    assert reply.status == 400
    assert "The query string is not valid UTF-8" in reply.body.decode()


async def test_authenticator_finds_the_users_of_the_schema() -> None:
    """With equal tokens and equal primary keys, and with the cache of both."""
    server = make_server(samples.SchemaTokens())
    for _ in range(2):
        for tenant, user in (("one", "ann"), ("two", "zoe")):
            async with client(server, tenant) as connected:
                result = await connected.call_tool("who")
                assert result.text == f"{user} {tenant} {tenant}"
                result = await connected.call_tool("who_async")
                assert result.text == f"{user} {tenant} {tenant}"
    assert samples.SchemaTokens.loads == ["one", "two"]


async def test_session_of_one_tenant_does_not_exist_at_another() -> None:
    server = make_server()
    async with client(server, "one", version=SESSION) as connected:
        session_id = connected.session_id
        assert (await in_session(server, session_id, at("one"))).status == 200
        assert (await in_session(server, session_id, at("two"))).status == 404
        assert (await in_session(server, session_id, at("one", "user-2"))).status == 404


async def test_anonymous_session_is_not_continued_at_another_tenant() -> None:
    server = make_server(TOKENS, "django_mcp.auth.anonymous.AnonymousAuthentication")
    async with client(server, "one", None, version=SESSION) as connected:
        session_id = connected.session_id
        assert (await in_session(server, session_id, at("two"))).status == 404
        assert (await in_session(server, session_id, at("one"))).status == 200


async def test_host_without_a_tenant_is_answered_by_the_middleware() -> None:
    reply = await post(make_server(), "tools/list", {}, at("three"))
    assert reply.status == 404
    assert reply.json()["error"]["code"] == -32600


async def test_challenge_passes_through_the_first_middleware() -> None:
    reply = await post(make_server(), "tools/list", {}, at("one", None))
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")


async def test_failure_of_an_authenticator_is_one_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = await post(make_server(), "tools/list", {}, at("one", "user-7"))
    assert reply.status == 500
    assert "IndexError" in caplog.text


async def test_cursor_of_one_tenant_is_not_valid_at_another() -> None:
    server = make_server(page_size=2)
    reply = await post(server, "tools/list", {}, at("one"))
    cursor = reply.json()["result"]["nextCursor"]
    same = await post(server, "tools/list", {"cursor": cursor}, at("one"))
    assert len(same.json()["result"]["tools"]) == 2
    other = await post(server, "tools/list", {"cursor": cursor}, at("two"))
    assert other.json()["error"]["code"] == -32602


async def test_quota_is_that_of_one_tenant() -> None:
    cache.clear()
    server = make_server(middleware=[RateLimit(1)])
    for tenant in samples.USERS:
        async with client(server, tenant) as connected:
            assert not (await connected.call_tool("who")).is_error
            assert (await connected.call_tool("who")).is_error


async def test_tasks_are_those_of_one_tenant_and_know_it(settings: Settings) -> None:
    server = make_server()

    @server.tool(task_support="required")
    async def slow(frame: Frame) -> str:
        return f"{frame.principal.tenant} {frame.principal.key}"

    use(
        settings,
        FIRST_MIDDLEWARE=[],
        TENANT=f"{SAMPLES}.of_header",
    )
    user = await User.objects.acreate(username="ann")
    server.authenticators = [f"{SAMPLES}.StoredUsers"]
    number = {"authorization": f"Bearer {user.pk}", "host": "one.example.org"}
    one = Client(server, transport="http", headers={**number, "x-tenant": "one"}, version=SESSION)
    two = Client(server, transport="http", headers={**number, "x-tenant": "two"}, version=SESSION)
    async with one, two:
        created = await one.request("tools/call", {"name": "slow", "arguments": {}, "task": {}})
        key = {"taskId": created["task"]["taskId"]}
        result = await one.request("tasks/result", key)
        assert result["content"][0]["text"] == f"one one|stored:{user.pk}"
        assert (await two.request("tasks/list", {}))["tasks"] == []
        with pytest.raises(ErrorResponse):
            await two.request("tasks/get", key)


async def test_tenant_by_path_needs_no_middleware(settings: Settings) -> None:
    use(settings, FIRST_MIDDLEWARE=[], TENANT=f"{SAMPLES}.of_path")
    server = Server(
        "paths",
        path="t/<slug:org>/mcp",
        authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"],
    )

    @server.tool
    def who(frame: Frame) -> str:
        return f"{frame.principal.tenant} {frame.principal.key}"

    scope, body = scope_of("tools/call", {"name": "who"}, {"host": "x.example.org"}, "/t/one/mcp")
    reply = await perform(endpoint(server), scope, body)
    assert reply.json()["result"]["content"][0]["text"].startswith("one one|public:")


async def test_hook_opens_the_scope_of_the_tenant() -> None:
    server = make_server()

    @server.hook
    def around_call(frame: Frame) -> Any:
        return samples.scoped(frame)

    @server.tool
    def scope() -> str:
        return str(samples.scope.get())

    async with client(server, "two") as connected:
        assert (await connected.call_tool("scope")).text == "two"


async def test_mistake_in_the_function_is_logged(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    use(settings, TENANT=f"{SAMPLES}.no_string")
    reply = await post(make_server(), "tools/list", {}, at("one"))
    assert reply.status == 500
    assert "a tenant is a string or None" in caplog.text


class TestUserOfMiddleware:
    """A middleware around the endpoint must not change who calls, unless that is declared."""

    async def test_other_user_is_an_error(
        self, settings: Settings, caplog: pytest.LogCaptureFixture
    ) -> None:
        use(settings, DJANGO_MIDDLEWARE=[f"{SAMPLES}.has_anonymous_user"])
        reply = await post(make_server(), "tools/call", {"name": "who"}, at("one"))
        assert reply.status == 500
        assert "has changed the user" in reply.json()["error"]["message"]
        assert "MIDDLEWARE_CHANGES_USER" in caplog.text

    async def test_declared_user_is_the_caller(self, settings: Settings) -> None:
        use(
            settings,
            DJANGO_MIDDLEWARE=[f"{SAMPLES}.has_anonymous_user"],
            MIDDLEWARE_CHANGES_USER=True,
        )
        reply = await post(make_server(), "tools/call", {"name": "who"}, at("one"))
        assert reply.json()["result"]["content"][0]["text"] == "anonymous one one"

    async def test_anonymous_user_of_the_site_is_nobody_else(self, settings: Settings) -> None:
        use(settings, DJANGO_MIDDLEWARE=[f"{SAMPLES}.has_anonymous_user"])
        server = make_server("django_mcp.auth.anonymous.AnonymousAuthentication")
        reply = await post(server, "tools/call", {"name": "who"}, at("one", None))
        assert reply.json()["result"]["content"][0]["text"] == "anonymous one one"

    async def test_user_of_the_first_middleware_is_not_the_caller(self, settings: Settings) -> None:
        names = [f"{SAMPLES}.has_anonymous_user", f"{SAMPLES}.by_host"]
        use(settings, FIRST_MIDDLEWARE=names)
        reply = await post(make_server(), "tools/call", {"name": "who"}, at("one"))
        assert reply.json()["result"]["content"][0]["text"] == "ann one one"


KEYS = [
    ({}, "token:5"),
    ({"tenant": "one"}, "one|token:5"),
    ({"tenant": "a b|c:d"}, "a%20b%7Cc%3Ad|token:5"),
    ({"endpoint": "org=x"}, "token:5 org=x"),
    ({"tenant": "one", "endpoint": "org=x"}, "one|token:5 org=x"),
    ({"subject": "auth0|5"}, "token:auth0|5"),
]


@rows(("given", "wanted"), KEYS)
def test_key_of_a_principal_has_its_tenant(given: dict[str, Any], wanted: str) -> None:
    principal = Principal(**{"scheme": "token", "subject": "5", **given})
    tenant = given.get("tenant", "")
    assert principal.key == wanted
    assert tenant_of_key(principal.key) == tenant
    assert bool(re.search(OF_ANY_TENANT, principal.key)) == bool(tenant)


def test_page_of_a_site_has_its_tenant(settings: Settings, rf: RequestFactory) -> None:
    use(settings, FIRST_MIDDLEWARE=[], TENANT=f"{SAMPLES}.of_path")
    request = rf.get("/t/one/approvals/")
    request.user = AnonymousUser()
    assert tenants.of_request(request) == "one"
    assert tenants.is_of(request, "one|token:5")
    assert not tenants.is_of(request, "two|token:5")
    assert not tenants.is_of(request, "token:5")
    assert tenants.of_request(rf.get("/")) == ""
