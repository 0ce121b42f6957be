"""The admin of tokens: shown once, revoked by an action, and created for others by superusers."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from django.utils import timezone

from django_mcp.auth.token import digest_of
from django_mcp.contrib.tokens.admin import PersonalAccessTokenAdmin
from django_mcp.contrib.tokens.models import PersonalAccessToken

pytestmark = pytest.mark.django_db

TOKENS = "/admin/django_mcp_tokens/personalaccesstoken/"
TOKEN = re.compile(r"djmcp_\w{49}")


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def root(admin_client: Browser) -> Browser:
    return admin_client


@pytest.fixture
def staff() -> Browser:
    """A member of staff with all permissions for tokens."""
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="django_mcp_tokens")
    )
    browser = Browser()
    browser.force_login(user)
    return browser


def fields(**changed: Any) -> dict[str, Any]:
    return {"name": "laptop", "expires_at_0": "", "expires_at_1": "", **changed}


def test_token_is_shown_once_when_it_is_created(root: Browser, ann: User) -> None:
    response = root.post(f"{TOKENS}add/", fields(owner=ann.pk))
    (token,) = set(TOKEN.findall(response.text))
    row = PersonalAccessToken.objects.get()
    assert (row.owner, row.digest) == (ann, digest_of(token))
    assert "no-store" in response.headers["cache-control"]
    assert token not in str(LogEntry.objects.values())

    for url in (TOKENS, f"{TOKENS}{row.pk}/change/", f"{TOKENS}{row.pk}/history/"):
        page = root.get(url).text
        assert TOKEN.search(page) is None, url
        assert row.digest not in page, url
    assert f"{token[:10]}…" in root.get(TOKENS).text


def test_staff_creates_tokens_only_for_themselves(staff: Browser, ann: User) -> None:
    assert 'name="owner"' not in staff.get(f"{TOKENS}add/").text
    staff.post(f"{TOKENS}add/", fields(owner=ann.pk))
    assert PersonalAccessToken.objects.get().owner.username == "staff"


def test_admin_is_valid_where_users_have_none() -> None:
    assert PersonalAccessTokenAdmin(PersonalAccessToken, AdminSite()).check() == []


def test_owner_and_digest_cannot_be_changed(root: Browser, ann: User) -> None:
    row, token = PersonalAccessToken.objects.issue(ann, "laptop")
    other = User.objects.create_user("bob")
    url = f"{TOKENS}{row.pk}/change/"
    root.post(url, fields(name="desk", owner=other.pk, digest="0" * 64, revoked_at=""))
    row.refresh_from_db()
    assert (row.name, row.owner, row.digest) == ("desk", ann, digest_of(token))


def test_change_keeps_names_that_the_site_does_not_know_any_more(root: Browser, ann: User) -> None:
    row, _ = PersonalAccessToken.objects.issue(ann, "laptop", scopes=["old"], servers=["gone"])
    root.post(f"{TOKENS}{row.pk}/change/", fields(scopes=["old"], servers=["gone"]))
    row.refresh_from_db()
    assert (row.scopes, row.servers) == (["old"], ["gone"])


def test_expiry_in_the_past_is_an_error_but_stays_on_an_expired_token(
    root: Browser, ann: User
) -> None:
    past = (timezone.now() - timedelta(days=1)).replace(microsecond=0)
    given = {"expires_at_0": past.strftime("%Y-%m-%d"), "expires_at_1": past.strftime("%H:%M:%S")}
    response = root.post(f"{TOKENS}add/", fields(owner=ann.pk, **given))
    assert "This is in the past." in response.text
    row, _ = PersonalAccessToken.objects.issue(ann, "laptop", expires_at=past)
    root.post(f"{TOKENS}{row.pk}/change/", fields(name="desk", **given))
    row.refresh_from_db()
    assert (row.name, row.expires_at) == ("desk", past)


def test_action_revokes_selected_tokens(staff: Browser, ann: User) -> None:
    rows = [PersonalAccessToken.objects.issue(ann, name)[0] for name in ("one", "two", "three")]
    selected = {"action": "revoke", "_selected_action": [row.pk for row in rows[:2]]}
    page = staff.post(TOKENS, selected, follow=True).text
    assert "2 access tokens were revoked." in page
    kept = PersonalAccessToken.objects.unrevoked()
    assert [row.name for row in kept] == ["three"]
    assert page.count("revoked</td>") == 2


def test_staff_without_permissions_sees_no_tokens(ann: User) -> None:
    browser = Browser()
    browser.force_login(User.objects.create_user("new", is_staff=True))
    assert browser.get(TOKENS).status_code == 403
    assert "django_mcp_tokens" not in browser.get("/admin/").text


def test_list_is_not_filtered_by_the_digest(staff: Browser) -> None:
    for lookup in ("digest__startswith", "owner__password__startswith"):
        assert staff.get(TOKENS, {lookup: "a"}).status_code == 400, lookup
    assert staff.get(TOKENS, {"name__contains": "a"}).status_code == 200
