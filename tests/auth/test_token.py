"""Personal access tokens: who is let in, and that every rejection is the same."""

from __future__ import annotations

import asyncio
import pprint
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from django_mcp import Frame, Server, stores
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.resource import SCOPE_KEY, Resource
from django_mcp.auth.token import (
    PREFIX,
    TokenAuthentication,
    digest_of,
    is_well_formed,
    new_token,
)
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.core.auth.base import INVALID_TOKEN, Principal
from django_mcp.registry import authentication_by
from django_mcp.routing import endpoint
from django_mcp.runtime import background
from django_mcp.testing import Client
from django_mcp.testing.asgi import Reply, http_scope, perform
from tests.memory_stores import configure
from tests.spec import spec
from tests.waiting import SECONDS

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

BODY = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{'
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},'
    b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
)
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/list",
}


@pytest.fixture
async def ann() -> User:
    return await User.objects.acreate(username="ann")


@pytest.fixture
def server() -> Server:
    return create_server("shop", TokenAuthentication())


def create_server(name: str, *authenticators: Any) -> Server:
    server = Server(name, authenticators=authenticators)

    @server.tool
    def who(frame: Frame) -> str:
        assert frame.auth is not None
        return f"{frame.user.username} {sorted(frame.auth.scopes)} {frame.auth.key}"

    @server.tool(permission="auth.delete_user")
    def delete() -> str:
        return "deleted"

    @server.tool(scopes=["write"])
    def write() -> str:
        return "written"

    return server


async def issue(owner: Any, **fields: Any) -> tuple[PersonalAccessToken, str]:
    return await sync_to_async(PersonalAccessToken.objects.issue)(owner, "laptop", **fields)


async def ask(server: Server, token: str | None, *, query: str = "") -> Reply:
    credentials = {} if token is None else {"authorization": f"Bearer {token}"}
    scope = http_scope(path="/shop", headers={**HEADERS, **credentials}, query=query)
    return await perform(endpoint(server), scope, BODY)


async def text_of(client: Client, tool: str) -> str:
    text: str = (await client.call_tool(tool)).text
    return text


async def until_idle() -> None:
    """Let background tasks end."""
    while tasks := [*background.tasks()]:
        await asyncio.wait(tasks, timeout=SECONDS)


@pytest.fixture(autouse=True)
async def _background_tasks_end() -> AsyncIterator[None]:
    yield
    await until_idle()


def test_tokens_have_a_prefix_and_a_checksum_and_differ() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(token.startswith(PREFIX) and len(token) == 55 for token in tokens)
    assert all(map(is_well_formed, tokens))


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1],
        lambda token: token + "0",
        lambda token: token.swapcase(),
        lambda token: token[:10] + ("a" if token[10] != "a" else "b") + token[11:],
        lambda token: token[:-1] + ("a" if token[-1] != "a" else "b"),
        lambda token: token[:12] + "é" + token[13:],
        lambda token: token + "\n",
        lambda token: PREFIX,
    ],
)
def test_mistyped_token_is_not_well_formed(change: Any) -> None:
    assert not is_well_formed(change(new_token()))


async def test_call_with_a_token_has_its_user_and_scopes(server: Server, ann: User) -> None:
    _, token = await issue(ann, scopes=["write"])
    headers = {"Authorization": f"Bearer {token}"}
    async with Client(server, transport="http", headers=headers) as client:
        expected = f"ann ['write'] token:{ann.pk}"
        assert [await text_of(client, "who") for _ in range(2)] == [expected, expected]
        assert await text_of(client, "write") == "written"


@spec("AUTH-RS-27", "AUTH-12")
async def test_only_the_digest_is_stored_and_queried(server: Server, ann: User) -> None:
    row, token = await issue(ann)
    assert row.digest == digest_of(token)
    stored = await PersonalAccessToken.objects.values().aget()
    assert token not in str(stored)
    assert row.start == token[:10]
    assert token not in f"{row!r} {row}"

    async def find() -> None:
        assert await PersonalAccessToken.objects.find_valid(digest_of(token), "shop") == row

    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            async_to_sync(find)()
        return [query["sql"] for query in captured]

    shown = await sync_to_async(queries)()
    assert any(digest_of(token) in each for each in shown)
    assert not any(token in each for each in shown)


