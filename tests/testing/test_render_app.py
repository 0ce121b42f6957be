"""``render_app`` of the test client, and what it says of the policy of a view."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.components.responses import Response, ToolResponse
from django_mcp.testing import SyncClient
from django_mcp.ui.base import FRAGMENT
from django_mcp.ui.mcp_apps import policy
from django_mcp.ui.mcp_apps.metadata import EXTENSION, MIME_TYPE
from tests.memory_stores import configure

__all__ = ["configure"]

PAGE = """<!doctype html>
<html><head>
<link rel="stylesheet" href="https://cdn.example/shop.css">
<style>@font-face { src: url("data:font/woff2;base64,AAAA") }</style>
<script src="/static/shop.js"></script>
<script type="application/json">{"text": "eval(1)"}</script>
</head><body style="background: url('https://images.cdn.example/paper.png')">
<img src="data:image/png;base64,A" srcset="https://a.example/1.png, https://b.example/2.png 2x">
<svg><use href="#icon"></use></svg>
<form action="/pay"><iframe src="https://video.example/1"></iframe></form>
<script>
fetch("https://api.example/rates");
new Function("return 1");
</script>
</body></html>
"""


def shop(html: str, **ui: Any) -> Server:
    server = Server("shop")

    @server.tool(meta={"ui": {"resourceUri": "ui://shop/cart"}})
    def show_cart(frame: Frame, number: int) -> str:
        extensions = (frame.get_client_capabilities() or {}).get("extensions", {})
        return f"{number} pieces, {'shown' if EXTENSION in extensions else 'as text'}"

    @server.tool
    def plain() -> str:
        return "text"

    @server.resource("ui://shop/cart", name="cart", mime_type=MIME_TYPE, meta={"ui": ui})
    def cart() -> str:
        return html

    return server


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
def test_rendered_app_has_the_view_and_the_result(version: str) -> None:
    with SyncClient(shop("<p>Cart</p>", prefersBorder=True), version=version) as client:
        app = client.render_app("show_cart", {"number": 3})
        as_text = client.call_tool("show_cart", {"number": 3})

    assert (app.uri, app.html, app.meta) == (
        "ui://shop/cart",
        "<p>Cart</p>",
        {"prefersBorder": True},
    )
    assert app.result.text == "3 pieces, shown"
    assert as_text.text == "3 pieces, as text"
    app.assert_nothing_blocked()


def test_parts_that_a_host_blocks_are_named_with_their_lines() -> None:
    with SyncClient(shop(PAGE)) as client:
        app = client.render_app("show_cart", {"number": 3})

    assert [(part.directive, part.source, part.line) for part in app.blocked] == [
        ("style-src", "https://cdn.example/shop.css", 3),
        ("font-src", "data:font/woff2;base64,AAAA", 4),
        ("script-src", "/static/shop.js", 5),
        ("img-src", "https://images.cdn.example/paper.png", 7),
        ("img-src", "https://a.example/1.png", 8),
        ("img-src", "https://b.example/2.png", 8),
        ("form-action", "/pay", 10),
        ("frame-src", "https://video.example/1", 10),
        ("connect-src", "https://api.example/rates", 12),
        ("script-src", "Function", 13),
    ]
    with pytest.raises(AssertionError, match=r"line 12: connect-src blocks .* call a tool instead"):
        app.assert_nothing_blocked()


def test_declared_origins_are_not_blocked() -> None:
    csp = {
        "resourceDomains": ["https://cdn.example", "https://*.cdn.example", "https://*.example"],
        "connectDomains": ["https://api.example"],
        "frameDomains": ["https://video.example"],
    }
    with SyncClient(shop(PAGE, csp=csp)) as client:
        app = client.render_app("show_cart", {"number": 3})

    assert [part.source for part in app.blocked] == [
        "data:font/woff2;base64,AAAA",
        "/static/shop.js",
        "/pay",
        "Function",
    ]


def test_part_of_a_fragment_that_a_host_blocks_is_named() -> None:
    server = shop("<p>Cart</p>")

    @server.tool(meta={"ui": {"resourceUri": "ui://shop/cart"}})
    def show_picture() -> ToolResponse:
        return Response.tool().text("Tea").meta({FRAGMENT: '<img src="https://a.example/tea.png">'})

    with SyncClient(server) as client:
        (part,) = client.render_app("show_picture").blocked

    assert (part.directive, part.source) == ("img-src", "https://a.example/tea.png")


def test_entry_cannot_add_a_directive_to_the_policy() -> None:
    csp = {"connectDomains": ["https://a.example; script-src *", "https://b.example\nX: y"]}

    assert "connect-src 'none'" in policy.header(csp)


@pytest.mark.parametrize(
    ("source", "url", "is_allowed"),
    [
        ("https://a.example", "https://a.example/x", True),
        ("https://a.example", "https://a.example:8443/x", False),
        ("https://a.example:8443", "https://a.example:8443/x", True),
        ("https://a.example", "http://a.example/x", False),
        ("http://a.example", "https://a.example/x", True),
        ("https://*.a.example", "https://b.a.example/", True),
        ("https://*.a.example", "https://a.example/", False),
        ("https://a.example", "https://a.example.evil.test/", False),
        ("wss://a.example", "wss://a.example/live", True),
        ("https://a.example", "//a.example/x", False),
        ("https://a.example", "https://a.example:port/", False),
    ],
)
def test_source_allows_urls_of_its_origin(source: str, url: str, is_allowed: bool) -> None:
    assert policy.allows([source], url) is is_allowed


def test_tool_without_a_view_cannot_be_rendered() -> None:
    with SyncClient(shop("")) as client:
        with pytest.raises(AssertionError, match="has no view"):
            client.render_app("plain")
        with pytest.raises(AssertionError, match="not listed"):
            client.render_app("unknown")
