"""The requests of clients in ``clients``, played against the example site."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, BinaryIO, cast

import pytest
from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from pytest_django import Settings

from django_mcp import Server, registry, routing
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    BaseAuthentication,
    Challenge,
    Principal,
    bearer_token,
)
from django_mcp.testing.asgi import Application, Reply, http_scope, perform
from django_mcp.transports.connection import stdio
from tests.conversations.recorded import Recording, recordings
from tests.memory_stores import MEMORY
from tests.wsgi import requests

SITE = "https://helpdesk.example"
HOST = SITE.removeprefix("https://")
ANY = "..."
TOKENS = {"valid": {"mcp", "orders"}, "more": {"mcp", "orders", "refunds"}}


class OAuthAuthentication(BaseAuthentication):
    """Accepts two tokens of an authorization server that does not exist."""

    scheme = "Bearer"

    def authorization_servers(self, scope: Mapping[str, Any], /) -> list[str]:
        """Return the issuer."""
        return [f"{SITE}/o"]

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        """Return the principal of the token."""
        token = bearer_token(scope)
        if token is None:
            return None
        if token not in TOKENS:
            return INVALID_TOKEN
        return Principal(scheme="oauth", subject="7", scopes=frozenset(TOKENS[token]))


Site = Callable[[str, str, Mapping[str, str], bytes], Awaitable[Reply]]
"""Answers a request by its method, path, headers and body."""

PUBLIC = ["django_mcp.auth.anonymous.AnonymousAuthentication"]
PROTECTED = [f"{__name__}.{OAuthAuthentication.__name__}"]


@pytest.fixture
def office() -> Server:
    """A server at which some tools need no login."""
    authenticators: list[Any] = [OAuthAuthentication(), AnonymousAuthentication()]
    server = Server("office", authenticators=authenticators, scopes=())

    @server.tool(read_only=True)
    async def opening_hours() -> str:
        """When we are there."""
        return "9 to 17"

    @server.tool(scopes={"orders"})
    async def orders() -> str:
        """The orders of the caller."""
        return "None"

    @server.tool(scopes={"orders", "refunds"})
    async def refund() -> str:
        """Pay back."""
        return "Done"

    return server


@pytest.fixture(params=["ASGI", "WSGI"])
def site(
    request: pytest.FixtureRequest,
    recording: Recording,
    office: Server,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """The example site, as the recording needs it."""
    options: dict[str, Any] = {**django_settings.DJANGO_MCP, "STORES": MEMORY, "BASE_URL": SITE}
    options["ALLOWED_ORIGINS"] = ["http://localhost:6274"]
    options |= {"AUTHENTICATORS": PUBLIC, "SCOPES": []}
    if recording.server == "protected":
        options |= {"AUTHENTICATORS": PROTECTED, "SCOPES": ["mcp"]}
        monkeypatch.setitem(registry.registered.servers, office.name, office)
    if recording.versions is not None:
        options["PROTOCOL_VERSIONS"] = recording.versions
    settings.DJANGO_MCP = options
    settings.ALLOWED_HOSTS = [HOST]
    if request.param == "ASGI":
        yield partial(perform_asgi, routing.mount(get_asgi_application()))
    else:
        yield partial(perform_wsgi, routing.mount(get_wsgi_application()))
    monkeypatch.undo()
    settings.DJANGO_MCP = django_settings.DJANGO_MCP


@pytest.mark.django_db
@pytest.mark.parametrize("recording", recordings(), ids=lambda recording: recording.name)
async def test_requests_of_the_client_are_answered_as_it_expects(
    recording: Recording, site: Site
) -> None:
    if recording.server == "stdio":
        await play_lines(recording)
        return
    values: dict[str, str] = {}
    for number, exchange in enumerate(recording.exchanges):
        reply = await send(site, fill(exchange["request"], values))
        where = f"exchange {number}: {reply.status} {dict(reply.headers)} {reply.body!r}"
        compare(exchange["response"], reply, values, where)


async def send(site: Site, request: Mapping[str, Any]) -> Reply:
    """Send a request of a recording over https."""
    headers = {"host": HOST, **request["headers"]}
    body = request.get("body")
    content = b"" if body is None else json.dumps(body).encode()
    return await site(request["method"], request["path"], headers, content)


async def perform_asgi(
    application: Application, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> Reply:
    scope = http_scope(method, path, headers=headers, scheme="https")
    return await perform(application, scope, body)


async def perform_wsgi(
    application: Any, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> Reply:
    more = {"wsgi.url_scheme": "https"}
    variables = requests.environ(method, path, headers=headers, body=body, more=more)
    return await asyncio.to_thread(requests.perform, application, variables)


async def play_lines(recording: Recording) -> None:
    """Send each request as a line of standard input."""
    written: list[bytes] = []

    class Output:
        def write(self, line: bytes) -> int:
            written.append(line)
            return len(line)

        def flush(self) -> None:
            """Do nothing."""

    async def lines() -> AsyncIterator[bytes]:
        for exchange in recording.exchanges:
            yield json.dumps(exchange["request"]["body"]).encode() + b"\n"

    server = registry.configure(registry.default)
    await stdio.StdioConnection(server, cast(BinaryIO, Output())).serve(lines())
    replies = {message.get("id"): message for message in map(json.loads, written)}
    for exchange in recording.exchanges:
        reply = replies[exchange["request"]["body"]["id"]]
        compare_body(exchange["response"], reply, str(reply))


# Comparison.


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """Return a request with the values of earlier responses."""
    if isinstance(value, dict):
        return {name: fill(member, values) for name, member in value.items()}
    return values[value] if isinstance(value, str) and value in values else value


def compare(expected: Mapping[str, Any], reply: Reply, values: dict[str, str], where: str) -> None:
    assert reply.status == expected["status"], where
    for name, value in expected.get("headers", {}).items():
        found = reply.headers.get(name, "")
        if value.startswith("$"):
            assert found, where
            values[value] = found
        else:
            assert fnmatchcase(found, re.sub(r"([\[?])", "[\\1]", value)), f"{name}: {where}"
    if "body" in expected:
        is_stream = reply.media_type == "text/event-stream"
        body = json.loads(reply.events()[-1].data or "") if is_stream else reply.json()
        compare_body(expected, body, where)


def compare_body(expected: Mapping[str, Any], body: Any, where: str) -> None:
    assert contains(body, expected["body"]), where
    for path in expected.get("absent", ()):
        holder: Any = body
        *parents, last = path.split(".")
        for name in parents:
            holder = holder[name]
        assert last not in holder, where


def contains(value: Any, part: Any) -> bool:
    """Whether ``value`` has at least the members of ``part``."""
    if part == ANY:
        return True
    if isinstance(part, dict):
        return isinstance(value, dict) and all(
            name in value and contains(value[name], member) for name, member in part.items()
        )
    if isinstance(part, list):
        return len(value) == len(part) and all(map(contains, value, part))
    return bool(value == part)


def test_a_different_body_is_not_accepted() -> None:
    assert contains({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]})
    assert not contains({"a": [{"b": 1}]}, {"a": [{"b": 2}]})
    assert not contains({"a": [1, 2]}, {"a": [1]})
    assert not contains({}, {"a": ANY})
