"""A new password ends the tokens that its user made."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.test import Client as Browser

from django_mcp import Server
from django_mcp.contrib.tokens.models import PersonalAccessToken
from tests.contrib.tokens.token_pages import PAGE, TOKEN, fields
from tests.memory_stores import Configure, configure
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

TOKENS = ["django_mcp.auth.token.TokenAuthentication"]


@pytest.fixture
def wire(configure: Configure) -> AsgiClient:
    configure(AUTHENTICATORS=TOKENS, TOKEN_CACHE_TTL=600)
    server = Server("shop")
    server.register_tool("count", lambda: "7", description="Count.")
    return AsgiClient(server)


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password="old")


@pytest.fixture
def own(wire: AsgiClient, ann: User) -> str:
    """A token that Ann made on her page."""
    browser = Browser()
    browser.force_login(ann)
    (token,) = set(TOKEN.findall(browser.post(PAGE, fields()).text))
    return str(token)


def status(wire: AsgiClient, token: str) -> int | None:
    headers = {"authorization": f"Bearer {token}"}
    return async_to_sync(wire.post)(wire.request("tools/list"), headers).status


def test_new_password_ends_the_tokens_that_the_user_made(
    wire: AsgiClient, ann: User, own: str
) -> None:
    bob = User.objects.create_user("bob")
    _, of_bob = PersonalAccessToken.objects.issue(bob, "Laptop", made_by_owner=True)
    _, of_program = PersonalAccessToken.objects.issue(ann, "Report")
    assert [status(wire, token) for token in (own, of_bob, of_program)] == [200] * 3

    ann.set_password("new")
    ann.save()

    assert [status(wire, token) for token in (own, of_bob, of_program)] == [401, 200, 200]


def test_new_password_on_a_page_ends_the_tokens_of_the_user(
    wire: AsgiClient, ann: User, own: str, admin_client: Browser
) -> None:
    passwords = {"password1": "Kq7-new-word", "password2": "Kq7-new-word"}
    page = admin_client.post(f"/admin/auth/user/{ann.pk}/password/", passwords)
    assert page.status_code == 302

    assert status(wire, own) == 401


def test_tokens_go_on_where_the_site_says_so(
    wire: AsgiClient, ann: User, own: str, configure: Configure
) -> None:
    configure(AUTHENTICATORS=TOKENS, TOKENS_END_WITH_PASSWORD=False)

    ann.set_password("new")
    ann.save()

    assert status(wire, own) == 200


def test_same_password_with_a_newer_hasher_ends_nothing(
    wire: AsgiClient, ann: User, own: str, settings: Any
) -> None:
    hashers = "django.contrib.auth.hashers"
    settings.PASSWORD_HASHERS = [
        f"{hashers}.PBKDF2SHA1PasswordHasher",
        f"{hashers}.MD5PasswordHasher",
    ]
    ann.password = make_password("old", hasher="md5")
    ann.save()

    assert ann.check_password("old")
    assert not User.objects.get().password.startswith("md5")
    assert status(wire, own) == 200


@pytest.mark.parametrize("change", [{"email": "ann@example.org"}, {"first_name": "Ann"}])
def test_other_change_of_the_user_ends_nothing(
    wire: AsgiClient, ann: User, own: str, change: dict[str, Any]
) -> None:
    for name, value in change.items():
        setattr(ann, name, value)
    ann.save()
    ann.set_password("not written")
    ann.save(update_fields=[*change])

    assert status(wire, own) == 200


def test_token_that_an_administrator_made_for_a_program_is_not_its_own(
    wire: AsgiClient, ann: User, admin_client: Browser
) -> None:
    page = "/admin/django_mcp_tokens/personalaccesstoken/add/"
    root = User.objects.get(username="admin")
    for owner in (ann, root):
        form = {"owner": owner.pk, "name": owner.username, "expires_at_0": "", "expires_at_1": ""}
        assert admin_client.post(page, form).status_code == 200

    made = dict(PersonalAccessToken.objects.values_list("name", "made_by_owner"))
    assert made == {"ann": False, "admin": True}
