"""One section of the admin for the package and its apps."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.test import Client as Browser
from django.test import RequestFactory

from django_mcp.contrib.call_log.admin import CallAdmin
from django_mcp.contrib.call_log.models import Call
from django_mcp.contrib.tokens.admin import PersonalAccessTokenAdmin
from django_mcp.contrib.tokens.models import PersonalAccessToken
from tests.admin.site import browser_of, text_of

pytestmark = pytest.mark.django_db


def sections(response: Any) -> dict[str, list[str]]:
    """The names of the models by that of their section."""
    listed = response.context["app_list"]
    return {str(app["name"]): [str(row["name"]) for row in app["models"]] for app in listed}


@pytest.fixture
def browser(client: Browser) -> Browser:
    client.force_login(get_user_model().objects.create_superuser("manager"))
    return client


def test_package_and_its_apps_have_one_section(browser: Browser) -> None:
    listed = sections(browser.get("/admin/"))
    assert [name for name in listed if name.startswith("MCP")] == ["MCP"]
    models = listed["MCP"]
    assert models == sorted(models)
    assert {"Components", "Tasks", "Calls", "Approvals", "Access tokens", "Consents"} < {*models}
    assert "Authentication and Authorization" in listed


@pytest.mark.parametrize("label", ["django_mcp", "django_mcp_calls", "django_mcp_tokens"])
def test_page_of_each_app_is_that_of_the_section(browser: Browser, label: str) -> None:
    response = browser.get(f"/admin/{label}/")
    assert [*sections(response)] == ["MCP"]
    assert "Components" in text_of(response)


def test_page_of_another_app_is_its_own(browser: Browser) -> None:
    assert [*sections(browser.get("/admin/auth/"))] == ["Authentication and Authorization"]
    assert browser.get("/admin/unknown/").status_code == 404


def test_section_has_what_its_reader_may_see() -> None:
    assert sections(browser_of("reader", "view_call").get("/admin/")) == {"MCP": ["Calls"]}
    reader = browser_of("other", "view_user")
    assert "MCP" not in sections(reader.get("/admin/"))
    assert reader.get("/admin/django_mcp_calls/").status_code == 404


class OwnSite(admin.AdminSite):
    """A site with an order of its own, and a section that is no app."""

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        listed = super().get_app_list(request, app_label)
        last = {"app_label": "own", "name": "Own", "models": [], "app_url": "/"}
        return [*reversed(listed), last]


def test_list_of_another_site_keeps_its_order() -> None:
    site = OwnSite("own")
    site.register(Call, CallAdmin)
    site.register(PersonalAccessToken, PersonalAccessTokenAdmin)
    site.register(get_user_model())
    request = RequestFactory().get("/")
    request.user = get_user_model()(is_superuser=True, is_active=True, is_staff=True)
    listed = site.get_app_list(request)
    assert [str(app["name"]) for app in listed] == [
        "MCP",
        "Authentication and Authorization",
        "Own",
    ]
    assert len(listed[0]["models"]) == 2
