"""The workbench of the admin in a real browser, under a strict content security policy.

Screenshots are stored in pytest's temporary folder for review.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from django.contrib.admin.utils import quote
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.browser.accessibility import THEMES, problems
from tests.browser.chromium import TIMEOUT, Visitor, pytestmark
from tests.browser.strict_site import site, visitor
from tests.running_site import RunningSite
from tests.wire.live import SyncLiveClient
from tests.wire.messages import NEWEST_SESSION

__all__ = ["pytestmark", "site", "visitor"]

COMPONENTS = "/admin/django_mcp/component/"
CALLS = "/admin/django_mcp_calls/call/"
SESSIONS = "/admin/django_mcp/mcpsession/"
SERVER = "/admin/django_mcp/mcpserver/mcp/change/"
TOOL = f"{COMPONENTS}{quote('mcp:tool:search_tickets')}/change/"
SEE_AS = f"{COMPONENTS}see-as/?user=2&scopes=helpdesk&groups="
TOOLS_CHANGED = "notifications/tools/list_changed"
OF_DJANGO = 'id="searchbar"'
"""What axe says of Django's own search field."""


@pytest.fixture
def client(site: RunningSite) -> Iterator[SyncLiveClient]:
    """A client with a session."""
    with httpx.Client(timeout=TIMEOUT) as http:
        client = SyncLiveClient(http, site.url("/mcp"), NEWEST_SESSION)
        client.initialize()
        yield client


def tools(client: SyncLiveClient) -> set[str]:
    return {tool["name"] for tool in client.result("tools/list")["tools"]}


def search(client: SyncLiveClient) -> dict[str, Any]:
    answer: dict[str, Any] = client.post(client.call("search_tickets")).json()
    return answer


def wait_for_text(visitor: Visitor, selector: str, text: str) -> None:
    def is_there(_: object) -> bool:
        return any(text in shown for shown in visitor.texts(selector))

    WebDriverWait(visitor.driver, TIMEOUT).until(is_there)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("servers", "/admin/django_mcp/mcpserver/"),
        ("server", SERVER),
        ("components", COMPONENTS),
        ("component", TOOL),
        ("template", f"{COMPONENTS}{quote('mcp:resource_template:ticket://{pk}')}/change/"),
        ("see-as", SEE_AS),
        ("see-as-empty", f"{COMPONENTS}see-as/"),
        ("see-as-mistake", f"{COMPONENTS}see-as/?user=nobody"),
        ("sessions", SESSIONS),
        ("tasks", "/admin/django_mcp/mcptask/"),
        ("calls", CALLS),
        ("calls-of-a-user", f"{CALLS}?user=agent"),
        ("tokens", "/admin/django_mcp_tokens/personalaccesstoken/"),
        ("approvals", "/admin/django_mcp_approvals/approval/"),
        ("call-dashboard", f"{CALLS}dashboard/"),
    ],
)
def test_page_is_accessible_and_fits_in_both_themes(
    visitor: Visitor, client: SyncLiveClient, name: str, path: str
) -> None:
    search(client)
    visitor.open(path)
    assert unquote(visitor.driver.current_url).endswith(path)
    assert visitor.console_errors() == []
    for theme in THEMES:
        visitor.show_theme(theme)
        for width in (1280, 390):
            visitor.show_width(width)
            visitor.screenshot(f"{name}-{width}-{theme}")
    assert [problem for problem in problems(visitor) if OF_DJANGO not in str(problem)] == []


def test_calls_are_filtered_by_a_user_who_is_completed(
    visitor: Visitor, client: SyncLiveClient
) -> None:
    search(client)
    visitor.open(CALLS)
    visitor.one(".mcp-filters > summary").click()
    visitor.one(".mcp-text-filter .select2-selection").click()
    visitor.one(".select2-search__field").send_keys("adm")
    wait_for_text(visitor, ".select2-results__option", "admin")
    visitor.one(".select2-search__field").send_keys(Keys.ENTER)
    visitor.follow(".mcp-text-filter:has(select) input[type=submit]")
    assert visitor.driver.current_url.endswith("?user=admin")
    assert visitor.texts(".select2-selection__rendered") == ["×\nadmin"]
    assert "anonymous" not in visitor.texts("#result_list .field-caller")
    assert visitor.console_errors() == []


def test_columns_of_the_list_fit_on_a_desktop(visitor: Visitor) -> None:
    visitor.open(COMPONENTS)
    assert visitor.overflow(".results") == 0
    headings = [text.lower() for text in visitor.texts("#result_list th .text") if text]
    assert headings == [
        *("server", "kind", "name", "title, uri"),
        *("app", "permission", "calls", "on"),
    ]


def test_switch_hides_a_tool_and_tells_a_connected_client(
    visitor: Visitor, client: SyncLiveClient
) -> None:
    with client.stream() as lines:
        visitor.open(TOOL)
        assert "result" in search(client)
        visitor.follow(".mcp-switch button")
        assert "Switched off by admin" in visitor.one(".mcp-switch").text
        assert any(TOOLS_CHANGED in line for line in lines)
    assert "search_tickets" not in tools(client)
    assert "Unknown tool" in search(client)["error"]["message"]
    visitor.screenshot("switched-off")

    visitor.follow(".mcp-switch button")
    assert "search_tickets" in tools(client)
    assert "result" in search(client)
    assert visitor.console_errors() == []


def test_selected_tools_are_switched_off_from_the_list(
    visitor: Visitor, client: SyncLiveClient
) -> None:
    visitor.open(f"{COMPONENTS}?q=comment")
    for action, is_listed in (("Switch off", False), ("Switch on", True)):
        visitor.one("#result_list .action-select").click()
        label = f"{action} selected components"
        Select(visitor.one("select[name=action]")).select_by_visible_text(label)
        visitor.follow("button[name=index]")
        assert ("add_comment" in tools(client)) is is_listed


def test_stream_of_an_ended_session_ends(visitor: Visitor, client: SyncLiveClient) -> None:
    with client.stream() as lines:
        visitor.open(SESSIONS)
        assert "1" in visitor.texts("#result_list .field-open_streams")
        visitor.one("#action-toggle").click()
        Select(visitor.one("select[name=action]")).select_by_visible_text("End selected sessions")
        visitor.follow("button[name=index]")
        visitor.follow("#content input[type=submit]")
        _ = [*lines]
    assert client.post(client.request("ping")).status_code == 404
    assert visitor.texts("#result_list tbody tr") == []


def test_examination_shows_what_clients_find(visitor: Visitor) -> None:
    visitor.open(SERVER)
    visitor.one("#doctor button").click()
    wait_for_text(visitor, ".mcp-heading", "This project")
    assert "PKCE with S256" in visitor.one("#doctor").text
    assert visitor.console_errors() == []
    visitor.screenshot("examined")
    assert [problem for problem in problems(visitor) if OF_DJANGO not in str(problem)] == []
