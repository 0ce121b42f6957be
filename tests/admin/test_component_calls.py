"""Calls in the list of components and on their pages, where the site logs them."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote

from django_mcp import Server, registry
from tests.admin.site import browser_of, call, shop, text_of

pytestmark = pytest.mark.django_db

COMPONENTS = "/admin/django_mcp/component/"
STOCK = f"{COMPONENTS}{quote('shop:tool:stock')}/change/"


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = shop()
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    for outcome in ("ok", "ok", "error"):
        call(outcome=outcome, is_error=outcome == "error")
    call(kind="resource", component="shop://news", target="shop://news")
    call(server="other")
    return server


def test_list_counts_calls_and_errors_and_sorts_by_them() -> None:
    browser = browser_of("staff", "view_component", "view_call")
    listed = text_of(browser.get(f"{COMPONENTS}?o=-6"))
    assert "stock - - - 3 ✗ 1" in listed
    assert "news shop://news - - 1" in listed
    assert listed.index("stock") < listed.index("news") < listed.index("audit")


def test_page_has_a_chart_that_leads_to_the_calls() -> None:
    browser = browser_of("staff", "view_component", "view_call")
    response = browser.get(STOCK)
    text = text_of(response)
    assert "Calls of 14 days Calls 3 Errors 1 33 % Median 10 ms" in text
    html = response.content.decode()
    assert html.count('<rect class="mcp-bar-error"') == 1
    assert "component=stock&amp;day__gte=" in html


def test_calls_are_shown_to_those_who_may_view_them() -> None:
    browser = browser_of("staff", "view_component")
    assert "Calls" not in text_of(browser.get(COMPONENTS))
    assert "Calls of" not in text_of(browser.get(STOCK))
