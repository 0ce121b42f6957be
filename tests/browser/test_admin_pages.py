"""The admin pages in a real browser, on the example site served by daphne.

Screenshots are stored in pytest's temporary folder for review.
"""

from __future__ import annotations

import httpx
import pytest
from selenium.webdriver.support.ui import Select

from tests.browser.admin_site import site, visitor
from tests.browser.chromium import TIMEOUT, Visitor, needs_chromium
from tests.running_site import RunningSite

__all__ = ["site", "visitor"]

pytestmark = [pytest.mark.nightly, needs_chromium]

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "browser-test", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


def test_components_are_listed_filtered_and_shown(visitor: Visitor) -> None:
    visitor.follow("a[href='/admin/django_mcp/component/']")
    assert visitor.driver.title.startswith("Select component to view")
    assert "Components" in visitor.one(".breadcrumbs").text
    everything = visitor.texts("#result_list .field-name")
    assert {"search_tickets", "close_ticket", "summarise_ticket"} < set(everything)
    visitor.screenshot("components")

    visitor.follow("#changelist-filter a[href*='kind=tool']")
    assert set(visitor.texts("#result_list .field-kind")) == {"tool"}
    visitor.search("ticket")
    found = visitor.texts("#result_list .field-name")
    assert "search_tickets" in found
    assert len(found) < len(everything)
    visitor.follow("#result_list .column-name a")
    visitor.follow("#result_list .column-name .toggle")
    assert visitor.texts("#result_list .field-name") == sorted(found, reverse=True)
    visitor.screenshot("components-filtered")

    visitor.follow("#result_list a[href*='close_5Fticket']")
    assert visitor.driver.title.startswith("close_ticket | ")
    visitor.one(".mcp-json summary").click()
    schema = visitor.one(".mcp-json pre")
    assert schema.is_displayed()
    assert schema.text.startswith('{\n  "type": "object",\n  "properties": {\n    "number"')
    assert "helpdesk.change_ticket" in visitor.one(".mcp-columns").text
    visitor.screenshot("component")
    assert visitor.console_errors() == []


def test_component_page_is_readable_in_dark_mode_and_on_a_narrow_screen(visitor: Visitor) -> None:
    visitor.open("/admin/django_mcp/component/mcp_3Atool_3Acheck_5Fanswer_5Ftimes/change/")
    visitor.run("localStorage.theme = 'dark'")
    visitor.driver.refresh()
    visitor.one(".mcp-json summary").click()
    schema = visitor.one(".mcp-json pre")
    assert luminance(schema.value_of_css_property("color")) > 150
    visitor.screenshot("component-dark")
    visitor.run("arguments[0].prepend('a long line '.repeat(50), 'x'.repeat(500), '\\n')", schema)
    assert visitor.overflow() == visitor.overflow("pre") == 0
    visitor.driver.set_window_size(420, 900)
    assert visitor.overflow() == visitor.overflow("pre") == 0
    visitor.run("arguments[0].scrollIntoView()", schema)
    visitor.screenshot("component-narrow")
    assert visitor.console_errors() == []


def test_session_deleted_in_the_admin_is_not_found(visitor: Visitor, site: RunningSite) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    opened = httpx.post(site.url("/mcp"), json=INITIALIZE, headers=headers, timeout=TIMEOUT)
    headers["Mcp-Session-Id"] = secret = opened.headers["Mcp-Session-Id"]
    headers["MCP-Protocol-Version"] = "2025-11-25"

    visitor.open("/admin/django_mcp/mcpsession/")
    assert visitor.texts("#result_list .field-client") == ["browser-test 1"]
    assert secret not in visitor.driver.page_source
    visitor.screenshot("sessions")

    visitor.one("#result_list .action-select").click()
    Select(visitor.one("select[name=action]")).select_by_visible_text("End selected sessions")
    visitor.follow("button[name=index]")
    assert "Are you sure" in visitor.one("#content").text
    visitor.follow("#content input[type=submit]")
    assert "Successfully deleted 1 MCP session" in visitor.one(".messagelist .success").text
    assert visitor.texts("#result_list tbody tr") == []
    response = httpx.post(site.url("/mcp"), json=PING, headers=headers, timeout=TIMEOUT)
    assert response.status_code == 404
    assert visitor.console_errors() == []


def luminance(colour: str) -> float:
    """The brightness of a CSS colour such as ``rgba(10, 20, 30, 1)``, from 0 to 255."""
    red, green, blue = map(int, colour.partition("(")[2].split(",")[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
