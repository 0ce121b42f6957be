"""The pages of users for their own tokens: shown once, and never for somebody else's."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from django_mcp import Server, registry
from django_mcp.auth.token import TokenAuthentication, digest_of, is_well_formed
from django_mcp.contrib.tokens import views
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.contrib.tokens.views import TokensView
from tests.contrib.tokens.token_pages import PAGE, TOKEN, fields

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers which accept tokens, and one which does not."""
    # It has the scopes of the settings with which a process has first used it.
    monkeypatch.setattr(registry.default, "_scopes", frozenset({"helpdesk"}))
    shop = Server("shop", authenticators=[TokenAuthentication()], scopes=["shop"])
    till = Server("till", authenticators=[TokenAuthentication()])
    bare = Server("bare", authenticators=[])

    @till.tool(scopes=["cash:write"], group="drawer")
    def open_drawer() -> None:
        """Open the drawer."""

    monkeypatch.setattr(
        registry.registered,
        "servers",
        {each.name: each for each in (registry.default, shop, till, bare)},
    )


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password="tea")


@pytest.fixture
def browser(ann: User) -> Browser:
    browser = Browser()
    browser.force_login(ann)
    return browser


def test_pages_need_a_login(ann: User) -> None:
    row, _ = PersonalAccessToken.objects.issue(ann, "laptop")
    stranger = Browser()
    for url in (PAGE, f"{PAGE}{row.pk}/revoke/"):
        for response in (stranger.get(url), stranger.post(url, fields())):
            assert response.status_code == 302
            assert response.headers["location"].startswith("/login/")
    assert PersonalAccessToken.objects.count() == 1


def test_token_is_shown_once_and_works(browser: Browser, ann: User) -> None:
    chosen = {"scopes": ["cash:write"], "servers": ["till"], "groups": ["drawer"]}
    response = browser.post(PAGE, fields(**chosen, read_only="on"))
    shown = set(TOKEN.findall(response.text))

    assert len(shown) == 1
    assert is_well_formed(token := shown.pop())
    row = PersonalAccessToken.objects.get()
    assert (row.owner, row.name, row.digest) == (ann, "laptop", digest_of(token))
    assert (row.scopes, row.servers) == (["cash:write"], ["till"])
    assert (row.groups, row.read_only) == (["drawer"], True)
    assert row.expires_at is not None
    assert timedelta(days=29) < row.expires_at - timezone.now() <= timedelta(days=30)
    assert "no-store" in response.headers["cache-control"]
    assert response.headers["x-frame-options"] == "DENY"

    page = browser.get(PAGE).text
    assert TOKEN.search(page) is None
    assert row.digest not in page
    assert f"{token[:10]}…" in page
    assert "<dd>drawer</dd>" in page
    assert "Only what changes nothing" in page


def test_form_offers_known_scopes_and_the_servers_that_accept_tokens(browser: Browser) -> None:
    form = browser.get(PAGE).context["form"]
    assert {"shop", "cash:write"} <= {name for name, _ in form.fields["scopes"].choices}
    names = {name for name, _ in form.fields["servers"].choices}
    assert {"shop", "till"} <= names
    assert "bare" not in names


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"lifetime": "36500"},
        {"lifetime": ""},
        {"scopes": ["root"]},
        {"servers": ["bare"]},
        {"groups": ["kitchen"]},
    ],
)
def test_invalid_form_creates_nothing(browser: Browser, wrong: dict[str, Any]) -> None:
    response = browser.post(PAGE, fields(**wrong))
    assert response.status_code == 200
    assert response.context["form"].errors
    assert not PersonalAccessToken.objects.exists()


def test_scopes_that_servers_need_are_ticked(browser: Browser) -> None:
    """Without them, the token would be refused at each request."""
    form = browser.get(PAGE).context["form"]
    needed = ["helpdesk", "shop"]
    assert form["scopes"].initial == needed
    ticked = [box.data["attrs"].get("checked") for box in form["scopes"].subwidgets]
    named = [box.data["value"] for box in form["scopes"].subwidgets]
    assert [name for name, is_ticked in zip(named, ticked, strict=True) if is_ticked] == needed


