"""The helpdesk's views, in the host of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.browser.app_host import AppHost
from tests.browser.app_screenshots import SCENES, THEMES, WIDTHS, Scene, preview
from tests.browser.chromium import pytestmark
from tests.browser.one_browser import driver
from tests.clients.environments import ts_modules
from tests.running_site import RunningSite, running_site

__all__ = ["driver", "pytestmark"]

TICKET = 184
PAINT = 'document.documentElement.style.background = "var(--color-background-primary)"'
"""The colour of the host's page, which a view lets through and axe cannot see."""
RUN_AXE = """
const done = arguments[arguments.length - 1];
// A view is a part of a conversation, which has the first heading.
const rules = { "page-has-heading-one": { enabled: false } };
const line = violation => violation.id + ": " + violation.nodes[0].html;
axe.run({ rules }).then(result => done(result.violations.map(line)));
"""
OVERFLOW = """
const page = document.documentElement;
return [page.scrollWidth - page.clientWidth, page.scrollHeight - page.clientHeight];
"""
SCRIPT = "<script>document.title = 'attacked'</script>"


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with running_site(demo_data=True) as site:
        yield site


@pytest.fixture
def shown(driver: webdriver.Chrome, site: RunningSite, tmp_path: Path) -> Any:
    """Shows the view of a call; nothing is blocked, and there is no error, when it is closed."""

    @contextmanager
    def shown(tool: str, arguments: dict[str, Any], *, user: str = "admin") -> Iterator[AppHost]:
        driver.get_log("browser")  # type: ignore[no-untyped-call]
        with preview(site, Scene("shown", tool, arguments, user, ""), tmp_path) as url:
            host = AppHost(driver, url)
            host.wait_for_state("open")
            yield host
            assert host.blocked() == []
            assert host.console_errors() == []
            driver.get("about:blank")

    return shown


def test_reply_appears_on_the_card_as_it_was_written(shown: Any) -> None:
    with shown("show_ticket", {"number": TICKET}) as host:
        host.wait_for_text("h2", "Website is slow in the evening")
        host.fill("#reply", SCRIPT)
        host.click("button[type=submit]")
        host.wait_for_text(".entries li:last-child", SCRIPT)

        assert host.view_text("#reply") == ""
        with host.view() as view:
            assert view.execute_script("return document.title") != "attacked"


def test_card_offers_no_reply_to_a_caller_who_may_not(shown: Any) -> None:
    with shown("show_ticket", {"number": TICKET}, user="") as host:
        host.wait_for_text("h2", "Website is slow in the evening")

        assert host.view_text("form") == ""


def test_form_shows_errors_at_their_fields_and_saves(shown: Any) -> None:
    with shown("ticket_form", {"subject": "No heating"}) as host:
        host.wait_for_text("form", "Priority")
        host.fill("[name=description]", "It is cold.")
        host.click("button[type=submit]")
        host.wait_for_text(".errorlist", "This field is required.")

        with host.view() as view:
            invalid = view.find_elements("css selector", "[aria-invalid=true]")
            assert [field.get_attribute("name") for field in invalid] == ["customer"]
            description = view.find_element("css selector", "[name=description]")
            assert description.get_attribute("value") == "It is cold."
            view.find_element("css selector", "[name=customer] option:nth-child(2)").click()
        host.click("button[type=submit]")
        host.wait_for_message("tools/call")
        host.wait_for_text("body", "No heating")


def test_waiting_refund_shows_its_arguments_and_no_decision(shown: Any) -> None:
    arguments = {"number": TICKET, "amount": "5", "reason": SCRIPT}
    with shown("refund", arguments, user="agent") as host:
        host.wait_for_text("body", SCRIPT)

        with host.view() as view:
            controls = view.find_elements("css selector", "button, a, form")
            assert [control.text for control in controls] == ["Look again"]
        host.click("button")
        host.wait_for_text("body", SCRIPT)
        (call,) = host.messages("tools/call")
        assert call["params"]["name"] == "approval_status"


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_view_has_no_scrollbar_on_a_desktop_or_a_phone(shown: Any, scene: Scene) -> None:
    with shown(scene.tool, dict(scene.arguments), user=scene.user) as host:
        for width in WIDTHS:
            host.choose("width", width)
            host.wait_for_text("body", scene.shown)
            host.wait_for_steady_size()
            with host.view() as view:
                assert view.execute_script(OVERFLOW) == [0, 0]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_view_is_accessible_in_both_themes(shown: Any, scene: Scene) -> None:
    axe = (ts_modules() / "axe-core" / "axe.min.js").read_text()
    with shown(scene.tool, dict(scene.arguments), user=scene.user) as host:
        for theme in THEMES:
            host.choose("theme", theme)
            host.wait_for_text(f":root[data-theme={theme}] body", scene.shown)
            with host.view() as view:
                view.execute_script(PAINT)
                view.execute_script(axe)
                assert view.execute_async_script(RUN_AXE) == []
