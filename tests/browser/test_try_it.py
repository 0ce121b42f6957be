"""Components are tried in the admin, under a strict content security policy.

Screenshots are stored in pytest's temporary folder for review.
"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from django.contrib.admin.utils import quote
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.browser.accessibility import THEMES, problems
from tests.browser.chromium import TIMEOUT, Visitor, needs_chromium
from tests.browser.strict_site import site, visitor
from tests.running_site import RunningSite

__all__ = ["site", "visitor"]

pytestmark = [pytest.mark.nightly, needs_chromium]

HIDDEN = re.compile('<input type="hidden" name="(.*?)" value="(.*?)"')


def open_page(visitor: Visitor, server: str, name: str, kind: str = "tool") -> None:
    visitor.open(f"/admin/django_mcp/component/{quote(f'{server}:{kind}:{name}')}/try/")


def enter(visitor: Visitor, **values: str) -> None:
    for name, value in values.items():
        field = visitor.one(f'[name="arguments/{name}"]')
        field.clear()
        field.send_keys(value)


def run(visitor: Visitor) -> None:
    visitor.one("input[name=run]").click()


def wait_for(visitor: Visitor, text: str, selector: str = '[data-part="result"]') -> None:
    """Wait until a part of the page contains ``text``."""

    def is_there(_: object) -> bool:
        content = visitor.run(f"return document.querySelector({selector!r}).textContent")
        return text in str(content)

    try:
        WebDriverWait(visitor.driver, TIMEOUT).until(is_there)
    except TimeoutException:
        pytest.fail(f"{text!r} is not in {visitor.one(selector).text!r}")


def check(visitor: Visitor, name: str) -> None:
    """Look at the page in both themes, on a desktop and on a phone."""
    assert visitor.console_errors() == []
    for theme in THEMES:
        visitor.show_theme(theme)
        for width in (1280, 390):
            visitor.show_width(width)
            assert visitor.overflow() == 0
            visitor.run("window.scrollTo(0, 0)")
            visitor.screenshot(f"{name}-{width}-{theme}")
    assert problems(visitor) == []
    visitor.console_errors()  # Those of axe, whose styles the policy forbids.
    visitor.show_theme("light")
    visitor.show_width(1280)


def test_tool_runs_and_shows_its_result(visitor: Visitor) -> None:
    open_page(visitor, "mcp", "search_tickets")
    enter(visitor, text="printer", limit="2")
    run(visitor)
    wait_for(visitor, "Structured content")
    assert visitor.one(".mcp-try-status").text == "Success"
    # The keyboard goes on at the result.
    assert visitor.run("return document.activeElement.id") == "mcp-try-result"
    visitor.one('[data-part="result"] summary').click()
    assert '"method": "tools/call"' in visitor.one('[data-part="result"] .mcp-try-log pre').text
    check(visitor, "success")


def test_enter_in_a_field_runs_the_tool(visitor: Visitor) -> None:
    open_page(visitor, "mcp", "convert_units")
    enter(visitor, amount="1")
    visitor.one('[name="arguments/amount"]').send_keys(Keys.ENTER)
    wait_for(visitor, "Invalid arguments")


def test_problem_is_shown_at_its_field(visitor: Visitor) -> None:
    open_page(visitor, "mcp", "add_comment")
    enter(visitor, number="1")
    run(visitor)
    wait_for(visitor, "The tool reports an error")
    field = visitor.driver.switch_to.active_element
    assert field.get_attribute("name") == "arguments/text"
    assert field.get_attribute("aria-invalid") == "true"
    described_by = str(field.get_attribute("aria-describedby")).split()
    errors = visitor.driver.find_element(By.ID, described_by[-1])
    assert errors.text == "required, but missing"
    check(visitor, "invalid")


def test_nested_values_are_entered_as_json(visitor: Visitor) -> None:
    open_page(visitor, "workshop", "order")
    lines = '[{"product": "tea"}, {"product": "milk"}]'
    enter(visitor, customer="Ann", lines=lines, address='{"street": "Aare 1"}')
    run(visitor)
    wait_for(visitor, "Structured content")
    shown = visitor.one('[data-part="result"] pre').text
    assert [line["product"] for line in json.loads(shown)["lines"]] == ["tea", "milk"]
    assert json.loads(shown)["address"] == {"street": "Aare 1", "city": "Bern"}
    check(visitor, "nested")


def test_error_of_a_tool_is_shown(visitor: Visitor) -> None:
    open_page(visitor, "conformance", "test_error_handling")
    run(visitor)
    wait_for(visitor, "This tool intentionally returns an error for testing")
    assert visitor.one(".mcp-try-status").text == "The tool reports an error"


def test_progress_is_shown_while_a_tool_runs_and_the_call_can_be_cancelled(
    visitor: Visitor,
) -> None:
    open_page(visitor, "mcp", "timer")
    enter(visitor, seconds="60")
    run(visitor)
    wait_for(visitor, "1 / 60 · 59 s to go", "[data-live]")
    check(visitor, "progress")
    visitor.one("[data-cancel]").click()
    assert not visitor.one("[data-live]").is_displayed()


def test_two_questions_are_answered_on_the_page(visitor: Visitor) -> None:
    open_page(visitor, "conformance", "test_input_required_result_multi_round")
    run(visitor)
    wait_for(visitor, "Step 1: What is your name?")
    visitor.one('[name="answer:step1/name"]').send_keys("Ann")
    check(visitor, "question")
    visitor.one("button[name=answer][value=accept]").click()
    wait_for(visitor, "Step 2: What is your favorite color?")
    visitor.one('[name="answer:step2/color"]').send_keys("blue")
    visitor.one("button[name=answer][value=accept]").click()
    wait_for(visitor, "Step 2: action=accept")
    assert "blue" in visitor.one(".mcp-try-block pre").text


def test_every_kind_of_field_can_be_answered(visitor: Visitor) -> None:
    open_page(visitor, "conformance", "test_elicitation_sep1330_enums")
    run(visitor)
    wait_for(visitor, "Please choose")
    titled = Select(visitor.one('[name$="/titledSingle"]'))
    titled.select_by_visible_text("Second Option")
    visitor.one('[name$="/titledMulti"][value*=value3]').click()
    check(visitor, "enums")
    visitor.one("button[name=answer][value=accept]").click()
    wait_for(visitor, "'titledSingle': 'value2', 'titledMulti': ['value3']")


def test_task_is_followed_to_its_end(visitor: Visitor) -> None:
    open_page(visitor, "conformance", "slow_compute")
    enter(visitor, seconds="4", label="sums")
    run(visitor)
    wait_for(visitor, "Task: working")
    wait_for(visitor, "sums: step 3 of 4")
    check(visitor, "task")
    wait_for(visitor, "sums: done after 4 s")


def approve(site: RunningSite, page: str) -> None:
    """Approve a call as the superuser, in another browser."""
    with httpx.Client(follow_redirects=True, timeout=TIMEOUT) as browser:
        for url, data in (
            (site.url("/admin/login/"), {"username": "admin", "password": "admin"}),
            (page, {"decision": "approve"}),
        ):
            hidden = dict(HIDDEN.findall(browser.get(url).text))
            posted = browser.post(url, data={**hidden, **data})
            assert posted.status_code == 200


def test_approval_is_followed_to_its_end(visitor: Visitor, site: RunningSite) -> None:
    visitor.driver.delete_all_cookies()
    visitor.log_in("agent", "agent")
    open_page(visitor, "mcp", "refund")
    enter(visitor, number="3", amount="49.90", reason="Charged twice")
    run(visitor)
    wait_for(visitor, "waits until a person has approved it")
    approval = str(visitor.one(".mcp-try-outcome a").get_attribute("href"))
    check(visitor, "approval")
    approve(site, approval)
    wait_for(visitor, "Refunded 49.90")


def test_image_is_shown(visitor: Visitor) -> None:
    open_page(visitor, "conformance", "test_multiple_content_types")
    run(visitor)
    wait_for(visitor, "image/png")
    image = visitor.one(".mcp-try-block img")
    assert visitor.run("return arguments[0].naturalWidth", image) > 0
    check(visitor, "image")


def in_view(visitor: Visitor, script: str) -> Any:
    """What a script returns that runs in the frame of a view."""
    frame = visitor.one("[data-view] iframe")
    visitor.driver.switch_to.frame(frame)
    try:
        return visitor.run(script)
    finally:
        visitor.driver.switch_to.default_content()


def wait_in_view(visitor: Visitor, text: str) -> None:
    def shown() -> str:
        return str(in_view(visitor, "return document.body.innerText"))

    try:
        WebDriverWait(visitor.driver, TIMEOUT).until(lambda _: text in shown())
    except TimeoutException:
        pytest.fail(f"{text!r} is not in {shown()!r}")


def wait_for_theme(visitor: Visitor, theme: str) -> None:
    def is_shown(_: object) -> bool:
        shown_theme = in_view(visitor, "return document.documentElement.dataset.theme")
        return bool(shown_theme == theme)

    WebDriverWait(visitor.driver, TIMEOUT).until(is_shown)


def test_view_of_a_result_is_shown_and_asks_before_it_changes_something(visitor: Visitor) -> None:
    open_page(visitor, "mcp", "show_ticket")
    enter(visitor, number="184")
    run(visitor)
    wait_for(visitor, "in a frame without access to this site")
    wait_in_view(visitor, "#184")
    assert in_view(visitor, "return window.origin") == "null"
    for theme in THEMES:
        visitor.show_theme(theme)
        wait_for_theme(visitor, theme)
    check(visitor, "view")

    reply = "document.querySelector('#reply').value = 'We look at it.';"
    for answer, shown in (("false", "The user does not allow it"), ("true", "We look at it.")):
        # A dialog of the browser would stop the driver.
        visitor.run(f"confirm = question => {{ window.asked = question; return {answer}; }}")
        in_view(visitor, f"{reply} document.querySelector('button[type=submit]').click()")
        wait_in_view(visitor, shown)
        assert "calls the tool reply_on_card as you" in visitor.run("return window.asked")


@pytest.mark.parametrize("way", ["location.reload()", "location.href = 'data:text/html,other'"])
def test_frame_that_loads_something_else_is_no_longer_the_view(visitor: Visitor, way: str) -> None:
    open_page(visitor, "mcp", "show_ticket")
    enter(visitor, number="184")
    run(visitor)
    wait_in_view(visitor, "#184")

    in_view(visitor, f"setTimeout(() => {{ {way}; }}, 0)")

    wait_for(visitor, "The view does not answer.", "[data-view-failed]:not([hidden])")
    assert visitor.run("return document.querySelectorAll('[data-view] iframe').length") == 0


def test_resource_is_read_and_prompt_is_rendered(visitor: Visitor) -> None:
    open_page(visitor, "mcp", "ticket://{pk}", "resource_template")
    enter(visitor, pk="3")
    run(visitor)
    wait_for(visitor, "ticket://3")
    check(visitor, "resource")
    open_page(visitor, "mcp", "summarise_ticket", "prompt")
    enter(visitor, number="3")
    run(visitor)
    wait_for(visitor, "End with what has to be done next.")
    check(visitor, "prompt")


def test_page_works_without_scripts(visitor: Visitor) -> None:
    visitor.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    open_page(visitor, "conformance", "test_input_required_result_multi_round")
    visitor.follow("input[name=run]")
    visitor.one('[name="answer:step1/name"]').send_keys("Ann")
    visitor.follow("button[value=accept]")
    visitor.one('[name="answer:step2/color"]').send_keys("blue")
    visitor.follow("button[value=accept]")
    assert "blue" in visitor.one(".mcp-try-block pre").text