@spec("AUTH-RS-27")
async def test_token_is_in_no_session_and_no_event(server: Server, ann: User) -> None:
    @server.tool
    async def remember(frame: Frame) -> Frame:
        await frame.client.alog("info", "remembering")
        return frame.assign("seen", "what was assigned")

    _, token = await issue(ann)
    headers = {"Authorization": f"Bearer {token}"}
    async with Client(server, transport="http", version="2025-11-25", headers=headers) as client:
        assert "isError" not in await client.call_tool("remember")
        stored = contents(stores.sessions()) + contents(stores.events())
    assert f"token:{ann.pk}" in stored
    assert "what was assigned" in stored
    assert "remembering" in stored
    assert token not in stored


def contents(store: Any) -> str:
    """All that a store in memory holds, as text."""
    return pprint.pformat(vars(store), width=10_000)


async def rejected(reply: Reply) -> tuple[int, Any, bytes]:
    return reply.status, {**reply.headers}, reply.body


@spec("AUTH-RS-13", "identity-05")
async def test_every_rejection_of_a_token_is_the_same(server: Server, ann: User) -> None:
    now = timezone.now()
    expired = (await issue(ann, expires_at=now - timedelta(seconds=1)))[1]
    revoked_row, revoked = await issue(ann)
    await sync_to_async(revoked_row.revoke)()
    elsewhere = (await issue(ann, servers=["till"]))[1]
    gone = await User.objects.acreate(username="gone", is_active=False)
    deactivated = (await issue(gone))[1]
    valid = (await issue(ann))[1]
    mistyped = valid[:-1] + ("a" if valid[-1] != "a" else "b")

    tokens = [expired, revoked, elsewhere, deactivated, mistyped, new_token(), PREFIX, valid[:-1]]
    replies = [await rejected(await ask(server, token)) for token in tokens]

    assert replies == [replies[0]] * len(tokens)
    status, headers, _ = replies[0]
    assert status == 401
    assert 'error="invalid_token"' in headers["www-authenticate"]
    assert (await ask(server, valid)).status == 200


async def test_mistyped_token_costs_no_query(
    server: Server, ann: User, django_assert_num_queries: Any
) -> None:
    authentication = TokenAuthentication()
    token = (await issue(ann))[1][:-1]

    def count() -> Any:
        resource = authentication_by(server, []).resource
        scope = http_scope(headers={"authorization": f"Bearer {token}"})
        scope["django_mcp.resource"] = resource
        with django_assert_num_queries(0):
            return async_to_sync(authentication.authenticate)(scope)

    assert await sync_to_async(count)() is INVALID_TOKEN


async def test_token_of_another_kind_is_left_to_other_authenticators(server: Server) -> None:
    scope = http_scope(headers={"authorization": "Bearer eyJhbGciOi"})
    assert await TokenAuthentication().authenticate(scope) is None
    assert await TokenAuthentication().authenticate(http_scope()) is None


async def test_token_in_the_query_is_not_read(server: Server, ann: User) -> None:
    _, token = await issue(ann)
    for query in (f"access_token={token}", f"token={token}"):
        reply = await ask(server, None, query=query)
        assert reply.status == 401
        assert "invalid_token" not in reply.headers["www-authenticate"]


async def test_bad_token_is_rejected_where_anonymous_callers_are_accepted(ann: User) -> None:
    server = create_server("shop", TokenAuthentication(), AnonymousAuthentication())
    assert (await ask(server, None)).status == 200
    assert (await ask(server, new_token())).status == 401
    assert (await ask(server, (await issue(ann))[1])).status == 200


async def test_one_authenticator_for_two_servers_accepts_a_token_only_where_it_is_named(
    ann: User,
) -> None:
    both = TokenAuthentication()
    shop, till = create_server("shop", both), create_server("till", both)
    _, named = await issue(ann, servers=["till"])
    _, everywhere = await issue(ann)
    for _ in range(2):
        assert [(await ask(each, named)).status for each in (shop, till)] == [401, 200]
        assert [(await ask(each, everywhere)).status for each in (shop, till)] == [200, 200]


async def test_token_has_the_permissions_of_its_user_at_once(server: Server, ann: User) -> None:
    _, token = await issue(ann)

    async def names() -> list[str]:
        tools = (await ask(server, token)).json()["result"]["tools"]
        return [tool["name"] for tool in tools]

    before = await names()
    permission = await Permission.objects.aget(codename="delete_user")
    await ann.user_permissions.aadd(permission)
    granted = await names()
    await ann.user_permissions.aclear()
    assert ["delete" in each for each in (before, granted, await names())] == [False, True, False]


