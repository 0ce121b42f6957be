"""``frame.django_request``: the HttpRequest of a message."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages.middleware import MessageMiddleware
from django.http import HttpRequest
from pytest_django import Settings

from django_mcp import Frame, Server
from django_mcp.routing import endpoint
from django_mcp.testing import Client
from django_mcp.testing.asgi import perform
from tests.around.requests import call, scope_of


@pytest.fixture
def server() -> Server:
    """Tools which use the request as code of a site does."""
    server = Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @server.tool
    def url(frame: Frame) -> str:
        request = frame.django_request
        assert isinstance(request, HttpRequest)
        return str(request.build_absolute_uri("/products/1"))

    @server.tool
    async def facts(frame: Frame) -> str:
        request = frame.django_request
        assert request is frame.django_request
        assert request is frame.assign(a=1).django_request
        assert await request.auser() == request.user == frame.user
        return f"{request.method} {request.user} {request.body!r} {request.GET.get('q')}"

    return server


async def test_request_over_http_has_headers_host_and_user(server: Server) -> None:
    assert await call(server, "url", host="shop.localhost") == "http://shop.localhost/products/1"
    assert await call(server, "facts") == "POST AnonymousUser b'' None"


async def test_query_that_is_not_utf_8_is_read_as_latin_1(server: Server) -> None:
    scope, body = scope_of("tools/call", {"name": "facts"})
    reply = await perform(endpoint(server), {**scope, "query_string": b"q=\xff"}, body)
    assert reply.json()["result"]["content"][0]["text"] == "POST AnonymousUser b'' \xff"


async def test_request_of_a_session_is_that_of_its_message(server: Server) -> None:
    user = User(pk=5, username="ann")
    async with Client(
        server, transport="http", version="2025-11-25", user=user, query="q=1"
    ) as client:
        result = await client.call_tool("facts")
        assert result.text == "POST ann b'' 1"


@pytest.mark.parametrize(
    ("base", "expected"),
    [(None, "http://localhost/products/1"), ("https://a.example", "https://a.example/products/1")],
)
async def test_request_without_http_has_the_user_and_the_host_of_the_site(
    server: Server, settings: Settings, base: str | None, expected: str
) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "a.example"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": base}
    user = User(pk=5, username="ann")
    for tool, text in (("url", expected), ("facts", "POST ann b'' None")):
        result = await server.acall_tool(tool, user=user)
        assert result["content"][0]["text"] == text


def test_request_of_a_frame_made_by_hand_has_its_user() -> None:
    request = Frame(user=User(username="bob")).django_request
    assert request.user.username == "bob"
    # Code that needs more than the user gets its usual error, not one of this package.
    with pytest.raises(AssertionError, match="session"):
        MessageMiddleware(_no_response).process_request(_without_session(request))


def _no_response(request: HttpRequest) -> Any:
    raise AssertionError


def _without_session(request: HttpRequest) -> HttpRequest:
    assert not hasattr(request, "session")
    raise AssertionError("session")
