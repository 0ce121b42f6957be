"""See as: what a user is listed, and why other components are hidden."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client as Browser

from django_mcp import Server, registry
from django_mcp.pubsub import switches
from django_mcp.testing import SyncClient
from tests.admin.site import browser_of, entry_of, shop, text_of

pytestmark = pytest.mark.django_db

SEE_AS = "/admin/django_mcp/component/see-as/"
NEEDED = ("view_component", "see_as_user", "view_user")
ROW = re.compile(r"<tr>\s*<th scope=\"row\">(.*?)</tr>", re.DOTALL)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = shop()
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    return server


@pytest.fixture
def browser() -> Browser:
    return browser_of("boss", *NEEDED)


@pytest.fixture
def ann() -> Any:
    return get_user_model().objects.create_user("ann")


def key_of(name: str) -> str:
    """The key of a user, which the form sends; "" for nobody."""
    return str(get_user_model().objects.get(username=name).pk) if name else ""


def states(browser: Browser, *, user: str, **query: str) -> dict[str, str]:
    """The state and the reasons of each component, by its name."""
    page = browser.get(SEE_AS, {"user": key_of(user), **query}).content.decode()
    rows = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in ROW.findall(page)]
    return {row.partition(" ")[0]: row.partition(" ")[2] for row in rows}


def test_component_without_conditions_is_listed_to_everybody(browser: Browser, ann: Any) -> None:
    for user in ("", "ann"):
        assert states(browser, user=user)["news"] == "✓ listed resource"


def test_missing_permission_hides_and_is_named(browser: Browser, ann: Any) -> None:
    assert "does not have the permission auth.view_user" in states(browser, user="ann")["audit"]
    assert states(browser, user="ann")["audit"].startswith("✗ hidden")

    ann.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert states(browser, user="ann")["audit"].startswith("✓ listed")


def test_missing_scope_challenges_and_is_named(browser: Browser, ann: Any) -> None:
    assert states(browser, user="ann")["close"].startswith("! listed, and challenged")
    assert "A token with the scopes write" in states(browser, user="ann")["close"]
    seen = states(browser, user="ann", scopes="read")
    assert "The token does not have the scopes write" in seen["close"]
    assert states(browser, user="ann", scopes="write")["close"].startswith("✓ listed")


def test_group_that_the_connection_does_not_select_is_named(browser: Browser, ann: Any) -> None:
    seen = states(browser, user="ann", groups="counter")
    assert seen["stock"].startswith("✓ listed")
    assert seen["order"].startswith("✗ hidden")
    assert "its group is office" in seen["order"]


def test_permission_is_asked_at_the_tenant_of_the_page(
    browser: Browser, ann: Any, server: Server, settings: Any
) -> None:
    @server.tool(permission=lambda frame: frame.principal.tenant == "one")
    def of_tenant() -> str:
        """Work for one tenant."""
        return "done"

    assert states(browser, user="ann")["of_tenant"].startswith("✗ hidden")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TENANT": f"{__name__}.first_tenant"}
    assert states(browser, user="ann")["of_tenant"].startswith("✓ listed")


def first_tenant(request: Any) -> str:
    return "one"


def test_component_that_is_switched_off_is_hidden_from_everybody(
    browser: Browser, server: Server
) -> None:
    switches.switch_off([entry_of(server, "stock")], by="boss")
    assert states(browser, user="boss")["stock"].startswith("✗ hidden It is switched off.")


def test_deactivated_user_is_said_to_be(browser: Browser, ann: Any) -> None:
    ann.is_active = False
    ann.save()
    assert "deactivated" in text_of(browser.get(SEE_AS, {"user": key_of("ann")}))


def test_lists_are_those_that_the_user_gets(browser: Browser, ann: Any, server: Server) -> None:
    seen = states(browser, user="ann", scopes="office")
    listed = {name for name, state in seen.items() if "hidden" not in state}
    with SyncClient(server, user=ann, scopes={"office"}) as client:
        tools = {tool["name"] for tool in client.list_tools()}
    assert listed - {"news", "greet"} == tools


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"user": "0"}, "There is no such user."),
        ({"user": "nobody"}, "There is no such user."),
        ({"user": "", "scopes": 'a"b'}, "scope"),
        ({"user": "", "groups": ","}, "groups names no group"),
        ({"user": "", "groups": ",".join(f"g{n}" for n in range(65))}, "at most 64 groups"),
    ],
)
def test_mistake_in_the_form_is_said_at_its_field(
    browser: Browser, query: dict[str, str], error: str
) -> None:
    response = browser.get(SEE_AS, query)
    assert error in text_of(response)
    assert b"<tbody>" not in response.content


def test_user_is_found_by_autocompletion(browser: Browser, ann: Any) -> None:
    page = browser.get(SEE_AS).content.decode()
    url = html.unescape(re.search(r'data-ajax--url="([^"]+)"', page)[1])  # type: ignore[index]
    names = re.findall(r'data-(?:app-label|model-name|field-name)="([^"]+)"', page)
    keys = ("app_label", "model_name", "field_name")
    query = {**dict(zip(keys, names, strict=True)), "term": "an"}
    assert browser.get(url, query).json()["results"] == [{"id": key_of("ann"), "text": "ann"}]


def test_user_is_named_where_nobody_searches_users(
    browser: Browser, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin.site.get_model_admin(get_user_model()), "search_fields", ())
    assert "ann is listed" in text_of(browser.get(SEE_AS, {"user": "ann"}))


@pytest.mark.parametrize("missing", NEEDED)
def test_each_of_three_permissions_is_needed(missing: str) -> None:
    browser = browser_of("other", *(name for name in NEEDED if name != missing))
    assert browser.get(SEE_AS, {"user": "other"}).status_code == 403
    assert b"See as" not in browser.get("/admin/django_mcp/component/").content
