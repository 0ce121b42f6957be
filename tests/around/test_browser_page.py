"""What a browser gets at an endpoint, and at the path of a server that is not mounted."""

from __future__ import annotations

import json
import re

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404
from django.test import RequestFactory
from django.views import debug
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

    monkeypatch.setattr(registry, "_servers", {server.name: server})
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


async def test_page_is_for_allowed_hosts_only(server: Server) -> None:
    headers = {**BROWSER, "host": "evil.example"}
    reply = await perform(endpoint(server), http_scope("GET", "/", headers=headers))
    assert reply.status == 403


async def test_page_does_not_exist_without_debug(server: Server, settings: Settings) -> None:
    settings.DEBUG = False
    settings.ALLOWED_HOSTS = ["testserver"]
    reply = await perform(endpoint(server), http_scope("GET", "/", headers=BROWSER))
    assert reply.status == 400
    assert reply.media_type == "application/json"


async def test_client_gets_a_stream_and_no_page(server: Server) -> None:
    headers = {"accept": "text/event-stream, text/html"}
    reply = await perform(endpoint(server), http_scope("GET", "/", headers=headers))
    assert reply.status == 400
    assert "initialize" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    list(zip(("text/html", "*/*"), ("text/html", "application/json"), strict=True)),
)
async def test_request_that_reaches_django_gets_the_remedy(
    accept: str, media_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    scope = http_scope("GET", "/in/the/shop/", headers={"accept": accept})
    reply = await perform(ASGIHandler(), scope)
    assert reply.status == 404
    assert reply.headers["Content-Type"].startswith(media_type)
    assert b"application = mount(get_asgi_application())" in reply.body
    assert "does not mount the server" in caplog.text


def test_request_to_a_wsgi_server_gets_the_remedy(rf: RequestFactory) -> None:
    request = rf.post("/in/the/shop")
    assert isinstance(request, WSGIRequest)
    response = debug.technical_404_response(request, Http404())
    assert response.status_code == 404
    assert "a WSGI server has answered" in json.loads(response.content)["error"]["message"]


def test_other_missing_pages_are_those_of_django(rf: RequestFactory) -> None:
    response = debug.technical_404_response(rf.get("/elsewhere"), Http404())
    assert b"mount(" not in response.content
