"""Views from templates in two hosts that nobody here wrote: AppBridge and the inspector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.browser.app_bridge import app_bridge
from tests.browser.app_host import ShownView
from tests.browser.chromium import pytestmark
from tests.browser.inspector import Inspector, inspector
from tests.browser.one_browser import driver
from tests.running_site import RunningSite, daphne, running_site
from tests.waiting import wait_until

__all__ = ["driver", "pytestmark"]

NAME = "<b>Tea</b>"


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    """The example site with the server of ``counters``."""
    with running_site(
        daphne("tests.browser.counters_asgi:application"),
        DJANGO_SETTINGS_MODULE="tests.browser.counters_settings",
    ) as site:
        yield site


Show = Callable[[str], ShownView]
"""Shows the counter of a name."""


@pytest.fixture
def bridge(driver: webdriver.Chrome, site: RunningSite) -> Iterator[Show]:
    with app_bridge(site.url("")) as pages:

        def show(name: str) -> ShownView:
            driver.get_log("browser")  # type: ignore[no-untyped-call]
            driver.get(pages.url("/counters", "show_counter", {"name": name}))
            return ShownView(driver)

        yield show
        # Before its server ends, which the console would report to the next test.
        driver.get("about:blank")


@pytest.fixture
def inspected(driver: webdriver.Chrome, site: RunningSite, tmp_path: Path) -> Iterator[Show]:
    with inspector(site.url("/counters"), tmp_path) as url:

        def show(name: str) -> ShownView:
            inspector = Inspector(driver, url)
            inspector.open_app("show_counter", {"name": name})
            return inspector

        yield show
        driver.get("about:blank")


@pytest.fixture(params=["bridge", "inspected"])
def show(request: pytest.FixtureRequest) -> Show:
    show: Show = request.getfixturevalue(request.param)
    return show


def errors(view: ShownView) -> list[str]:
    """The errors of the console; the inspector asks another site for a font."""
    return [error for error in view.console_errors() if "fonts.googleapis.com" not in error]


def test_view_shows_the_result_and_what_its_button_brings(show: Show) -> None:
    view = show(NAME)
    view.wait_for_text("h2", NAME)
    before = int(view.view_text("#count"))
    view.click("#add")
    view.wait_for_text("#count", str(before + 1))
    view.fill("[name=by]", "-1")
    view.click("#add-many")
    view.wait_for_text("[role=alert]", "A counter cannot be reduced.")

    assert view.view_text("#count") == str(before + 1)
    assert errors(view) == []


def events(view: ShownView, kind: str) -> list[Any]:
    """What AppBridge has received from the view, of one kind."""
    received = view.driver.execute_script("return window.events")
    return [value for name, value in received if name == kind]


def test_app_bridge_accepts_every_message_of_a_view(bridge: Show) -> None:
    view = bridge("Coffee")
    view.wait_for_text("h2", "Coffee")
    view.click("#say")
    view.click("#link")
    wait_until(lambda: events(view, "link"), "the link is opened")

    assert events(view, "link") == ["https://site.example/counters"]
    assert events(view, "message") == [[{"type": "text", "text": "Count again"}]]
    assert events(view, "context")[0]["content"][0]["text"].startswith("The user sees")
    assert events(view, "size")[-1] > 100
    assert events(view, "error") == []


def test_app_bridge_changes_the_theme_and_ends_the_view(bridge: Show) -> None:
    view = bridge("Milk")
    view.wait_for_text("h2", "Milk")
    view.driver.execute_script("bridge.sendHostContextChange({ theme: 'dark' })")
    view.wait_for_text(":root[data-theme=dark] h2", "Milk")
    ended = view.driver.execute_async_script(
        "bridge.teardownResource({}).then(arguments[0], error => arguments[0](String(error)))"
    )

    assert ended == {}
    assert events(view, "error") == []
    assert errors(view) == []
