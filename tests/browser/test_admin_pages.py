"""The admin pages in a real browser, on the example site served by daphne.

Screenshots are stored in pytest's temporary folder for review.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.running_site import RunningSite, running_site

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)",
)

FLAGS = (
    "--headless",
    "--no-sandbox",  # Chromium refuses to run as root without it.
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1500,1000",
)
TIMEOUT = 20.0

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


class Visitor:
    """A user of the admin of a running site."""

    def __init__(self, driver: webdriver.Chrome, site: RunningSite, screenshots: Path) -> None:
        self.driver = driver
        self.site = site
        self._screenshots = screenshots

    def open(self, path: str) -> None:
        self.driver.get(self.site.url(path))

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def follow(self, selector: str) -> None:
        """Click on a link, and wait for the next page."""
        self._leave(self.one(selector).click)

    def search(self, text: str) -> None:
        self._leave(partial(self.one("#searchbar").send_keys, text, Keys.ENTER))

    def _leave(self, go: Callable[[], None]) -> None:
        here = self.one("html")
        go()
        WebDriverWait(self.driver, TIMEOUT).until(staleness_of(here))

    def log_in(self, name: str, password: str) -> None:
        self.open("/admin/login/?next=/admin/")
        self.one("#id_username").send_keys(name)
        self.one("#id_password").send_keys(password)
        self.follow("input[type=submit]")

    def screenshot(self, name: str) -> None:
        assert self.driver.save_screenshot(str(self._screenshots / f"{name}.png"))

    def console_errors(self) -> list[str]:
        """The errors on the browser's console, without those for the favicon."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")  # type: ignore[no-untyped-call]
            if entry["level"] == "SEVERE" and "/favicon.ico" not in entry["message"]
        ]

    def overflow(self, selector: str = "html") -> int:
        """The pixels by which the content exceeds the width of the page."""
        widths = "return arguments[0].scrollWidth - arguments[0].clientWidth"
        return int(self.run(widths, self.one(selector)))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with running_site(demo_data=True) as site:
        yield site


@pytest.fixture
def visitor(site: RunningSite, tmp_path: Path) -> Iterator[Visitor]:
    """The superuser, logged in with a new browser."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        driver.set_page_load_timeout(TIMEOUT)
        visitor = Visitor(driver, site, tmp_path)
        visitor.log_in("admin", "admin")
        yield visitor
    finally:
        driver.quit()


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
    assert visitor.driver.title.startswith("close_ticket | View component")
    schema = visitor.one(".field-input_schema pre")
    assert schema.is_displayed()
    assert schema.text.startswith('{\n  "type": "object",\n  "properties": {\n    "number"')
    assert "helpdesk.change_ticket" in visitor.one(".field-permission").text
    assert visitor.texts("input[type=submit], .object-tools a, .deletelink") == []
    visitor.screenshot("component")
    assert visitor.console_errors() == []


def test_component_page_is_readable_in_dark_mode_and_on_a_narrow_screen(visitor: Visitor) -> None:
    visitor.open("/admin/django_mcp/component/mcp_3Atool_3Acheck_5Fanswer_5Ftimes/change/")
    visitor.run("localStorage.theme = 'dark'")
    visitor.driver.refresh()
    schema = visitor.one(".field-input_schema pre")
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
