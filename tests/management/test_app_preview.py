"""What mcp_app_preview refuses, and requests of a view; tests/browser has the page itself."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.management import call_command
from django.core.management.base import CommandError

from django_mcp import Server, registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.protocol.mcp_apps.metadata import MIME_TYPE
from django_mcp.management.preview.requests import SiteRequests
from tests.memory_stores import configure

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["configure"]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server("shop")
    monkeypatch.setattr(registry, "_servers", {"mcp": registry.default, "shop": server})

    @server.tool
    def plain() -> str:
        return "text"

    @server.tool(permission="auth.view_user", meta={"ui": {"resourceUri": "ui://shop/users"}})
    def show_users() -> str:
        return "ann"

    @server.tool(meta={"ui": {"resourceUri": "ui://shop/other"}})
    def show_other() -> str:
        return "other"

    @server.tool(meta={"ui": {"resourceUri": "ui://shop/page"}})
    def show_page() -> str:
        return "page"

    @server.resource("ui://shop/page", name="page", mime_type="text/html")
    def page() -> str:
        return "<p>Page</p>"

    @server.tool(meta={"ui": {"resourceUri": "ui://shop/view"}})
    def show_view() -> str:
        return "view"

    @server.resource("ui://shop/view", name="view", mime_type=MIME_TYPE)
    def view() -> str:
        return "<p>View</p>"

    @server.resource("ui://shop/users", name="users", mime_type=MIME_TYPE)
    def users() -> str:
        return "<p>Users</p>"

    return server


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("plain", "has no view: declare one with ui="),
        ("unknown", "lists no tool 'unknown'"),
        ("show_users", "see --user and --scope"),
        ("show_other", "ui://shop/other cannot be read"),
        ("show_page", "hosts show 'text/html;profile=mcp-app' only"),
    ],
)
def test_tool_that_cannot_be_shown_is_refused(shop: Server, tool: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("mcp_app_preview", tool, "--server", "shop", "--without-debug")


def test_preview_starts_only_with_debug(shop: Server, settings: Settings) -> None:
    settings.DEBUG = False
    with pytest.raises(CommandError, match="DEBUG is off"):
        call_command("mcp_app_preview", "show_page", "--server", "shop")


def test_occupied_port_is_an_error_with_its_reason(shop: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        with pytest.raises(CommandError, match="cannot listen: Address already in use"):
            call_command(
                "mcp_app_preview", "show_view", "--server=shop", "--without-debug", "--port", port
            )


@pytest.mark.django_db(transaction=True)
def test_view_has_the_permissions_of_the_user(shop: Server) -> None:
    nobody = SiteRequests(shop, Principal(scheme="test", user=AnonymousUser()))
    boss = User.objects.create_superuser("boss")
    granted = SiteRequests(shop, Principal(scheme="test", user=boss))

    refused = nobody.forward("tools/call", {"name": "show_users", "arguments": {}})
    allowed = granted.forward("tools/call", {"name": "show_users", "arguments": {}})

    assert "Unknown tool" in refused["error"]["message"]
    assert allowed["result"]["content"][0]["text"] == "ann"


def test_view_cannot_send_other_methods(shop: Server) -> None:
    requests = SiteRequests(shop, Principal(scheme="test", user=AnonymousUser()))

    assert requests.forward("prompts/list", {})["error"]["code"] == -32601
    assert "tools" in requests.forward("tools/list", {})["result"]
