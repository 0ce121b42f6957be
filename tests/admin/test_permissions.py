"""Who reaches the pages of the admin: staff with the permission of each, and nobody else."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client as Browser

from django_mcp import Server, registry
from tests.admin.site import browser_of, shop

pytestmark = pytest.mark.django_db

MCP = "/admin/django_mcp/"
TOOL = f"{MCP}component/{quote('shop:tool:stock')}/"
PAGES = [
    f"{MCP}mcpserver/",
    f"{MCP}mcpserver/shop/change/",
    f"{MCP}mcpserver/shop/examine/",
    f"{MCP}component/",
    f"{MCP}component/see-as/",
    f"{TOOL}change/",
    f"{TOOL}history/",
    f"{TOOL}switch/",
    f"{TOOL}try/",
    f"{TOOL}view/",
    f"{MCP}mcpsession/",
    f"{MCP}mcptask/",
    "/admin/django_mcp_calls/call/",
    "/admin/django_mcp_calls/call/dashboard/",
    "/admin/django_mcp_calls/call/export/",
]
WITH_GET = [page for page in PAGES if not page.endswith(("/examine/", "/switch/"))]


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = shop()
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    return server


@pytest.mark.parametrize("page", PAGES)
def test_page_is_a_login_for_who_is_no_staff(page: str) -> None:
    user = get_user_model().objects.create_user("customer")
    user.user_permissions.set(Permission.objects.all())
    customer = Browser()
    customer.force_login(user)
    for browser in (customer, Browser()):
        for response in (browser.get(page), browser.post(page)):
            assert response.status_code == 302
            assert response.headers["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("page", WITH_GET)
def test_page_is_refused_to_staff_without_a_permission(page: str) -> None:
    assert browser_of("staff", "view_user").get(page).status_code == 403


@pytest.mark.parametrize("page", [f"{TOOL}switch/", f"{TOOL}try/", f"{TOOL}view/"])
def test_staff_who_may_only_view_components_change_and_run_nothing(page: str) -> None:
    browser = browser_of("staff", "view_component", "view_call", "view_mcpsession", "view_mcptask")
    assert browser.post(page, {"switch": "off", "run": "1"}).status_code == 403


@pytest.mark.parametrize(
    "page", ["django_mcp/component/", "django_mcp/mcpsession/", "django_mcp/mcptask/"]
)
def test_staff_who_may_only_view_have_no_actions(page: str) -> None:
    browser = browser_of("staff", "view_component", "view_mcpsession", "view_mcptask")
    response = browser.get(f"/admin/{page}")
    assert response.status_code == 200
    assert b'name="action"' not in response.content
