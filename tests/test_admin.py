"""The admin: components, which have no table and a switch, and sessions, without their secrets."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from django_mcp import CacheHint, Server, registry, stores
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.frame.session import Session
from django_mcp.core.protocol.content import Icon
from django_mcp.models import McpSession, SwitchedOff
from django_mcp.runtime import pools
from tests.spec import spec

pytestmark = pytest.mark.django_db

COMPONENTS = "/admin/django_mcp/component/"
SESSIONS = "/admin/django_mcp/mcpsession/"
CELLS = re.compile(r'<t[dh] class="field-(\w+)[^"]*">(.*?)</t[dh]>', re.DOTALL)
ROWS = re.compile(r"<tr>(?=<t[dh] class=\"(?:action-checkbox|field))(.*?)</tr>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> Server:
    """Two servers with a component of each kind."""
    shop, till = (
        Server("shop", authenticators=[AnonymousAuthentication()]),
        Server("till", authenticators=[AnonymousAuthentication()]),
    )

    @shop.tool(
        title="What is in stock",
        permission="auth.view_user",
        scopes={"stock", "read"},
        cache=CacheHint(5000, "public"),
        read_only=True,
        meta={"shop/shelf": "</pre><script>alert(1)</script>"},
        icons=[Icon("https://site.example/shelf.png")],
    )
    def stock(item: str = "<b>tea</b>") -> dict[str, int]:
        """How many there are, <em>now</em>."""
        return {item: 1}

    @shop.resource("shop://item/{number}", mime_type="text/markdown")
    def item(number: int) -> str:
        """One item."""
        return str(number)

    @shop.resource("shop://all", description=lambda: "As of today")
    def everything() -> str:
        return ""

    @till.prompt
    def haggle(wares: str) -> str:
        """Haggle."""
        return wares

    @till.tool(title="Add up", permission=lambda frame: True)
    def add_up() -> int:
        """Add up."""
        return 0

    monkeypatch.setattr(registry.registered, "servers", {"shop": shop, "till": till})
    return shop


@pytest.fixture
def staff() -> User:
    """A user who may open the admin, and nothing else."""
    user: User = get_user_model().objects.create_user("staff", is_staff=True)
    return user


@pytest.fixture
def browser(staff: User) -> Browser:
    """The browser of a user who may view components and sessions."""
    return browser_of(staff, "view_component", "view_mcpsession")


def browser_of(user: User, *permissions: str) -> Browser:
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Browser()
    browser.force_login(user)
    return browser


def page(browser: Browser, address: str) -> str:
    response = browser.get(address)
    assert response.status_code == 200, response
    return response.content.decode().replace("<wbr>", "")


def rows(html: str) -> list[dict[str, str]]:
    """The rows of the result list as lists of cells, without markup."""
    return [
        {name: unescape(TAG.sub("", cell)).strip() for name, cell in CELLS.findall(row)}
        for row in ROWS.findall(html)
    ]


def names(html: str) -> list[str]:
    return [row["name"] for row in rows(html)]


def detail(identity: str) -> str:
    return f"{COMPONENTS}{quote(identity)}/change/"


# The list of components.


def test_components_are_listed_with_server_kind_name_and_permission(browser: Browser) -> None:
    listed = rows(page(browser, COMPONENTS))
    assert [(row["server"], row["kind"], row["name"]) for row in listed] == [
        ("shop", "tool", "stock"),
        ("shop", "resource", "everything"),
        ("shop", "resource template", "item"),
        ("till", "tool", "add_up"),
        ("till", "prompt", "haggle"),
    ]
    assert listed[0]["title_and_uri"] == "What is in stock"
    assert listed[0]["permission_name"] == "auth.view_user"
    assert listed[1]["permission_name"] == "-"
    assert "<lambda>()" in listed[3]["permission_name"]


def test_app_column_names_the_app_that_registered_the_component(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.registered, "servers", {"mcp": registry.default})
    apps = {row["name"]: row["app_name"] for row in rows(page(browser, COMPONENTS))}
    assert apps["search_tickets"] == "helpdesk"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("server=till", ["add_up", "haggle"]),
        ("kind=tool", ["stock", "add_up"]),
        ("kind=tool&server=shop", ["stock"]),
        ("kind=resource+template", ["item"]),
        ("app=", ["stock", "everything", "item", "add_up", "haggle"]),
        ("app=helpdesk", []),
        ("q=STOCK", ["stock"]),
        ("q=how+many", ["stock"]),
        ("q=many+haggle", []),
        ("q=shop%3A%2F%2F", ["everything", "item"]),
        ("q=a&kind=prompt", ["haggle"]),
        ("o=1", ["haggle", "everything", "item", "stock", "add_up"]),
        ("o=-2", ["stock", "item", "haggle", "everything", "add_up"]),
        ("o=-0.2", ["add_up", "haggle", "everything", "item", "stock"]),
        ("o=99.x", ["stock", "everything", "item", "add_up", "haggle"]),
    ],
)
def test_component_list_is_filtered_searched_and_sorted(
    browser: Browser, query: str, found: list[str]
) -> None:
    assert names(page(browser, f"{COMPONENTS}?{query}")) == found


def test_component_list_shows_result_counts(browser: Browser) -> None:
    html = page(browser, f"{COMPONENTS}?kind=tool&q=stock")
    assert "1 result" in html
    assert "5 total" in html
    assert "Clear all filters" in html


def test_unknown_filter_redirects_with_an_error(browser: Browser) -> None:
    response = browser.get(f"{COMPONENTS}?name=stock")
    assert response.status_code == 302
    assert response.headers["Location"] == f"{COMPONENTS}?e=1"
    assert names(page(browser, f"{COMPONENTS}?e=1"))


def test_long_component_list_is_paginated(browser: Browser, shop: Server) -> None:
    for number in range(120):
        shop.tool(name=f"tool_{number:03}")(lambda: None)
    first, second = page(browser, COMPONENTS), page(browser, f"{COMPONENTS}?p=2")
    assert len(rows(first)) == 100
    assert names(second)[-1] == "haggle"
    assert len(rows(page(browser, f"{COMPONENTS}?all="))) == 125
    assert browser.get(f"{COMPONENTS}?p=99").status_code == 302


def test_component_list_does_not_evaluate_descriptions(browser: Browser, shop: Server) -> None:
    def explode() -> str:
        raise AssertionError("called")

    shop.tool(name="lazy", description=explode)(lambda: None)
    assert "lazy" in names(page(browser, COMPONENTS))
    assert names(page(browser, f"{COMPONENTS}?q=lazy")) == ["lazy"]


# The page of a component.


def test_component_page_shows_all_details(browser: Browser) -> None:
    html = unescape(page(browser, detail("shop:tool:stock")))
    assert "<h1>stock</h1>" in html
    assert '>{\n  "type": "object",\n  "properties": {\n    "item": {' in html
    assert '"additionalProperties": {\n    "type": "integer"' in html
    assert '"readOnlyHint": true' in html
    assert "https://site.example/shelf.png" in html
    assert "read, stock" in html
    assert "5000 ms, public" in html
    assert f"{__name__}:" in html


@pytest.mark.parametrize(
    ("identity", "shown", "missing"),
    [
        ("shop:resource:shop://all", ["shop://all", "As of today"], ["Input schema", "template:"]),
        (
            "shop:resource_template:shop://item/{number}",
            ["shop://item/{number}", "text/markdown"],
            ["Input schema"],
        ),
        ("till:prompt:haggle", ["Arguments", '"required": true'], ["Input schema"]),
    ],
)
def test_component_page_shows_the_fields_of_its_kind(
    browser: Browser, identity: str, shown: list[str], missing: list[str]
) -> None:
    html = unescape(page(browser, detail(identity)))
    assert [text for text in shown if text not in html] == []
    assert [text for text in missing if text in html] == []


def test_content_written_by_authors_is_escaped(browser: Browser) -> None:
    html = page(browser, detail("shop:tool:stock"))
    assert "&lt;em&gt;now&lt;/em&gt;" in html
    assert "&lt;b&gt;tea" in html
    assert "<script>alert" not in html


def test_unknown_component_redirects_to_the_index(browser: Browser) -> None:
    response = browser.get(detail("shop:tool:nothing"), follow=True)
    assert response.redirect_chain[-1][0] == "/admin/"
    assert "exist" in response.content.decode()


# Permissions.


@pytest.mark.parametrize("address", [COMPONENTS, detail("shop:tool:stock"), SESSIONS])
def test_admin_pages_need_a_view_permission(staff: User, address: str) -> None:
    assert browser_of(staff).get(address).status_code == 403
    assert Browser().get(address).status_code == 302


def test_index_lists_only_viewable_models(staff: User) -> None:
    html = page(browser_of(staff, "view_component"), "/admin/")
    assert COMPONENTS in html
    assert SESSIONS not in html


def test_components_are_read_only(admin_client: Browser) -> None:
    stock = detail("shop:tool:stock")
    assert admin_client.get(f"{COMPONENTS}add/").status_code == 403
    assert admin_client.post(stock, {"name": "other"}).status_code == 403
    assert admin_client.get(stock.replace("change", "delete")).status_code == 403
    html = page(admin_client, COMPONENTS) + page(admin_client, stock)
    doors = ("component/add/", "delete/", 'name="_save"')
    assert [door for door in doors if door in html] == []


def test_component_pages_use_no_component_table(browser: Browser) -> None:
    assert "django_mcp_component" not in connection.introspection.table_names()
    with CaptureQueriesContext(connection) as queries:
        page(browser, f"{COMPONENTS}?kind=tool&q=a&o=1")
        page(browser, detail("shop:tool:stock"))
    selects = [query["sql"] for query in queries if "mcp_component" in query["sql"]]
    assert selects == []


# The switch.


@pytest.fixture
def operator(staff: User) -> Browser:
    """The browser of a user who may view components and switch them."""
    return browser_of(staff, "view_component", "change_component")


def switch(browser: Browser, identity: str, to: str) -> Any:
    address = f"{COMPONENTS}{quote(identity)}/switch/"
    return browser.post(address, {"switch": to}, follow=True)


@pytest.mark.django_db(transaction=True)
def test_component_is_switched_off_and_on_from_its_page(operator: Browser, shop: Server) -> None:
    switched = switch(operator, "shop:tool:stock", "off").content.decode()
    assert shop.components.find("tool", "stock") is None
    assert "no client can list or use it" in switched
    assert "by staff" in switched
    assert "Switched off." in page(operator, detail("shop:tool:stock").replace("change", "history"))

    switch(operator, "shop:tool:stock", "on")
    assert shop.components.find("tool", "stock") is not None


@pytest.mark.django_db(transaction=True)
def test_selected_components_are_switched_off_and_found_by_the_filter(
    operator: Browser, shop: Server
) -> None:
    chosen = ["shop:tool:stock", "shop:resource_template:shop://item/{number}"]
    operator.post(COMPONENTS, {"action": "switch_off", "_selected_action": chosen})
    assert shop.components.find("tool", "stock") is None
    assert names(page(operator, f"{COMPONENTS}?switch=off")) == ["stock", "item"]
    assert names(page(operator, f"{COMPONENTS}?switch=on")) == ["everything", "add_up", "haggle"]

    operator.post(COMPONENTS, {"action": "switch_on", "_selected_action": chosen})
    assert names(page(operator, f"{COMPONENTS}?switch=off")) == []


@pytest.mark.parametrize("permissions", [("view_component",), ("view_mcpsession",), ()])
def test_switch_needs_the_permission_to_change(
    staff: User, permissions: tuple[str, ...], shop: Server
) -> None:
    browser = browser_of(staff, *permissions)
    assert switch(browser, "shop:tool:stock", "off").status_code == 403
    browser.post(COMPONENTS, {"action": "switch_off", "_selected_action": ["shop:tool:stock"]})
    assert not SwitchedOff.objects.exists()
    if "view_component" in permissions:
        html = page(browser, detail("shop:tool:stock")) + page(browser, COMPONENTS)
        assert "Switch off" not in html


def test_switch_of_an_unknown_component_changes_nothing(operator: Browser) -> None:
    assert switch(operator, "shop:tool:nothing", "off").status_code == 404
    assert not SwitchedOff.objects.exists()


# Sessions.


def session(number: int = 1, **members: Any) -> Session:
    made = Session(
        id=f"secret-id-{number}",
        server="shop",
        principal="django_session:70000",
        version="2025-11-25",
        **{
            "client_info": {"name": "Inspector", "version": "0.9"},
            "assigns": {"token": "secret-token"},
            **members,
        },
    )
    run_on_this_thread(stores.sessions().create, made)
    return made


def run_on_this_thread(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """The return value of a store, on the thread that sees the rows of the test."""
    with pools.thread_sensitive():
        return async_to_sync(function)(*arguments)


def test_sessions_are_listed_without_their_ids_and_assigns(browser: Browser) -> None:
    made = session()
    (listed,) = rows(html := page(browser, SESSIONS))
    assert listed["user"] == "django_session:70000"
    assert listed["server"] == "shop"
    assert listed["version"] == "2025-11-25"
    assert listed["client"] == "Inspector 0.9"
    assert listed["created_at"]
    assert listed["used_at"]
    html += page(browser, f"{SESSIONS}{made.address}/change/")
    assert "secret" not in html


def test_session_without_client_info_is_listed(browser: Browser) -> None:
    session(client_info={})
    (listed,) = rows(page(browser, SESSIONS))
    assert listed["client"] in ("", "-")


def test_an_expired_session_is_not_listed(browser: Browser) -> None:
    session()
    McpSession.objects.update(used_at=timezone.now() - timedelta(days=1))
    assert rows(page(browser, SESSIONS)) == []


def test_session_admin_is_hidden_if_sessions_are_not_in_the_database(
    browser: Browser, settings: Settings
) -> None:
    backend = {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"}
    settings.DJANGO_MCP = {"STORES": {"sessions": backend}}
    html = page(browser, "/admin/")
    assert SESSIONS not in html
    assert COMPONENTS in html


def end(browser: Browser, *sessions: Session) -> Any:
    chosen = {
        "action": "delete_selected",
        "_selected_action": [made.address for made in sessions],
    }
    page = browser.post(SESSIONS, chosen).content.decode()
    assert "Are you sure" in page
    return browser.post(SESSIONS, {**chosen, "post": "yes"}, follow=True)


@spec("T-HTTP-65")
def test_selected_sessions_are_deleted_after_confirmation(staff: User) -> None:
    ended, other = session(1), session(2)
    run_on_this_thread(stores.events().append, ended.address, "stream", ["{}"])
    browser = browser_of(staff, "view_mcpsession", "delete_mcpsession")
    assert "End selected sessions" in page(browser, SESSIONS)
    assert end(browser, ended).status_code == 200
    assert run_on_this_thread(stores.sessions().load, ended.id) is None
    assert run_on_this_thread(stores.sessions().load, other.id) == other
    assert run_on_this_thread(stores.events().after, ended.address, "stream", 0) is None


def test_single_session_is_deleted_from_its_page(staff: User) -> None:
    made = session()
    browser = browser_of(staff, "view_mcpsession", "delete_mcpsession")
    browser.post(f"{SESSIONS}{made.address}/delete/", {"post": "yes"})
    assert run_on_this_thread(stores.sessions().load, made.id) is None


def test_session_deletion_needs_a_permission(browser: Browser) -> None:
    made = session()
    assert "End selected sessions" not in page(browser, SESSIONS)
    assert browser.post(f"{SESSIONS}{made.address}/delete/", {"post": "yes"}).status_code == 403
    browser.post(SESSIONS, {"action": "delete_selected", "_selected_action": [made.address]})
    assert run_on_this_thread(stores.sessions().load, made.id) is not None