def test_site_limits_the_scopes_of_users(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TokensView, "get_scopes", lambda view: ["read"])
    browser.post(PAGE, fields(scopes=["cash:write"]))
    assert not PersonalAccessToken.objects.exists()
    browser.post(PAGE, fields(scopes=["read"]))
    assert PersonalAccessToken.objects.get().scopes == ["read"]


def test_tokens_of_a_user_are_bounded(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_TOKENS", 1)
    browser.post(PAGE, fields())
    assert "too many tokens" in browser.post(PAGE, fields()).text
    PersonalAccessToken.objects.get().revoke()
    browser.post(PAGE, fields())
    assert PersonalAccessToken.objects.count() == 2


def test_user_sees_and_revokes_only_own_tokens(browser: Browser, ann: User) -> None:
    bob = User.objects.create_user("bob")
    own, _ = PersonalAccessToken.objects.issue(ann, "own token")
    other, _ = PersonalAccessToken.objects.issue(bob, "token of bob")

    page = browser.get(PAGE).text
    assert "own token" in page
    assert "token of bob" not in page
    assert browser.post(f"{PAGE}{other.pk}/revoke/").status_code == 404
    assert browser.get(f"{PAGE}{own.pk}/revoke/").status_code == 405
    assert browser.post(f"{PAGE}{own.pk}/revoke/").headers["location"] == PAGE
    own.refresh_from_db()
    other.refresh_from_db()
    assert own.revoked_at is not None
    assert other.revoked_at is None
    assert "revoked" in browser.get(PAGE).text


def test_foreign_page_can_neither_create_nor_revoke(ann: User) -> None:
    row, _ = PersonalAccessToken.objects.issue(ann, "laptop")
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(ann)
    foreign = {"origin": "https://evil.example"}
    for url in (PAGE, f"{PAGE}{row.pk}/revoke/"):
        assert browser.post(url, fields(), headers=foreign).status_code == 403
        assert browser.post(url, fields()).status_code == 403
    row.refresh_from_db()
    assert row.revoked_at is None
    assert PersonalAccessToken.objects.count() == 1


def test_csrf_is_checked_without_the_middleware_of_the_site(ann: User, settings: Any) -> None:
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "Csrf" not in each]
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(ann)
    assert browser.post(PAGE, fields()).status_code == 403


def test_form_of_the_page_passes_the_csrf_check(ann: User) -> None:
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(ann)
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(PAGE).text)
    assert found is not None
    response = browser.post(PAGE, fields(csrfmiddlewaretoken=found[1]))
    assert TOKEN.search(response.text)


def test_names_are_escaped(browser: Browser, ann: User) -> None:
    PersonalAccessToken.objects.issue(ann, "<script>alert(1)</script>")
    assert "<script>alert" not in browser.get(PAGE).text
    assert "<script>alert" not in browser.post(PAGE, fields(name="<script>alert")).text


def test_templates_can_be_overridden(browser: Browser, settings: Any, tmp_path: Any) -> None:
    (tmp_path / "django_mcp_tokens").mkdir()
    base = "<title>Shop</title>{% block content %}{% endblock %}"
    (tmp_path / "django_mcp_tokens" / "base.html").write_text(base)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    page = browser.get(reverse("django_mcp_tokens:list")).text
    assert page.startswith("<title>Shop</title>")
    assert "New token" in page


def test_scopes_are_told_in_the_words_of_the_site(browser: Browser, ann: User) -> None:
    PersonalAccessToken.objects.issue(ann, "laptop", scopes=["helpdesk"])
    text = browser.get(PAGE).text
    assert "<li>Use the helpdesk and the desk</li>" in text


def test_scopes_without_words_are_told_by_their_names(browser: Browser, ann: User) -> None:
    PersonalAccessToken.objects.issue(ann, "laptop", scopes=["cash:write"])
    assert "<li>cash:write</li>" in browser.get(PAGE).text


def test_page_without_tokens_explains_what_will_be_there(browser: Browser) -> None:
    assert "with the time of its last use" in browser.get(PAGE).text


def test_site_without_other_pages_links_only_to_this_one(
    browser: Browser, settings: Settings
) -> None:
    settings.ROOT_URLCONF = "tests.contrib.tokens.urls"
    text = browser.get(PAGE).text
    assert "Access tokens</a>" in text
    assert "Connected programs" not in text
