"""Views of tools: what is listed, negotiated and read, and what a result shows."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template import engines
from django.utils import translation
from pytest_django import Settings

from django_mcp import CacheHint, ConfigurationError, Frame, Server, ToolError, registry
from django_mcp.core.components.resource import ResourceComponent
from django_mcp.rest import rest_tool
from django_mcp.testing import Client, SyncClient
from django_mcp.testing.plugin import ClientFor
from django_mcp.testing.results import ErrorResponse
from django_mcp.ui import claude_domain, renders_apps, template_view
from django_mcp.ui.base import FRAGMENT, Policy
from django_mcp.ui.mcp_apps.metadata import MIME_TYPE
from django_mcp.ui.views import TemplateView
from tests.memory_stores import Configure
from tests.rest import api
from tests.spec import spec
from tests.ui.conftest import HOST, Templates
from tests.wire.stdio import StdioClient

pytestmark = pytest.mark.django_db

CART = "<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>{{ on|date:'j F' }}"
SCRIPT = "<script>alert(1)</script>"


@dataclass
class Cart:
    lines: list[str]
    on: date = date(2026, 7, 28)


def cart_server(server: Server, templates: Templates, **options: Any) -> Server:
    templates({"shop/mcp/_cart.html": CART})
    view = template_view(fragment="shop/mcp/_cart.html", **options)

    @server.tool(ui=view, read_only=True)
    def show_cart(lines: list[str]) -> Cart:
        return Cart(lines)

    @server.tool(ui=view, app_only=True, permission="helpdesk.change_ticket")
    def set_quantity(quantity: int) -> Cart:
        return Cart([str(quantity)])

    return server


async def test_tool_with_a_view_is_listed_under_every_name_that_hosts_read(
    server: Server, templates: Templates, client_for: ClientFor, mcp_version: str
) -> None:
    client = client_for(cart_server(server, templates))

    (tool,) = await client.list_tools()
    (page,) = await client.list_resources()

    uri = tool["_meta"]["ui"]["resourceUri"]
    assert uri.startswith("ui://shop/cart/")
    assert tool["_meta"]["ui"]["visibility"] == ["model", "app"]
    assert tool["_meta"]["ui/resourceUri"] == tool["_meta"]["openai/outputTemplate"] == uri
    assert (page["uri"], page["mimeType"]) == (uri, MIME_TYPE)


async def test_extension_is_declared_by_a_server_with_views_alone(
    server: Server, templates: Templates, client_for: ClientFor, mcp_version: str
) -> None:
    without = Server("none", authenticators=server.authenticators)
    without.tool(name="nothing")(lambda: None)

    assert await extensions(client_for(without)) == {}
    declared = await extensions(client_for(cart_server(server, templates)))
    assert declared == {"io.modelcontextprotocol/ui": {}}


async def test_extension_is_declared_before_a_rest_view_becomes_its_tool(
    server: Server, client_for: ClientFor, mcp_version: str, settings: Settings
) -> None:
    settings.ROOT_URLCONF = "tests.rest.urls"
    rest_tool(api.Caller, server=server, ui=template_view(fragment="a.html"))

    client = client_for(server)
    await client.open()
    opened = client.initialize_result or await client.request("server/discover")

    assert opened["capabilities"]["extensions"] == {"io.modelcontextprotocol/ui": {}}
    assert "resources" in opened["capabilities"]
    assert server.components.has_deferred


async def extensions(client: Client) -> dict[str, Any]:
    await client.open()
    opened = client.initialize_result or await client.request("server/discover")
    declared: dict[str, Any] = opened["capabilities"].get("extensions", {})
    return declared


@pytest.mark.parametrize(("capabilities", "expected"), [(HOST, True), ({}, False)])
async def test_handler_learns_whether_the_client_renders_views(
    server: Server,
    client_for: ClientFor,
    mcp_version: str,
    capabilities: dict[str, Any],
    expected: bool,
) -> None:
    @server.tool
    def renders(frame: Frame) -> str:
        return str(renders_apps(frame))

    client = client_for(server, capabilities=capabilities)

    assert (await client.call_tool("renders")).text == str(expected)


@pytest.mark.parametrize("extension", [None, [], {"mimeTypes": "x"}, {"mimeTypes": ["text/html"]}])
def test_malformed_extension_renders_nothing(server: Server, extension: Any) -> None:
    @server.tool
    def renders(frame: Frame) -> str:
        return str(renders_apps(frame))

    capabilities = {"extensions": {"io.modelcontextprotocol/ui": extension}}
    client = SyncClient(server, capabilities=capabilities, version="2025-11-25")

    assert client.call_tool("renders").text == "False"


async def test_page_is_read_with_its_policy(
    server: Server, templates: Templates, client_for: ClientFor, mcp_version: str
) -> None:
    cart_server(
        server,
        templates,
        csp={"connect": ["https://api.example.com"], "resource": "https://*.example.net"},
        permissions=["clipboard_write"],
        prefers_border=True,
    )
    client = client_for(server)
    (listed,) = await client.list_resources()

    (page,) = (await client.read_resource(listed["uri"]))["contents"]

    assert page["text"].startswith("<!doctype html>")
    assert "<main data-mcp-fragment>" in page["text"]
    assert page["_meta"]["ui"] == {
        "csp": {
            "connectDomains": ["https://api.example.com"],
            "resourceDomains": ["https://*.example.net"],
        },
        "permissions": {"clipboardWrite": {}},
        "prefersBorder": True,
    }
    assert listed["_meta"] == page["_meta"]
    assert page["_meta"]["openai/widgetCSP"] == {
        "connect_domains": ["https://api.example.com"],
        "resource_domains": ["https://*.example.net"],
    }


def test_uri_changes_with_the_page_and_older_ones_stay_readable(
    server: Server, templates: Templates
) -> None:
    sources = {"shop/mcp/cart.html": "<!doctype html>One"}
    templates(sources)
    server.tool(ui=template_view("shop/mcp/cart.html"), name="cart")(lambda: None)
    client = SyncClient(server)
    (older,) = client.list_resources()

    templates({"shop/mcp/cart.html": "<!doctype html>Two"})
    server.components.clear_descriptors()
    (newer,) = client.list_resources()

    assert older["uri"] != newer["uri"]
    for uri in (older["uri"], newer["uri"], "ui://shop/cart"):
        (page,) = client.read_resource(uri)["contents"]
        assert (page["uri"], page["text"]) == (uri, "<!doctype html>Two")
    with pytest.raises(ErrorResponse):
        client.read_resource("ui://shop/cart/other")


def test_page_is_in_the_language_of_the_request(
    server: Server, templates: Templates, settings: Settings
) -> None:
    settings.LANGUAGE_CODE = "en"
    page = "{% load i18n %}{% translate 'Yes' %}"
    templates({"shop/mcp/cart.html": page})
    view = template_view("shop/mcp/cart.html")
    server.tool(ui=view, name="cart")(lambda: None)

    with translation.override("de"):
        client = SyncClient(server, headers={"Accept-Language": "de"}, transport="http")
        (german,) = client.read_resource("ui://shop/cart")["contents"]
    with translation.override("en"):
        assert view.page() == "Yes"

    assert german["text"] == "Ja"


def test_uri_changes_with_the_page_in_any_language_of_the_site(
    server: Server, templates: Templates, settings: Settings
) -> None:
    settings.LANGUAGE_CODE = "en"
    settings.LANGUAGES = [("en", "English"), ("de", "German")]
    page = (
        "{%% load i18n %%}{%% get_current_language as code %%}{%% if code == '%s' %%}x{%% endif %%}"
    )
    view = template_view("shop/mcp/cart.html")

    uris = []
    for language in ("en", "de", "fr"):
        templates({"shop/mcp/cart.html": page % language})
        uris.append(view.listed_uri)

    assert len({*uris}) == 3
    # As another worker lists it.
    assert uris[2] == template_view("shop/mcp/cart.html").listed_uri


async def test_page_under_the_hash_of_another_page_is_not_kept(
    server: Server, templates: Templates
) -> None:
    """As a worker answers that is older than the one that has listed the view."""
    server.cache = CacheHint(ttl_ms=5000)
    async with Client(cart_server(server, templates)) as client:
        (page,) = await client.list_resources()
        uri = page["uri"]
        (component,) = server.components.of_kind("resource")
        assert isinstance(component, ResourceComponent)
        assert component.versions is not None
        assert component.versions.listed_uri == uri
        other = f"{uri.rpartition('/')[0]}/{'0' * 12}"
        hints = {}
        for read in (uri, other):
            result = await client.request("resources/read", {"uri": read})
            assert "<ul>" not in result["contents"][0]["text"]
            hints[read] = result["ttlMs"], result["cacheScope"]
    assert hints[uri] == (5000, "private")
    assert hints[other] == (0, "private")


def test_pages_are_kept_in_the_languages_of_the_site_alone(
    templates: Templates, settings: Settings
) -> None:
    templates({"a.html": "{% now 'Y' %}"})
    rendered: list[str] = []

    class Counted(TemplateView):
        def context(self) -> dict[str, Any]:
            rendered.append(translation.get_language() or "")
            return {}

    view = Counted("a.html", uri="ui://a", fragment=None, title=None, policy=Policy({}))

    def read_twice() -> list[str]:
        rendered.clear()
        for _ in range(2):
            for code in ("en-gb", "de", "fr"):
                with translation.override(code):
                    view.page()
        return sorted(rendered)

    settings.LANGUAGE_CODE = "en-gb"
    assert read_twice() == ["de", "de", "en-gb", "fr", "fr"]
    settings.LANGUAGES = [("de", "German")]
    assert read_twice() == ["de", "en-gb", "fr", "fr"]


def test_uri_follows_the_template_while_a_site_is_developed(
    server: Server, tmp_path: Path, settings: Settings
) -> None:
    settings.DEBUG = True
    settings.TEMPLATES = [
        {"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [tmp_path]}
    ]
    uris = []
    client = SyncClient(server)
    server.tool(ui=template_view("cart.html"), name="cart")(lambda: None)
    engine: Any = engines["django"]
    for text in ("One", "Two"):
        (tmp_path / "cart.html").write_text(text)
        engine.engine.template_loaders[0].reset()
        (tool,) = client.list_tools()
        (page,) = client.list_resources()
        assert page["uri"] == tool["_meta"]["ui"]["resourceUri"]
        uris.append(page["uri"])

    assert uris[0] != uris[1]


async def test_fragment_shows_the_value_that_the_tool_returned(
    server: Server, templates: Templates, client_for: ClientFor, mcp_version: str
) -> None:
    client = client_for(cart_server(server, templates))

    result = await client.call_tool("show_cart", {"lines": ["Tea"]})

    assert result["_meta"][FRAGMENT] == "<ul><li>Tea</li></ul>28 July"
    assert "Tea" in result.text


@spec("apps-01")
def test_values_and_arguments_are_escaped_in_a_fragment(
    server: Server, templates: Templates
) -> None:
    templates({"shop/mcp/_echo.html": "<p title='{{ arguments.text }}'>{{ text }}{{ result }}</p>"})

    @server.tool(ui=template_view(fragment="shop/mcp/_echo.html"))
    def echo(text: str) -> dict[str, str]:
        return {"text": text}

    result = SyncClient(server).call_tool("echo", {"text": f"'>{SCRIPT}"})

    assert "<script" not in result["_meta"][FRAGMENT]
    assert result["_meta"][FRAGMENT].count("'") == 2


def test_fragment_counts_for_the_largest_result(
    server: Server, templates: Templates, configure: Configure
) -> None:
    configure(MAX_RESULT_SIZE=10_000)
    templates(
        {"shop/mcp/_cart.html": "{% for line in lines %}<p class='long'>{{ line }}{% endfor %}"}
    )

    @server.tool(ui=template_view(fragment="shop/mcp/_cart.html"))
    def show_cart(count: int) -> dict[str, list[int]]:
        return {"lines": [1] * count}

    client = SyncClient(server)

    assert FRAGMENT in client.call_tool("show_cart", {"count": 100})["_meta"]
    assert "Ask for less" in client.call_tool("show_cart", {"count": 1000}).text


def test_fragment_of_an_error_is_not_rendered(server: Server, templates: Templates) -> None:
    templates({"shop/mcp/_cart.html": CART})

    @server.tool(ui=template_view(fragment="shop/mcp/_cart.html"))
    def show_cart() -> None:
        raise ToolError("There is no cart")

    result = SyncClient(server).call_tool("show_cart")

    assert result.is_error
    assert FRAGMENT not in result.get("_meta", {})


@spec("apps-07")
def test_app_only_tool_needs_its_permission_like_any_other(
    server: Server, templates: Templates
) -> None:
    cart_server(server, templates)
    boss = User.objects.create_superuser("boss")

    (tool,) = [it for it in SyncClient(server, user=boss).list_tools() if it["name"] != "show_cart"]
    with pytest.raises(ErrorResponse, match="Unknown tool"):
        SyncClient(server).call_tool("set_quantity", {"quantity": 2})

    assert tool["_meta"]["ui"]["visibility"] == ["app"]
    assert tool["_meta"]["openai/visibility"] == "private"
    allowed = SyncClient(server, user=boss).call_tool("set_quantity", {"quantity": 2})
    assert allowed["_meta"][FRAGMENT].startswith("<ul><li>2</li>")


@spec("apps-08")
def test_model_reaches_no_app_only_tool_through_the_search(templates: Templates) -> None:
    server = Server("large", tool_search=True)
    templates({"a.html": "<!doctype html>"})
    called = []
    server.tool(app_only=True, name="set_quantity")(lambda: called.append(1))
    server.tool(ui=template_view("a.html"), name="show_cart")(lambda: None)
    server.tool(name="other_quantity")(lambda: None)
    client = SyncClient(server)

    listed = [tool["name"] for tool in client.list_tools()]
    matches = client.call_tool("find_tools", {"query": "quantity"}).structured["tools"]
    with pytest.raises(ErrorResponse, match="Unknown tool"):
        client.call_tool("call_tool", {"name": "set_quantity"})

    assert {"set_quantity", "show_cart"} <= {*listed}
    assert [tool["name"] for tool in matches] == ["other_quantity"]
    assert called == []


async def test_model_reaches_no_app_only_tool_in_a_session_that_is_read_again() -> None:
    server = Server("large", tool_search=True, serialize_requests=True)
    called = []
    server.tool(app_only=True, name="set_quantity")(lambda: called.append(1))
    registry.configure(server)

    async with Client(server, version="2025-11-25") as client:
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            await client.call_tool("call_tool", {"name": "set_quantity"})
    # This client does not say that it is ready.
    stdio = StdioClient(server, "2025-11-25")
    async with stdio.served():
        stdio.send(stdio.initialize_request())
        await stdio.message()
        stdio.send(stdio.call("call_tool", name="set_quantity"))
        answer = await stdio.message()

    assert answer["error"]["message"] == "Unknown tool: set_quantity"
    assert called == []


def test_page_is_for_those_who_may_use_one_of_its_tools(
    server: Server, templates: Templates
) -> None:
    templates({"shop/mcp/cart.html": "<!doctype html>"})
    view = template_view("shop/mcp/cart.html")
    server.tool(ui=view, name="a", permission="helpdesk.change_ticket")(lambda: None)
    server.tool(ui=view, name="b", permission="staff_member")(lambda: None)

    async def is_clerk(frame: Frame) -> bool:
        return frame.user is not None and frame.user.get_username() == "clerk"

    server.tool(ui=view, name="c", permission=is_clerk)(lambda: None)
    staff = User.objects.create_user("staff", is_staff=True)
    clerk = User.objects.create_user("clerk")
    other = User.objects.create_user("other")

    for user in (staff, clerk):
        assert SyncClient(server, user=user).read_resource("ui://shop/cart")["contents"]
    with pytest.raises(ErrorResponse):
        SyncClient(server, user=other).read_resource("ui://shop/cart")


def test_permission_that_raises_refuses_the_page_to_nobody_else(
    server: Server, templates: Templates
) -> None:
    templates({"shop/mcp/cart.html": "<!doctype html>"})
    view = template_view("shop/mcp/cart.html")

    def is_manager(frame: Frame) -> bool:
        raise LookupError("The user has no profile")

    async def is_owner(frame: Frame) -> bool:
        raise LookupError("The user has no shop")

    async def is_clerk(frame: Frame) -> bool:
        return frame.user is not None and frame.user.get_username() == "clerk"

    server.tool(ui=view, name="a", permission=is_manager)(lambda: None)
    server.tool(ui=view, name="b", permission="staff_member")(lambda: None)
    server.tool(ui=view, name="c", permission=is_owner)(lambda: None)
    server.tool(ui=view, name="d", permission=is_clerk)(lambda: None)
    staff = User.objects.create_user("staff", is_staff=True)
    clerk = User.objects.create_user("clerk")
    other = User.objects.create_user("other")

    for user in (staff, clerk):
        assert SyncClient(server, user=user).read_resource("ui://shop/cart")["contents"]
    with pytest.raises(ErrorResponse):
        SyncClient(server, user=other).read_resource("ui://shop/cart")


def test_page_of_a_public_tool_is_for_everybody(server: Server, templates: Templates) -> None:
    cart_server(server, templates)

    assert SyncClient(server).read_resource("ui://shop/cart")["contents"]


@spec("apps-10")
def test_page_of_another_server_is_unknown(server: Server, templates: Templates) -> None:
    cart_server(server, templates)
    other = Server("other")
    templates({"other/mcp/page.html": "<!doctype html>", "shop/mcp/_cart.html": CART})
    other.tool(ui=template_view("other/mcp/page.html"), name="other")(lambda: None)

    with pytest.raises(ErrorResponse):
        SyncClient(other).read_resource("ui://shop/cart")


def test_page_that_cannot_be_rendered_leaves_the_list_whole(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.tool(ui=template_view("missing.html"), name="cart")(lambda: None)
    server.tool(name="other")(lambda: None)

    tools = SyncClient(server).list_tools()

    assert tools[0]["_meta"]["ui"]["resourceUri"] == "ui://missing"
    assert "The view ui://missing cannot be rendered" in caplog.text


def test_two_views_at_one_uri_are_refused(server: Server) -> None:
    server.tool(ui=template_view("shop/mcp/cart.html"), name="a")(lambda: None)

    with pytest.raises(ConfigurationError, match="another one there"):
        server.tool(ui=template_view("shop/mcp/cart.html"), name="b")(lambda: None)


def test_domain_is_that_of_the_host(server: Server, templates: Templates) -> None:
    of_claude = claude_domain("https://shop.example.com/mcp")
    cart_server(
        server,
        templates,
        domain={"django-mcp-test": "https://shop.example.com", "claude": of_claude},
    )

    (page,) = SyncClient(server).read_resource("ui://shop/cart")["contents"]
    (listed,) = SyncClient(server).list_resources()

    assert page["_meta"]["ui"]["domain"] == "https://shop.example.com"
    assert page["_meta"]["openai/widgetDomain"] == "https://shop.example.com"
    assert "_meta" not in listed
    assert of_claude.endswith(".claudemcpcontent.com")
    assert len(of_claude.partition(".")[0]) == 32


@spec("apps-11")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"csp": {"connect": ["https://a.example; script-src *"]}}, "the origin"),
        ({"csp": {"connect": ["https://a.example/path"]}}, "the origin"),
        ({"csp": {"connect": ["*"]}}, "the origin"),
        ({"csp": {"connect": ["http://a.example"]}}, "the origin"),
        ({"csp": {"resource": ["'unsafe-eval'"]}}, "the origin"),
        ({"csp": {"resource": ["https://a.example\n"]}}, "the origin"),
        ({"csp": {"connectDomains": []}}, "has the key"),
        ({"permissions": ["usb"]}, "the permission 'usb'"),
        ({"domain": "a.example'"}, "The domain"),
        ({"domain": {"claude": 'a.example"'}}, "The domain"),
        ({"domain": "https://a.example/x y"}, "The domain"),
        ({"uri": "https://a.example"}, "The uri"),
        ({"uri": "ui://shop/{cart}"}, "The uri"),
    ],
)
def test_invalid_option_of_a_view_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        template_view("shop/mcp/cart.html", **options)


@pytest.mark.parametrize(
    "origin", ["https://a.example", "wss://*.a.example:8443", "http://localhost:1"]
)
def test_origin_is_accepted(origin: str) -> None:
    assert template_view("a.html", csp={"connect": origin}).policy.csp == {"connect": (origin,)}


def test_ui_is_a_view(server: Server) -> None:
    name: Any = "shop/mcp/cart.html"

    with pytest.raises(ConfigurationError, match="template_view"):
        server.tool(ui=name, name="cart")(lambda: None)


async def calls_of_a_list(server: Server) -> int:
    """The Python functions that a list of all tools calls, once its entries are encoded."""
    counts: list[int] = []
    async with Client(server, transport="http") as client:
        await client.request("tools/list")
        for _ in range(5):
            events: Counter[str] = Counter()

            def count(frame: Any, event: str, argument: Any, events: Any = events) -> None:
                events[event] += 1

            sys.setprofile(count)
            try:
                await client.request("tools/list")
            finally:
                sys.setprofile(None)
            counts.append(events["call"] + events["c_call"])
    return min(counts)


async def test_list_with_views_calls_no_more_functions_than_without() -> None:
    counts = []
    for views in (0, 50):
        server = Server("large", page_size=1000)
        for number in range(1000):
            uri = f"ui://large/{number}"
            view = template_view(fragment="a.html", uri=uri) if number < views else None
            server.tool(name=f"tool_{number}", ui=view)(lambda: None)
        counts.append(await calls_of_a_list(server))

    without, with_views = counts
    assert with_views <= without * 1.03


async def test_pages_of_old_versions_are_read_by_the_plan_of_the_page(
    server: Server, templates: Templates
) -> None:
    cart_server(server, templates)
    async with Client(server, capabilities=HOST) as client:
        page = (await client.list_resources())[0]["uri"].rpartition("/")[0]
        for version in ("0" * 12, "1" * 12):
            await client.read_resource(f"{page}/{version}")

    # Anybody may make up versions, which must not fill the memory.
    assert [key[1] for key in server.plans if key[0] == ResourceComponent.kind] == [page]
