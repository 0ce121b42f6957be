"""The page of the host in view_host, as a test drives it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    NoSuchElementException,
    NoSuchFrameException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.browser.chromium import TIMEOUT
from tests.waiting import wait_until

NOT_THERE = (NoSuchElementException, NoSuchFrameException, StaleElementReferenceException)
"""While a view is loaded, or a fragment is swapped."""

MESSAGES = """
return [...document.querySelectorAll("#messages li")].map(item => [
    item.dataset.from, JSON.parse(item.dataset.message)
]);
"""
BLOCKED = 'return [...document.querySelectorAll("#blocked li")].map(item => item.textContent);'


class ShownView:
    """A view in the frames of a host, of which each is within the one before it."""

    frames: Sequence[str] = ("iframe",)

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    @contextmanager
    def view(self) -> Iterator[webdriver.Chrome]:
        """Find elements of the view within the block."""
        try:
            for selector in self.frames:
                self.driver.switch_to.frame(self.driver.find_element(By.CSS_SELECTOR, selector))
            yield self.driver
        finally:
            self.driver.switch_to.default_content()

    def view_text(self, selector: str = "body") -> str:
        """The text of an element of the view; empty while there is none."""
        with suppress(*NOT_THERE), self.view():
            return self.driver.find_element(By.CSS_SELECTOR, selector).text
        return ""

    def wait_for_text(self, selector: str, text: str) -> None:
        """Wait until an element of the view contains a text."""
        try:
            wait_until(lambda: text in self.view_text(selector), seconds=TIMEOUT)
        except TimeoutError:
            raise AssertionError(
                f"{selector} has no {text!r}: {self.view_text()}\n{self.explanation()}"
            ) from None

    def explanation(self) -> str:
        """What helps to see why a view shows something else."""
        return json.dumps(self.console_errors())

    def console_errors(self) -> list[str]:
        """The errors on the console, of the host and of the view."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def click(self, selector: str) -> None:
        with self.view():
            self._element(selector).click()

    def fill(self, selector: str, text: str) -> None:
        with self.view():
            element = self._element(selector)
            element.clear()
            element.send_keys(text)

    def _element(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)


class AppHost(ShownView):
    """The page of the host, which shows one view."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        super().__init__(driver)
        driver.get(url)

    def choose(self, option: str, value: str) -> None:
        """Choose a theme, a width or an origin."""
        self.driver.find_element(By.CSS_SELECTOR, f"[name={option}][value={value}] + span").click()

    def press(self, button: str) -> None:
        self.driver.find_element(By.ID, button).click()

    def wait_for_state(self, state: str) -> None:
        body = self.driver.find_element(By.TAG_NAME, "body")
        wait_until(
            lambda: body.get_attribute("data-state") == state, f"is {state}", seconds=TIMEOUT
        )

    def messages(self, method: str | None = None, sender: str | None = None) -> list[Any]:
        """The messages so far, in their order; those with a method, or of one side."""
        pairs = self.driver.execute_script(MESSAGES)
        return [
            message
            for side, message in pairs
            if method in (None, message.get("method")) and sender in (None, side)
        ]

    def wait_for_message(self, method: str) -> dict[str, Any]:
        """The parameters of the newest message of a method."""
        wait_until(lambda: self.messages(method), f"{method} is sent", seconds=TIMEOUT)
        params: dict[str, Any] = self.messages(method)[-1]["params"]
        return params

    def blocked(self) -> list[str]:
        """What the page lists as blocked: found in the HTML, or reported by the browser."""
        return [str(text) for text in self.driver.execute_script(BLOCKED)]

    def text(self, selector: str) -> str:
        return str(self.driver.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent"))

    def wait_for_steady_size(self) -> None:
        """Wait until the frame is as high as the view, which reports its height."""
        height = "return document.documentElement.getBoundingClientRect().height"

        def is_steady() -> bool:
            with self.view() as view:
                own = view.execute_script(height)
            return bool(abs(own - self.frame_size()["height"]) <= 1)

        wait_until(is_steady, "the frame is as high as the view", seconds=TIMEOUT)

    def frame_size(self) -> dict[str, float]:
        return dict(self.driver.find_element(By.TAG_NAME, "iframe").rect)

    def explanation(self) -> str:
        return json.dumps([*self.messages(), *self.console_errors()], indent=1)
