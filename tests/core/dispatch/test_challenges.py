"""Challenged components are listed, and using them says what the caller needs for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import AuthenticationRequired, InsufficientScope, Server
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import ConfigurationError, WhenDenied
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.spec import spec

MODERN = "2026-07-28"


class Member(AnonymousUser):
    """A logged-in user with these permissions, without a database."""

    is_authenticated = True  # type: ignore[assignment]

    def __init__(self, pk: int, *permissions: str) -> None:
        super().__init__()
        self.pk = pk  # type: ignore[assignment]
        self.granted = permissions

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return perm in self.granted


STAFF = Member(1, "desk.view_ticket")
UNPRIVILEGED = Member(2)


def desk(**options: Any) -> Server:
    """A server of which everything needs the scope tickets:read, except a tool."""
    server = Server("desk", **options)

    @server.tool
    def hello() -> str:
        return "hello"

    @server.tool(scopes=["tickets:read"])
    def close() -> str:
        return "closed"

    @server.resource("desk://tickets", scopes=["tickets:read"])
    def tickets() -> str:
        return "tickets"

    @server.resource("desk://tickets/{number}", scopes=["tickets:read"])
    def ticket(number: str) -> str:
        return number

    @server.prompt(scopes=["tickets:read"], complete={"number": lambda value: ["7"]})
    def summarise(number: str) -> str:
        return number

    return server


def uses(client: Client) -> list[Callable[[], Awaitable[Any]]]:
    """All ways to use what ``desk`` guards."""

    def read(uri: str) -> Callable[[], Awaitable[Any]]:
        return lambda: client.read_resource(uri)

    ways: list[Callable[[], Awaitable[Any]]] = [
        lambda: client.call_tool("close"),
        read("desk://tickets"),
        read("desk://tickets/7"),
        lambda: client.get_prompt("summarise", {"number": "7"}),
        lambda: client.complete("summarise", "number"),
        lambda: client.complete("desk://tickets/{number}", "number"),
    ]
    if client.revision.version != MODERN:
        ways.append(lambda: client.request("resources/subscribe", {"uri": "desk://tickets"}))
        ways.append(lambda: client.request("resources/subscribe", {"uri": "desk://tickets/7"}))
    return ways


async def check_each_use(client: Client, status: int, message: str, scopes: list[str]) -> None:
    """Check that the client is answered with a challenge, whatever it uses."""
    for use in uses(client):
        error = await error_of(use())
        assert (error.code, error.message, error.data) == (-32600, message, {"scopes": scopes})
        assert error.status == (status if client.connection.name == "http" else None)


LOGIN = "Authentication required"
STEP_UP = "The access token lacks a scope that this needs"


async def test_challenged_components_are_listed(client_for: ClientFor) -> None:
    async with client_for(desk(), user=AnonymousUser()) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["close", "hello"]
        assert len(await client.list_resources()) == 1
        assert len(await client.list_resource_templates()) == 1
        assert len(await client.list_prompts()) == 1
        assert (await client.call_tool("hello")).text == "hello"


async def test_anonymous_caller_of_a_challenged_component_has_to_authenticate(
    client_for: ClientFor,
) -> None:
    async with client_for(desk(), user=AnonymousUser()) as client:
        await check_each_use(client, 401, LOGIN, ["tickets:read"])


async def test_token_without_the_scope_is_answered_with_all_scopes_that_suffice(
    client_for: ClientFor,
) -> None:
    server = desk(scopes=["mcp"])
    async with client_for(server, scopes=["mcp"], user=STAFF) as client:
        await check_each_use(client, 403, STEP_UP, ["mcp", "tickets:read"])
    async with client_for(server, scopes=["mcp", "tickets:read"], user=STAFF) as client:
        for use in uses(client):
            assert await use() is not None


@spec("AUTH-07")
async def test_scope_that_includes_the_needed_one_suffices(
    client_for: ClientFor, configure: Configure
) -> None:
    configure(SCOPE_HIERARCHY={"admin": ["tickets"], "tickets": ["tickets:read"]})
    async with client_for(desk(), scopes=["admin"]) as client:
        for use in uses(client):
            assert await use() is not None


@pytest.mark.parametrize("user", [STAFF, UNPRIVILEGED], ids=["staff", "unprivileged"])
async def test_component_is_hidden_from_a_user_whom_more_scopes_would_not_help(
    client_for: ClientFor, user: Member
) -> None:
    server = Server("desk")

    @server.tool(scopes=["tickets:read"], permission="desk.view_ticket")
    def close() -> str:
        return "closed"

    async with client_for(server, user=user) as client:
        names = [tool["name"] for tool in await client.list_tools()]
        error = await error_of(client.call_tool("close"))

    if user is STAFF:
        assert (names, error.message) == (["close"], STEP_UP)
    else:
        assert (names, error.code, error.message) == ([], -32602, "Unknown tool: close")


POLICIES: list[tuple[WhenDenied | None, WhenDenied | None, list[str], WhenDenied]] = [
    (None, None, [], "hidden"),
    (None, None, ["read"], "challenged"),
    ("hidden", None, ["read"], "hidden"),
    ("challenged", None, [], "challenged"),
    ("hidden", "challenged", [], "challenged"),
    ("challenged", "hidden", ["read"], "hidden"),
]


@pytest.mark.parametrize(("of_server", "own", "scopes", "expected"), POLICIES)
async def test_policy_of_a_component_precedes_that_of_its_server(
    of_server: WhenDenied | None, own: WhenDenied | None, scopes: list[str], expected: WhenDenied
) -> None:
    server = Server("desk", when_denied=of_server)
    options: Any = {} if own is None else {"when_denied": own}
    server.tool(name="close", scopes=scopes, permission="desk.view_ticket", **options)(lambda: None)

    async with Client(server, user=AnonymousUser()) as client:
        names = [tool["name"] for tool in await client.list_tools()]
        error = await error_of(client.call_tool("close"))

    assert names == (["close"] if expected == "challenged" else [])
    assert error.message == (LOGIN if expected == "challenged" else "Unknown tool: close")


@spec("AUTH-06")
async def test_listening_to_challenged_resources_is_challenged_with_the_scopes_of_all() -> None:
    server = Server("desk", capabilities={"resources": {"subscribe": True}})
    for name in "abc":
        scopes = {"a": ["read:a"], "b": ["read:b"], "c": []}[name]
        server.resource(f"desk://{name}", name=name, scopes=scopes)(lambda: "")
    uris = ["desk://a", "desk://b", "desk://c"]

    async with Client(server, transport="http", user=STAFF) as client:
        wanted = {"notifications": {"resourceSubscriptions": uris}}
        error = await error_of(client.request("subscriptions/listen", wanted))

    assert (error.status, error.data) == (403, {"scopes": ["read:a", "read:b"]})


async def test_resource_is_read_through_no_template_behind_a_challenged_one() -> None:
    server = Server("desk")
    server.resource("desk://tickets/{n}", name="one", scopes=["read"])(lambda n: "one")
    server.resource("desk://{kind}/{n}", name="any")(lambda kind, n: "any")

    async with Client(server, user=STAFF) as client:
        error = await error_of(client.read_resource("desk://tickets/7"))
        assert (await client.read_resource("desk://users/7")).text == "any"

    assert error.message == STEP_UP


async def test_call_by_the_site_raises_the_challenge() -> None:
    server = desk(scopes=["mcp"])

    with pytest.raises(AuthenticationRequired) as anonymous:
        await server.acall_tool("close")
    with pytest.raises(InsufficientScope) as lacking:
        await server.acall_tool("close", user=STAFF)

    assert not isinstance(anonymous.value, InsufficientScope)
    assert anonymous.value.scopes == lacking.value.scopes == {"mcp", "tickets:read"}


@spec("AUTH-08")
@pytest.mark.parametrize("scope", ["two words", 'quo"ted', "back\\slash", "ü", "offline_access", 1])
def test_scope_that_no_challenge_can_contain_is_rejected(scope: Any) -> None:
    with pytest.raises(ConfigurationError, match="has the scope"):
        Server("desk", scopes=[scope])
    with pytest.raises(ConfigurationError, match="has the scope"):
        Server("desk").tool(name="close", scopes=[scope])(lambda: None)


def test_scopes_of_a_server_can_be_one_string() -> None:
    assert Server("desk", scopes="read write").scopes == {"read", "write"}


def test_unknown_policy_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match='write "hidden" or "challenged"'):
        Server("desk", when_denied="shown")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match='write "hidden" or "challenged"'):
        Server("desk").tool(name="close", when_denied="shown")(lambda: None)  # type: ignore[call-overload]


def test_only_a_caller_without_subject_user_and_scopes_is_anonymous() -> None:
    assert Principal(scheme="public", user=AnonymousUser()).is_anonymous
    assert not Principal(scheme="token", subject="robot").is_anonymous
    assert not Principal(scheme="token", scopes=frozenset(["read"])).is_anonymous
    assert not Principal(scheme="token", user=STAFF).is_anonymous


def exporting() -> Server:
    """A server with a tool whose arguments decide which scopes it needs."""
    server = Server("desk", scopes=["mcp"])

    @server.tool(scopes=["tickets:read"], when_denied="challenged")
    def export(all_of_them: bool) -> str:
        raise InsufficientScope(scopes=["tickets:export"])

    @server.tool
    def open_export() -> str:
        raise InsufficientScope(scopes=["tickets:export"])

    @server.tool
    def in_words() -> str:
        raise InsufficientScope("Ask your boss", scopes=["tickets:export"])

    return server


async def test_scope_that_a_handler_needs_makes_an_anonymous_caller_log_in(
    client_for: ClientFor,
) -> None:
    async with client_for(exporting(), user=AnonymousUser()) as client:
        error = await error_of(client.call_tool("open_export"))
        assert (error.message, error.data) == (LOGIN, {"scopes": ["tickets:export"]})
        assert error.status == (401 if client.connection.name == "http" else None)
        assert (await error_of(client.call_tool("in_words"))).message == "Ask your boss"


async def test_scope_that_a_handler_needs_is_named_with_those_that_are_declared(
    client_for: ClientFor,
) -> None:
    async with client_for(exporting(), scopes=["mcp", "tickets:read"], user=STAFF) as client:
        error = await error_of(client.call_tool("export", {"all_of_them": True}))
        wanted = {"scopes": ["tickets:export", "tickets:read"]}
        assert (error.message, error.data) == (STEP_UP, wanted)
        assert error.status == (403 if client.connection.name == "http" else None)
