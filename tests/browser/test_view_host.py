"""The host of the tests with a view that is written by hand, against the protocol alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from selenium import webdriver

from django_mcp import Server, ToolError
from django_mcp.core.auth.base import Principal
from django_mcp.ui.mcp_apps.metadata import MIME_TYPE
from tests.browser.app_host import AppHost
from tests.browser.chromium import needs_chromium
from tests.browser.one_browser import driver
from tests.browser.view_host.requests import SiteRequests
from tests.browser.view_host.servers import Preview, running
from tests.memory_stores import configure
from tests.waiting import wait_until

__all__ = ["configure", "driver"]

pytestmark = [pytest.mark.nightly, needs_chromium]

URI = "ui://numbers/view"
HTML = Path(__file__).with_name("hand_written.html")


def numbers(csp: dict[str, Any] | None = None) -> Server:
    """A server with a view, and tools that it may and may not call."""
    server = Server("numbers")
    ui = {"resourceUri": URI}

    @server.tool(meta={"ui": ui})
    def show_number(number: int) -> str:
        return f"The number is {number}."

    @server.tool(meta={"ui": {**ui, "visibility": ["app"]}})
    def double(number: int) -> str:
        if number < 0:
            raise ToolError("The number is negative.")
        return str(2 * number)

    @server.tool(meta={"ui": {**ui, "visibility": ["model"]}})
    def model_only() -> str:
        return "secret"

    @server.resource(URI, name="view", mime_type=MIME_TYPE, meta={"ui": {"csp": csp or {}}})
    def view() -> str:
        return HTML.read_text()

    return server


@pytest.fixture
def preview() -> Iterator[Preview]:
    caller = Principal(scheme="test", user=AnonymousUser())
    preview = Preview(SiteRequests(numbers(), caller), "show_number", {"number": 7})
    with running(preview):
        yield preview


@pytest.fixture
def host(driver: webdriver.Chrome, preview: Preview) -> AppHost:
    driver.get_log("browser")  # type: ignore[no-untyped-call]  # It forgets those of other tests.
    host = AppHost(driver, preview.url)
    host.wait_for_state("open")
    return host


def test_view_receives_input_and_result(host: AppHost) -> None:
    host.wait_for_text("#result", "The number is 7.")

    assert host.view_text("#input") == '{"number":7}'
    sent = [message.get("method") for message in host.messages()]
    assert sent[:2] == ["ui/initialize", None]
    assert sent.index("ui/notifications/initialized") < sent.index("ui/notifications/tool-input")
    assert host.text("#text pre") == "The number is 7."
    assert host.blocked() == []
    assert host.console_errors() == []


def test_view_without_an_origin_has_no_storage(host: AppHost) -> None:
    host.wait_for_text("#storage", "SecurityError")
    host.choose("origin", "own")
    host.wait_for_state("open")
    host.wait_for_text("#storage", "stored")
    host.wait_for_text("#result", "The number is 7.")

    assert host.console_errors() == []


def test_view_is_told_a_change_of_theme_and_width(host: AppHost) -> None:
    host.choose("theme", "light")
    host.wait_for_text("#theme", "light")
    host.choose("theme", "dark")
    host.wait_for_text("#theme", "dark")
    host.choose("width", "phone")

    changed = host.wait_for_message("ui/notifications/host-context-changed")
    assert changed["containerDimensions"]["width"] == 390
    assert host.frame_size()["width"] == 390


def test_frame_is_as_high_as_the_view(host: AppHost) -> None:
    host.wait_for_text("#result", "The number is 7.")
    height = host.wait_for_message("ui/notifications/size-changed")["height"]

    assert height > 100
    assert host.frame_size()["height"] == pytest.approx(height, abs=1)


def test_view_calls_tools_that_are_visible_to_it(host: AppHost) -> None:
    host.click("#double")
    host.wait_for_text("#answer", "42")
    host.click("#fail")
    host.wait_for_text("#answer", "error: The number is negative.")
    host.click("#forbidden")
    host.wait_for_text("#answer", "refused: A view cannot call the tool model_only")


def test_what_the_policy_blocks_is_listed(host: AppHost) -> None:
    host.click("#leak")

    wait_until(host.blocked, "the violation is listed")
    assert "img-src has blocked https://foreign.example/?leak" in host.blocked()[0]
    (error,) = host.console_errors()
    assert "violates the following Content Security Policy directive" in error


def test_closed_view_is_asked_to_end(host: AppHost) -> None:
    host.press("close")
    host.wait_for_state("closed")

    (request,) = host.messages("ui/resource-teardown")
    assert {"jsonrpc": "2.0", "id": request["id"], "result": {}} in host.messages(sender="view")
    assert host.driver.find_elements("tag name", "iframe") == []
