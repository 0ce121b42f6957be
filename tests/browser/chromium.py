"""Chromium, and a user of a running site in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from tests.waiting import SECONDS

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(
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
    # Nothing leaves this machine, not even a query for a name.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    # The log of the driver has the errors of a page's own process only, and not those of a frame
    # without an origin, which would have a process of its own.
    "--disable-features=IsolateSandboxedIframes",
    "--window-size=1500,1000",
)
TIMEOUT = SECONDS
pytestmark = [pytest.mark.nightly, needs_chromium]
"""The marks of a module of tests in a browser."""


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Run a browser with a new profile within the block."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        driver.set_page_load_timeout(TIMEOUT)
        yield driver
    finally:
        driver.quit()


class Site(Protocol):
    """A site that is served on this machine."""

    def url(self, path: str) -> str:
        """The URL of a path."""


class Visitor:
    """A user of a running site."""

    def __init__(self, driver: webdriver.Chrome, site: Site, screenshots: Path) -> None:
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
        # While the page is replaced, the driver may fail for a node of no document.
        wait = WebDriverWait(self.driver, TIMEOUT, ignored_exceptions=[WebDriverException])
        wait.until(staleness_of(here))

    def log_in(self, name: str, password: str) -> None:
        self.open("/admin/login/?next=/admin/")
        self.submit_login(name, password)

    def submit_login(self, name: str, password: str) -> None:
        """Fill in the form of a login page, and wait for the next page."""
        self.one("#id_username").send_keys(name)
        self._leave(partial(self.one("#id_password").send_keys, password, Keys.ENTER))

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

    def speed_up(self) -> None:
        """Let colours change at once; links of the admin change theirs slowly."""
        self.driver.execute_cdp_cmd("Animation.enable", {})
        self.driver.execute_cdp_cmd("Animation.setPlaybackRate", {"playbackRate": 1000})

    def show_theme(self, theme: str) -> None:
        """Show pages as for a user who prefers "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def show_width(self, width: int) -> None:
        """Show pages on a screen of this many pixels; a narrow one is that of a phone."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)