@spec("identity-04")
@pytest.mark.parametrize("how", ["revoke", "delete", "queryset", "deactivate", "delete user"])
async def test_revocation_takes_effect_at_the_next_call(
    server: Server, ann: User, how: str
) -> None:
    row, token = await issue(ann)
    assert [(await ask(server, token)).status for _ in range(2)] == [200, 200]

    if how == "revoke":
        await sync_to_async(row.revoke)()
    elif how == "delete":
        await row.adelete()
    elif how == "queryset":
        assert await sync_to_async(PersonalAccessToken.objects.revoke)() == 1
    elif how == "deactivate":
        ann.is_active = False
        await ann.asave()
    else:
        await ann.adelete()

    assert (await ask(server, token)).status == 401


async def test_token_goes_on_only_for_the_servers_that_it_names(server: Server, ann: User) -> None:
    row, token = await issue(ann, servers=[server.name])
    authenticator = TokenAuthentication()
    scope: Any = http_scope("POST", "/mcp", headers={"authorization": f"Bearer {token}"})
    scope[SCOPE_KEY] = Resource("/mcp", name=server.name)
    principal = await authenticator.authenticate(scope)
    assert isinstance(principal, Principal)
    assert await authenticator.reauthenticate(principal) == principal
    row.servers = ["another"]
    await row.asave()
    assert await authenticator.reauthenticate(principal) == INVALID_TOKEN


async def test_change_of_scopes_takes_effect_at_the_next_call(server: Server, ann: User) -> None:
    row, token = await issue(ann)
    headers = {"Authorization": f"Bearer {token}"}
    async with Client(server, transport="http", headers=headers) as client:
        assert "[]" in await text_of(client, "who")
        row.scopes = ["write"]
        await row.asave()
        assert "['write']" in await text_of(client, "who")


@spec("AUTH-RS-29")
async def test_cached_token_costs_no_query_and_expires_on_time(
    server: Server, ann: User, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(TOKEN_CACHE_TTL=600)
    _, token = await issue(ann, expires_at=timezone.now() + timedelta(seconds=120))
    assert (await ask(server, token)).status == 200
    find = PersonalAccessToken.objects.find_valid
    queried: list[str] = []

    async def counted(digest: str, name: str) -> Any:
        queried.append(name)
        return await find(digest, name)

    monkeypatch.setattr(PersonalAccessToken.objects, "find_valid", counted)
    assert (await ask(server, token)).status == 200
    assert queried == []
    later = {
        "time": lambda: time.time() + 130,
        "monotonic": lambda: time.monotonic() + 130,
        "now": lambda: timezone.now() + timedelta(seconds=130),
    }
    monkeypatch.setattr("django_mcp.auth.cache.time", SimpleNamespace(**later))
    monkeypatch.setattr("django_mcp.contrib.tokens.models.timezone", SimpleNamespace(**later))
    assert (await ask(server, token)).status == 401
    assert queried == ["shop"]


async def test_last_use_is_written_at_most_once_a_minute(
    server: Server, ann: User, configure: Any
) -> None:
    configure(TOKEN_CACHE_TTL=None)
    row, token = await issue(ann)

    async def use() -> Any:
        assert (await ask(server, token)).status == 200
        await until_idle()
        await row.arefresh_from_db()
        return row.last_used_at

    first = await use()
    assert first is not None
    assert await use() == first
    recently = timezone.now() - timedelta(seconds=50)
    await PersonalAccessToken.objects.aupdate(last_used_at=recently)
    assert await use() == recently
    long_ago = timezone.now() - timedelta(seconds=61)
    await PersonalAccessToken.objects.aupdate(last_used_at=long_ago)
    assert await use() > first


async def test_answer_does_not_wait_for_the_time_of_the_last_use(
    server: Server, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await issue(ann)
    written = asyncio.Event()

    async def write(row: PersonalAccessToken) -> None:
        await written.wait()

    monkeypatch.setattr(PersonalAccessToken, "_write_use", write)
    assert (await ask(server, token)).status == 200
    written.set()


@spec("AUTH-RS-27")
async def test_token_is_in_no_log_and_in_no_text_of_the_principal(
    server: Server, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    _, token = await issue(ann)
    with caplog.at_level("DEBUG"):
        await ask(server, token)
        await ask(server, token + "0")
    assert token not in caplog.text
    assert token not in repr(vars(TokenAuthentication()))


def test_authenticator_without_the_app_names_the_remedy(settings: Settings) -> None:
    app = "django_mcp.contrib.tokens"
    settings.INSTALLED_APPS = [each for each in settings.INSTALLED_APPS if each != app]
    with pytest.raises(ImproperlyConfigured, match=f"add '{app}' to INSTALLED_APPS"):
        TokenAuthentication()


def test_owner_is_any_user_model() -> None:
    field = PersonalAccessToken._meta.get_field("owner")
    assert field.related_model is get_user_model()
