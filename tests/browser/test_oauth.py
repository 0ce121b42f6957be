"""The official Python SDK logs in to the example site, and its user does so in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import screenshots
from tests.browser.chromium import Visitor, chromium, needs_chromium
from tests.clients.oauth import flow
from tests.clients.oauth.pages import ClientPages, client_pages
from tests.clients.oauth.users import NAME, PASSWORD
from tests.running_site import RunningSite

pytestmark = [pytest.mark.nightly, needs_chromium]

PNG = b"\x89PNG\r\n"


@pytest.fixture
def pages() -> Iterator[ClientPages]:
    with client_pages() as pages:
        yield pages


@pytest.fixture
def site(pages: ClientPages) -> Iterator[RunningSite]:
    with flow.site_for(pages) as site:
        yield site


class BrowserUser:
    """A user who looks at the pages."""

    def __init__(self, visitor: Visitor, pages: ClientPages) -> None:
        self._visitor, self._pages = visitor, pages
        self.consent_pages: list[str] = []

    def allow(self, url: str) -> dict[str, str]:
        """Log in if needed, allow the access, and return the parameters of the redirect."""
        self._visitor.driver.get(url)
        if "/login/" in self._visitor.driver.current_url:
            self._visitor.submit_login(NAME, PASSWORD)
        self.consent_pages.append(self._visitor.one("main").text)
        assert self._visitor.console_errors() == []
        self._visitor.follow("button[name=allow]")
        assert self._visitor.driver.title == "Connected"
        return self._pages.next_redirect()


def test_python_sdk_logs_in_with_a_browser_steps_up_and_refreshes(
    site: RunningSite, pages: ClientPages, tmp_path: Path
) -> None:
    with chromium(tmp_path / "profile") as driver:
        user = BrowserUser(Visitor(driver, site, tmp_path), pages)
        with flow.connected(flow.python, site, pages, user, published=False) as connected:
            flow.check_whole_flow(connected, published=False)

    first, second = user.consent_pages
    host = pages.redirect_uri.split("/")[2]
    for text in ("Python SDK", f"a program on this computer ({host})", site.url("/mcp"), NAME):
        assert text in first
    assert "Use the helpdesk and the desk" in first
    assert "Change the priority of tickets" not in first
    assert "Change the priority of tickets" in second


def test_screenshots_of_the_documentation_can_be_taken(tmp_path: Path) -> None:
    screenshots.take(tmp_path)

    taken = {path.name: path.read_bytes()[: len(PNG)] for path in tmp_path.glob("*.png")}
    assert taken == dict.fromkeys(screenshots.NAMES, PNG)
    assert {path.name for path in screenshots.FOLDER.glob("*.png")} >= set(screenshots.NAMES)
