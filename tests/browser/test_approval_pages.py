"""A refund of the helpdesk, from the call of an agent to the approval of the superuser.

Screenshots are stored in pytest's temporary folder for review.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from tests.browser.admin_site import site, visitor
from tests.browser.agent import call, issued_token
from tests.browser.chromium import TIMEOUT, Visitor, pytestmark
from tests.running_site import RunningSite

__all__ = ["pytestmark", "site", "visitor"]


@pytest.fixture
def token(site: RunningSite, tmp_path: Path) -> str:
    """A token of the agent."""
    return issued_token(site, tmp_path / "token")


def wait_for_outcome(visitor: Visitor, key: str) -> None:
    """Look again until the call was carried out: the page does not wait for it."""
    until = time.monotonic() + TIMEOUT
    while "Status carried out" not in " ".join(visitor.one("dl").text.split()):
        assert time.monotonic() < until
        visitor.open(f"/approvals/{key}/")


def test_refund_is_approved_on_the_page(visitor: Visitor, site: RunningSite, token: str) -> None:
    reason = "The printer was charged twice <b>in March</b>."
    waiting = call(site, token, "refund", number=3, amount="49.90", reason=reason)
    key = waiting.partition('id="')[2].partition('"')[0]
    assert "Nothing was done yet" in waiting

    visitor.driver.set_window_size(820, 1000)
    visitor.open("/approvals/")
    visitor.screenshot("approvals")
    visitor.follow(f'.items a[href*="{key}"]')
    assert visitor.one("h1").text == "Refund a customer"
    arguments = visitor.texts("h2 + dl dd")
    assert arguments == ["3", "49.90", reason]
    assert "agent" in visitor.one("dl").text
    assert "refund of Example site" in visitor.one("dl").text
    assert "Desk assistant 2.1" in visitor.one("dl").text
    assert visitor.overflow() == 0
    visitor.screenshot("approval-page")
    visitor.driver.set_window_size(420, 900)
    assert visitor.overflow() == 0
    visitor.screenshot("approval-page-narrow")

    visitor.one("textarea").send_keys("The invoice is right.")
    visitor.follow("button[value=approve]")
    wait_for_outcome(visitor, key)
    assert visitor.driver.find_elements(By.CSS_SELECTOR, "main form") == []
    assert "Refunded 49.90" in call(site, token, "approval_status", id=key)
    assert visitor.console_errors() == []


def test_refunds_are_decided_in_the_admin(visitor: Visitor, site: RunningSite, token: str) -> None:
    for number in (4, 5):
        call(site, token, "refund", number=number, amount="5", reason="Late answer")
    visitor.driver.set_window_size(1500, 800)
    visitor.open("/admin/django_mcp_approvals/approval/")
    assert set(visitor.texts("#result_list .field-caller_name")) == {"agent"}
    visitor.one("#result_list .action-select").click()
    Select(visitor.one("select[name=action]")).select_by_visible_text("Decline selected calls")
    visitor.one("input[name=comment]").send_keys("Not agreed")
    visitor.follow("button[name=index]")
    assert "1 call was decided." in visitor.one(".messagelist").text
    assert visitor.texts("#result_list .field-phase_text").count("declined") == 1
    visitor.screenshot("approvals-admin")

    visitor.follow("#result_list .field-title a")
    assert "Not agreed" in visitor.one(".field-comment").text
    assert "Late answer" in visitor.one(".field-arguments_table").text
    assert visitor.texts("input[type=submit], .deletelink") == []
    visitor.screenshot("approval-admin")
    assert visitor.console_errors() == []
