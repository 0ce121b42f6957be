"""The site of the documentation in a browser: on desktop and phone, light and dark, with search."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import TIMEOUT, Visitor, chromium, needs_chromium
from tests.docs.examples import ROOT

pytestmark = [pytest.mark.nightly, needs_chromium]

PAGES = (
    "index",
    "tutorial",
    "how-to/connect/claude",
    "reference/api/server",
    "reference/settings",
    "reference/performance",
)


class QuietHandler(SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Ignore the request."""


class BuiltSite:
    """The built site at an address of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, path: str) -> str:
        """The URL of a path."""
        return f"http://127.0.0.1:{self._port}{path}"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A reader of the site."""
    folder = tmp_path_factory.mktemp("docs")
    site = folder / "site"
    subprocess.run([sys.executable, "-m", "docs._site", str(site)], cwd=ROOT, check=True)
    handler = partial(QuietHandler, directory=str(site))
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        chromium(folder / "profile") as driver,
    ):
        threading.Thread(target=server.serve_forever).start()
        yield Visitor(driver, BuiltSite(server.server_address[1]), folder)
        server.shutdown()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 390])
def test_page_fits_the_screen_without_errors(page: str, width: int, reader: Visitor) -> None:
    reader.show_width(width)
    reader.open(f"/{page}.html")
    assert reader.overflow() == 0
    assert reader.console_errors() == []


def test_page_follows_the_theme_of_the_reader(reader: Visitor) -> None:
    backgrounds = []
    for theme in ("light", "dark"):
        reader.show_theme(theme)
        reader.open("/index.html")
        backgrounds.append(reader.run("return getComputedStyle(document.body).backgroundColor"))
    light, dark = backgrounds
    assert brightness(light) > 200
    assert brightness(dark) < 60


def brightness(color: str) -> float:
    """The mean of the channels of ``rgb(1, 2, 3)``."""
    channels = [int(channel) for channel in color[4:-1].split(",")]
    return sum(channels) / len(channels)


def test_search_finds_a_public_name(reader: Visitor) -> None:
    reader.show_width(1280)
    reader.open("/index.html")
    reader.one("input[name=q]").send_keys("RateLimit", Keys.ENTER)
    wait(reader, lambda _: any("RateLimit" in text for text in reader.texts("ul.search li")))


def test_copied_command_has_no_prompt(reader: Visitor) -> None:
    reader.show_width(1280)
    reader.open("/tutorial.html")
    buttons = reader.texts("div.highlight-console button.copybtn")
    commands = reader.texts("div.highlight-console pre")
    assert len(buttons) == len(commands) > 0
    allowed = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    reader.driver.execute_cdp_cmd("Browser.grantPermissions", allowed)
    button = reader.one("div.highlight-console button.copybtn")
    ActionChains(reader.driver).move_to_element(button).click().perform()
    wait(reader, lambda _: "startapp" in clipboard(reader))
    assert "$" not in clipboard(reader)


def clipboard(reader: Visitor) -> str:
    """The text that was copied."""
    return str(reader.run("return navigator.clipboard.readText()"))


def wait(reader: Visitor, condition: Callable[[Any], bool]) -> None:
    """Wait until a condition holds."""
    WebDriverWait(reader.driver, TIMEOUT).until(condition)


def test_navigation_of_a_phone_opens(reader: Visitor) -> None:
    reader.show_width(390)
    reader.open("/index.html")
    closed = reader.run(LEFT_OF_NAVIGATION)
    reader.run("document.querySelector('label.nav-overlay-icon').click()")
    wait(reader, lambda _: reader.run(LEFT_OF_NAVIGATION) == 0)
    assert closed < 0


LEFT_OF_NAVIGATION = """
return Math.round(document.querySelector('aside.sidebar-drawer').getBoundingClientRect().left)
"""
