"""All pages for people: accessible by the rules of axe, in both themes, on desktop and phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.browser import screenshots
from tests.browser.chromium import Visitor, chromium, needs_chromium
from tests.clients.environments import ts_modules
from tests.clients.oauth import flow
from tests.clients.oauth.pages import client_pages
from tests.clients.oauth.users import NAME, PASSWORD

pytestmark = [pytest.mark.nightly, needs_chromium]

RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run().then(result => done(result.violations.map(each => each.id + ": " + each.nodes[0].html)));
"""
THEMES = ("light", "dark")
WIDTHS = (1200, 390)


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A user who is logged in to the example site."""
    folder = tmp_path_factory.mktemp("browser")
    with (
        client_pages() as pages,
        flow.site_for(pages, BASE_URL=screenshots.SITE) as site,
        chromium(folder / "profile") as driver,
    ):
        visitor = Visitor(driver, site, folder)
        visitor.open("/tokens/")
        visitor.submit_login(NAME, PASSWORD)
        yield visitor


def problems(visitor: Visitor) -> list[Any]:
    """What axe finds on the page, and what is wider than the screen, in each look of the page."""
    axe = (ts_modules() / "axe-core" / "axe.min.js").read_text()
    found: list[Any] = []
    for theme in THEMES:
        visitor.show_theme(theme)
        for width in WIDTHS:
            visitor.show_width(width)
            visitor.run(axe)
            violations = visitor.driver.execute_async_script(RUN_AXE)
            found += [(theme, width, each) for each in violations]
            if visitor.overflow():
                found.append((theme, width, "is wider than the screen"))
    return found


@pytest.mark.parametrize(
    "path",
    ["/mcp", "/tokens/", "/o/access", "/approvals/", "/o/authorize", "/elicitation/form/unknown/"],
)
def test_page_without_content_is_accessible(visitor: Visitor, path: str) -> None:
    visitor.open(path)
    assert problems(visitor) == []


def test_tools_of_the_user_are_found_at_the_endpoint(visitor: Visitor) -> None:
    visitor.console_errors()  # Those of other pages.
    visitor.open("/mcp")
    everything = visitor.texts("main .items h3")
    visitor.one("#mcp-search").send_keys("ticket")
    visitor.follow(".search button")
    found = visitor.texts("main .items h3")
    assert "Search tickets" in found
    assert 0 < len(found) < len(everything)
    visitor.one("main .items summary").click()
    assert visitor.one("main .items .copy").is_displayed()
    assert problems(visitor) == []
    assert visitor.console_errors() == []


def test_pages_of_a_login_are_accessible(visitor: Visitor) -> None:
    visitor.open(f"/o/authorize?{urlencode(screenshots.REQUEST)}")
    assert problems(visitor) == []
    visitor.follow("button[name=allow]")
    visitor.open("/o/access")
    assert "Ticket assistant" in visitor.one("main").text
    assert problems(visitor) == []


def test_pages_of_a_token_are_accessible(visitor: Visitor) -> None:
    visitor.open("/tokens/")
    visitor.one("#id_name").send_keys("Laptop")
    visitor.one("input[value=helpdesk]").click()
    visitor.follow("main > form button")
    assert problems(visitor) == []
    visitor.open("/tokens/")
    assert "Laptop" in visitor.one("main").text
    assert problems(visitor) == []


def test_keyboard_reaches_cancel_before_allow(visitor: Visitor) -> None:
    visitor.open(f"/o/authorize?{urlencode(screenshots.REQUEST)}&prompt=consent")
    assert visitor.texts("main button") == ["Cancel", "Allow"]
