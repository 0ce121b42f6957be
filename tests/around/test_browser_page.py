"""What a browser gets at an endpoint, and at the path of a server that is not mounted."""

from __future__ import annotations

import json
import re

import pytest
from django.core import mail
from django.core.handlers.asgi import ASGIHandler
from django.test import Client as DjangoClient
from pytest_django import Settings

from django_mcp import Server, registry
from django_mcp.routing import endpoint
from django_mcp.testing.asgi import http_scope, perform

PUBLIC = "django_mcp.auth.anonymous.AnonymousAuthentication"
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Server:
    """The only server of a site under DEBUG."""
    settings.DEBUG = True
    server = Server("shop", path="/in/the/shop", authenticators=[PUBLIC])

    @server.tool
    def secret_tool() -> str:
        return "secret"

    monkeypatch.setattr(registry.registered, "servers", {server.name: server})
    return server


async def test_browser_gets_the_configuration_of_clients(server: Server) -> None:
    reply = await perform(endpoint(server), http_scope("GET", "/in/the/shop", headers=BROWSER))
    assert reply.status == 200
    assert reply.media_type == "text/html"
    text = reply.body.decode()
    blocks = [
        each.replace("&quot;", '"') for each in re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)
    ]
    url = "http://testserver/in/the/shop"
    assert blocks[0] == url
    assert blocks[1] == f"claude mcp add --transport http shop {url}"
    assert json.loads(blocks[2]) == {"mcpServers": {"shop": {"type": "http", "url": url}}}
    assert "secret_tool" not in text
    assert "default-src 'none'" in reply.headers["content-security-policy"]


async def test_page_is_in_the_language_of_the_browser(server: Server) -> None:
    headers = {**BROWSER, "accept-language": "de-AT, en;q=0.5"}
    reply = await perform(endpoint(server), http_scope("GET", "/in/the/shop", headers=headers))
    text = reply.body.decode()
    assert '<html lang="de' in text
    assert "Dies ist ein MCP-Server." in text


async def test_page_is_for_allowed_hosts_only(server: Server) -> None:
    headers = {**BROWSER, "host": "evil.example"}
    reply = await perform(endpoint(server), http_scope("GET", "/", headers=headers))
    assert reply.status == 403


async def test_page_for_users_without_debug_has_the_same_steps(
    server: Server, settings: Settings
) -> None:
    settings.DEBUG = False
    settings.ALLOWED_HOSTS = ["testserver"]
    text = await page_of(server)
    assert "http://testserver/in/the/shop" in text
    assert "Everybody may use this server" in text
    assert "mcp_doctor" not in text


async def test_page_says_where_tokens_are_made(server: Server, settings: Settings) -> None:
    server.authenticators = ["django_mcp.auth.token.TokenAuthentication"]
    text = await page_of(server)
    assert '<a href="http://testserver/tokens/">' in text
    assert "You need no account" not in text


async def test_page_says_that_programs_log_in(server: Server, settings: Settings) -> None:
    server.authenticators = ["django_mcp.auth.oauth_toolkit.OAuthToolkitAuthentication"]
    text = await page_of(server)
    assert "Log in when it asks you to" in text
    assert '<a href="http://testserver/o/access">' in text


async def page_of(server: Server) -> str:
    reply = await perform(endpoint(server), http_scope("GET", "/in/the/shop", headers=BROWSER))
    assert reply.status == 200
    return reply.body.decode()


async def test_client_gets_a_stream_and_no_page(server: Server) -> None:
    headers = {"accept": "text/event-stream, text/html"}
    reply = await perform(endpoint(server), http_scope("GET", "/", headers=headers))
    assert reply.status == 400
    assert "initialize" in reply.json()["error"]["message"]


async def test_log_of_a_request_that_reaches_django_names_the_remedy(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(mail, "outbox")
    reply = await perform(ASGIHandler(), http_scope("GET", "/in/the/shop/"))
    assert reply.status == 404
    assert "/in/the/shop/ is the path of the MCP server 'shop'" in caplog.text
    assert "application = mount(get_asgi_application())" in caplog.text


def test_log_of_a_request_to_a_wsgi_server_names_the_remedy(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(mail, "outbox")
    assert DjangoClient().post("/in/the/shop").status_code == 404
    assert "application = mount(get_wsgi_application())" in caplog.text


def test_log_of_djangos_test_client_names_that_of_this_package(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert DjangoClient().post("/in/the/shop").status_code == 404
    assert "Use Client or SyncClient of django_mcp.testing" in caplog.text


def test_log_of_other_missing_pages_is_that_of_django(caplog: pytest.LogCaptureFixture) -> None:
    assert DjangoClient().get("/elsewhere").status_code == 404
    assert caplog.messages == ["Not Found: /elsewhere"]
