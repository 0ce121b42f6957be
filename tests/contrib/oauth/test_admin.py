"""The admin of consents: staff see who allowed what, and take it back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser

from django_mcp.contrib.oauth.models import Consent
from tests.contrib.oauth.flow import ENDPOINT, PAGE, Flow, call

CONSENTS = "/admin/django_mcp_oauth/consent/"
TAKE_BACK: dict[str, Any] = {"action": "take_back", "index": "0"}


@pytest.fixture(autouse=True)
def urls(site: None, settings: Any) -> None:
    """The site has an admin as well."""
    settings.ROOT_URLCONF = "example_site.urls"


@pytest.fixture
def staff() -> User:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_consent"))
    return user


def browser_of(user: User) -> Browser:
    browser = Browser()
    browser.force_login(user)
    return browser


def open_page(browser: Browser, path: str = "") -> Any:
    return browser.get(CONSENTS + path, **PAGE)


def test_consents_are_listed_with_user_client_and_server(flow: Flow, staff: User) -> None:
    flow.tokens()
    browser = browser_of(staff)

    for path in ("", f"{Consent.objects.get().pk}/change/"):
        page = open_page(browser, path).text
        for text in ("ann", "Claude", "claude.ai", ENDPOINT):
            assert text in page
    assert "Use the shop" in page
    assert 'name="_save"' not in page
    assert "take_back" not in open_page(browser).text


@pytest.mark.parametrize(
    ("query", "count"), [("ann", 1), ("Claude", 1), ("claude.ai", 1), ("bob", 0)]
)
def test_consents_are_found_by_user_and_client(
    query: str, count: int, flow: Flow, staff: User
) -> None:
    flow.tokens()
    page = open_page(browser_of(staff), f"?q={query}").text
    assert f"{count} consent" in page


def test_consent_that_is_taken_back_ends_its_tokens(flow: Flow, staff: User) -> None:
    tokens = flow.tokens()
    staff.user_permissions.add(Permission.objects.get(codename="delete_consent"))
    browser, key = browser_of(staff), Consent.objects.get().pk
    assert "delete_selected" not in open_page(browser).text

    response = browser.post(CONSENTS, {**TAKE_BACK, "_selected_action": key}, follow=True, **PAGE)

    assert "1 consent was taken back." in response.text
    assert not Consent.objects.exists()
    assert call(tokens["access_token"]).status == 401
    assert flow.refresh(tokens["refresh_token"]).status_code == 400


def test_consent_that_is_deleted_ends_its_tokens(flow: Flow, admin_user: User) -> None:
    tokens = flow.tokens()
    path = f"{CONSENTS}{Consent.objects.get().pk}/delete/"

    browser_of(admin_user).post(path, {"post": "yes"}, **PAGE)

    assert not Consent.objects.exists()
    assert call(tokens["access_token"]).status == 401


def test_staff_without_the_permission_cannot_take_back(flow: Flow, staff: User) -> None:
    tokens = flow.tokens()
    key = Consent.objects.get().pk

    browser_of(staff).post(CONSENTS, {**TAKE_BACK, "_selected_action": key}, **PAGE)

    assert Consent.objects.exists()
    assert call(tokens["access_token"]).status == 200


@pytest.mark.parametrize("path", ["add/", "{key}/change/"])
def test_consents_can_be_neither_added_nor_changed(path: str, flow: Flow, admin_user: User) -> None:
    flow.tokens()
    path = CONSENTS + path.format(key=Consent.objects.get().pk)
    assert browser_of(admin_user).post(path, {}, **PAGE).status_code == 403
