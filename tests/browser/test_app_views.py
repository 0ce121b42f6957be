"""A view from templates in the host of the tests: the bridge, fragments and forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import AnonymousUser
from selenium import webdriver

from django_mcp.core.auth.base import Principal
from django_mcp.testing import SyncClient
from tests.browser.app_host import AppHost
from tests.browser.chromium import pytestmark
from tests.browser.counter_template import ENGINE
from tests.browser.counters import counters
from tests.browser.one_browser import driver
from tests.browser.view_host.requests import SiteRequests
from tests.browser.view_host.servers import Preview, running
from tests.memory_stores import configure

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["configure", "driver", "pytestmark"]

NAME = "<b>Tea</b>"


@pytest.fixture
def host(driver: webdriver.Chrome, settings: Settings) -> Iterator[AppHost]:
    """The page for one counter; nothing is blocked, and there is no error, when the test ends."""
    settings.TEMPLATES = [ENGINE]
    driver.get_log("browser")  # type: ignore[no-untyped-call]  # It forgets those of other tests.
    nobody = Principal(scheme="test", user=AnonymousUser())
    preview = Preview(SiteRequests(counters(), nobody), "show_counter", {"name": NAME})
    with running(preview):
        host = AppHost(driver, preview.url)
        host.wait_for_state("open")
        host.wait_for_text("#count", "0")
        yield host
        assert host.blocked() == []
        assert host.console_errors() == []


def test_values_of_a_fragment_are_text(host: AppHost) -> None:
    assert host.view_text("h2") == NAME
    assert host.view_text("#owner") == "<img src=x onerror=alert(1)>"


def test_button_calls_a_tool_and_swaps_what_comes_back(host: AppHost) -> None:
    host.click("#add")
    host.wait_for_text("#count", "1")

    (call,) = host.messages("tools/call")
    assert call["params"] == {"name": "add", "arguments": {"name": NAME}}


def test_form_sends_numbers_and_shows_the_error_of_the_tool(host: AppHost) -> None:
    host.fill("[name=by]", "20")
    host.click("#add-many")
    host.wait_for_text("#count", "20")
    host.fill("[name=by]", "-1")
    host.click("#add-many")
    host.wait_for_text("[role=alert]", "A counter cannot be reduced.")

    assert host.view_text("#count") == "20"


def test_tool_that_the_user_may_not_call_is_an_error_of_the_view(host: AppHost) -> None:
    host.click("#secret")
    host.wait_for_text("[role=alert]", "secret")

    assert "error" in host.messages(sender="host")[-1]


def test_theme_of_the_view_follows_the_host(host: AppHost) -> None:
    host.choose("theme", "dark")
    host.wait_for_message("ui/notifications/host-context-changed")
    with host.view() as view:
        dark = view.execute_script("return getComputedStyle(document.body).color")
    host.choose("theme", "light")
    host.wait_for_text(":root[data-theme=light] #count", "0")
    with host.view() as view:
        light = view.execute_script("return getComputedStyle(document.body).color")

    assert (light, dark) == ("rgb(31, 30, 27)", "rgb(239, 237, 230)")


def test_links_messages_and_context_go_to_the_host(host: AppHost) -> None:
    host.click("#link")
    assert host.wait_for_message("ui/open-link") == {"url": "https://site.example/counters"}
    host.click("#say")
    host.wait_for_message("ui/message")

    assert "Message: Count again" in host.text("#requests")
    assert f"The user sees 0 {NAME}." in host.text("#model-context")


def test_frame_grows_with_the_view(host: AppHost) -> None:
    before = host.frame_size()["height"]
    host.fill("[name=by]", "-1")
    host.click("#add-many")
    host.wait_for_text("[role=alert]", "reduced")

    height = host.messages("ui/notifications/size-changed")[-1]["params"]["height"]
    assert height > before
    assert host.frame_size()["height"] == pytest.approx(height, abs=1)


def test_view_works_with_an_origin_of_its_own(host: AppHost) -> None:
    host.choose("origin", "own")
    host.wait_for_state("open")
    host.wait_for_text("#count", "0")
    host.click("#add")
    host.wait_for_text("#count", "1")


def test_view_ends_when_it_is_closed(host: AppHost) -> None:
    host.press("close")
    host.wait_for_state("closed")

    (request,) = host.messages("ui/resource-teardown")
    assert host.messages(sender="view")[-1] == {"jsonrpc": "2.0", "id": request["id"], "result": {}}


def test_policy_blocks_no_part_of_the_page(settings: Settings) -> None:
    settings.TEMPLATES = [ENGINE]
    with SyncClient(counters()) as client:
        app = client.render_app("show_counter", {"name": NAME})

    app.assert_nothing_blocked()
    assert app.fragment is not None
    assert "&lt;b&gt;Tea" in app.fragment
