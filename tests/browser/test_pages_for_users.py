"""All pages for people: accessible by the rules of axe, in both themes, on desktop and phone."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.browser import screenshots
from tests.browser.accessibility import problems
from tests.browser.chromium import Visitor, chromium, needs_chromium
from tests.clients.oauth import flow
from tests.clients.oauth.pages import client_pages
from tests.clients.oauth.users import NAME, PASSWORD

pytestmark = [pytest.mark.nightly, needs_chromium]


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


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/login/", "/mcp", "/tokens/", "/o/access", "/approvals/", "/events/"),
        *("/o/authorize", "/elicitation/form/unknown/"),
    ],
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
    visitor.one("input[value='helpdesk:write']").click()
    visitor.follow("main > form button")
    assert problems(visitor) == []
    visitor.open("/tokens/")
    assert "Laptop" in visitor.one("main").text
    assert problems(visitor) == []


def test_keyboard_reaches_cancel_before_allow(visitor: Visitor) -> None:
    visitor.open(f"/o/authorize?{urlencode(screenshots.REQUEST)}&prompt=consent")
    assert visitor.texts("main button") == ["Cancel", "Allow"]
