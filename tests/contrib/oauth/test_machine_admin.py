"""The admin of machine clients and trusted issuers: who may let somebody act as a user."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser

from django_mcp.contrib.oauth.models import (
    ExternalIdentity,
    MachineClient,
    ManagedAccess,
    TrustedIssuer,
)
from tests.contrib.oauth.flow import ENDPOINT, PAGE, call, issued
from tests.contrib.oauth.signer import client_claims, key, machine, public, request, sign

MACHINES = "/admin/django_mcp_oauth/machineclient/"
ISSUERS = "/admin/django_mcp_oauth/trustedissuer/"
ACCESSES = "/admin/django_mcp_oauth/managedaccess/"
SHOWN = re.compile(r'<code(?: class="token")?>([^<]+)</code>')


@pytest.fixture(autouse=True)
def urls(site: None, settings: Any) -> None:
    """The site has an admin as well."""
    settings.ROOT_URLCONF = "example_site.urls"


@pytest.fixture
def robot() -> User:
    return User.objects.create_user("robot")


@pytest.fixture
def browser(admin_user: User) -> Browser:
    browser = Browser()
    browser.force_login(admin_user)
    return browser


def staff(*codenames: str) -> Browser:
    user = User.objects.create_user("staff", is_staff=True)
    for codename in codenames:
        user.user_permissions.add(Permission.objects.get(codename=codename))
    browser = Browser()
    browser.force_login(user)
    return browser


def form(user: User, **changes: Any) -> dict[str, Any]:
    fields = {"name": "Nightly report", "user": user.pk, "scope": ["mcp"], "is_active": "on"}
    return {**fields, "jwks": "", "jwks_uri": "", **changes}


def added(browser: Browser, user: User, **changes: Any) -> Any:
    return browser.post(f"{MACHINES}add/", form(user, **changes), **PAGE)


def basic(client_id: str, secret: str) -> str:
    return b64encode(f"{client_id}:{secret}".encode()).decode()


def test_superuser_registers_a_machine_and_sees_its_secret_once(
    browser: Browser, robot: User
) -> None:
    page = added(browser, robot)

    assert page.status_code == 200, page.content
    client_id, secret = SHOWN.findall(page.text)
    assert page["Cache-Control"].startswith("max-age=0")
    row = MachineClient.objects.get()
    assert (row.user, row.scopes, row.application.client_id) == (robot, ["mcp"], client_id)
    assert row.application.client_secret != secret
    token = request(basic=basic(client_id, secret)).json()["access_token"]  # type: ignore[attr-defined]
    assert f"robot by {client_id}" in call(token).body.decode()
    for path in ("", f"{row.pk}/change/"):
        listed = browser.get(MACHINES + path, **PAGE).text
        assert "Nightly report" in listed
        assert secret not in listed


def test_machine_with_keys_has_no_secret_to_show(browser: Browser, robot: User) -> None:
    page = added(browser, robot, jwks=json.dumps(public(key("one"))))
    (client_id,) = SHOWN.findall(page.text)
    assert request(sign(client_claims(client_id), key("one"))).status_code == 200


def test_private_key_is_not_stored(browser: Browser, robot: User) -> None:
    page = added(browser, robot, jwks=json.dumps({"keys": [key("one").export(as_dict=True)]}))
    assert "public keys only" in page.text
    assert not MachineClient.objects.exists()


def test_secret_is_replaced(browser: Browser, robot: User) -> None:
    row = machine(robot)
    action = {"action": "replace_secret", "_selected_action": row.pk}
    page = browser.post(MACHINES, action, **PAGE)
    _, secret = SHOWN.findall(page.text)
    for each in (secret, "s3cret"):
        assert request(basic=basic("robot", each)).status_code == 200
    signer = machine(robot, name="Signer", jwks=public(key("one")))
    refused = browser.post(MACHINES, {**action, "_selected_action": signer.pk}, **PAGE, follow=True)
    assert "authenticates by a secret" in refused.text


@pytest.mark.parametrize("change", ["user", "is_active", "scope"])
def test_change_of_a_machine_ends_its_tokens(change: str, browser: Browser, robot: User) -> None:
    row = machine(robot, name="Robot")
    token = request(basic=basic("robot", "s3cret")).json()["access_token"]  # type: ignore[attr-defined]
    other = User.objects.create_user("other")
    changes = {"user": other.pk, "is_active": "", "scope": ["mcp", "write"]}
    fields = {**form(robot, name="Robot"), change: changes[change]}
    assert call(token).status == 200
    changed = browser.post(f"{MACHINES}{row.pk}/change/", fields, **PAGE)
    assert changed.status_code == 302, changed.content
    assert call(token).status == 401


def test_new_name_ends_nothing(browser: Browser, robot: User) -> None:
    row = machine(robot)
    token = request(basic=basic("robot", "s3cret")).json()["access_token"]  # type: ignore[attr-defined]
    browser.post(f"{MACHINES}{row.pk}/change/", form(robot, name="New"), **PAGE)
    row.application.refresh_from_db()
    assert row.application.name == "New"
    assert call(token).status == 200


@pytest.mark.parametrize("by_action", [True, False])
def test_machine_that_is_deleted_leaves_no_client(
    by_action: bool, browser: Browser, robot: User
) -> None:
    from oauth2_provider.models import Application

    row = machine(robot)
    token = request(basic=basic("robot", "s3cret")).json()["access_token"]  # type: ignore[attr-defined]
    if by_action:
        action = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
        browser.post(MACHINES, action, **PAGE)
    else:
        browser.post(f"{MACHINES}{row.pk}/delete/", {"post": "yes"}, **PAGE)
    assert not Application.objects.exists()
    assert call(token).status == 401


def test_staff_with_permissions_cannot_choose_a_user(robot: User, admin_user: User) -> None:
    browser = staff(*(f"{verb}_{model}" for verb in ("add", "change", "view") for model in MODELS))
    row = machine(robot)
    assert added(browser, admin_user).status_code == 403
    assert browser.get(f"{MACHINES}{row.pk}/change/", **PAGE).status_code == 200
    fields = form(admin_user)
    assert browser.post(f"{MACHINES}{row.pk}/change/", fields, **PAGE).status_code == 403
    page = browser.post(MACHINES, {"action": "replace_secret", "_selected_action": row.pk}, **PAGE)
    assert not SHOWN.findall(page.text)
    issuer = {"name": "Evil", "issuer": "https://evil.example", "scope": ["mcp"]}
    assert browser.post(f"{ISSUERS}add/", issuer, **PAGE).status_code == 403


MODELS = ("machineclient", "trustedissuer")


def test_superuser_trusts_an_issuer_and_ends_its_tokens(
    browser: Browser, robot: User, user: User
) -> None:
    fields = {"name": "Acme", "issuer": "https://idp.example", "scope": ["mcp"], "is_active": "on"}
    refused = browser.post(f"{ISSUERS}add/", {**fields, "issuer": "http://idp.example"}, **PAGE)
    assert "begins with https://" in refused.text
    assert browser.post(f"{ISSUERS}add/", fields, **PAGE).status_code == 302
    trusted = TrustedIssuer.objects.get()
    token = issued(user)
    access = allow(trusted, user)
    assert call(token).status == 200
    browser.post(f"{ISSUERS}{trusted.pk}/change/", {**fields, "is_active": ""}, **PAGE)
    trusted.refresh_from_db()
    assert not trusted.is_active
    assert access.ended_at is None
    assert call(token).status == 401


def allow(trusted: TrustedIssuer, user: User) -> ManagedAccess:
    from oauth2_provider.models import Application

    return ManagedAccess.objects.create(
        user=user,
        application=Application.objects.get(client_id="made"),
        trusted_issuer=trusted,
        resource=ENDPOINT,
        scope="mcp",
    )


@pytest.mark.parametrize("by_action", [True, False])
def test_issuer_that_is_deleted_ends_its_tokens(
    by_action: bool, browser: Browser, user: User
) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer="https://idp.example", scope="mcp")
    token = issued(user)
    allow(trusted, user)
    if by_action:
        action = {"action": "delete_selected", "_selected_action": trusted.pk, "post": "yes"}
        browser.post(ISSUERS, action, **PAGE)
    else:
        browser.post(f"{ISSUERS}{trusted.pk}/delete/", {"post": "yes"}, **PAGE)
    assert not TrustedIssuer.objects.exists()
    assert call(token).status == 401


def test_access_of_a_company_is_ended_and_allowed_again(user: User) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer="https://idp.example", scope="mcp")
    token = issued(user)
    access = allow(trusted, user)
    browser = staff("view_managedaccess", "change_managedaccess")
    listed = browser.get(ACCESSES, **PAGE).text
    for text in ("ann", "Acme", ENDPOINT, "1 access by a company"):
        assert text in listed
    action = {"action": "end", "_selected_action": access.pk}
    assert "1 access was ended." in browser.post(ACCESSES, action, follow=True, **PAGE).text
    assert call(token).status == 401
    access.refresh_from_db()
    assert access.ended_at is not None
    browser.post(ACCESSES, {**action, "action": "allow_again"}, **PAGE)
    access.refresh_from_db()
    assert access.ended_at is None


def test_staff_who_only_see_accesses_end_none(user: User) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer="https://idp.example", scope="mcp")
    issued(user)
    access = allow(trusted, user)
    browser = staff("view_managedaccess")
    browser.post(ACCESSES, {"action": "end", "_selected_action": access.pk}, **PAGE)
    assert browser.post(f"{ACCESSES}{access.pk}/delete/", {"post": "y"}, **PAGE).status_code == 403
    access.refresh_from_db()
    assert access.ended_at is None


def test_access_that_is_deleted_ends_its_tokens(browser: Browser, user: User) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer="https://idp.example", scope="mcp")
    token = issued(user)
    access = allow(trusted, user)
    browser.post(f"{ACCESSES}{access.pk}/delete/", {"post": "yes"}, **PAGE)
    assert not ManagedAccess.objects.exists()
    assert call(token).status == 401


def test_identity_is_listed_and_unlinked(browser: Browser, user: User) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer="https://idp.example", scope="mcp")
    row = ExternalIdentity.objects.create(
        trusted_issuer=trusted, digest="d", subject="U1", user=user
    )
    path = "/admin/django_mcp_oauth/externalidentity/"
    listed = browser.get(path, **PAGE).text
    for text in ("U1", "Acme", "ann"):
        assert text in listed
    browser.post(f"{path}{row.pk}/delete/", {"post": "yes"}, **PAGE)
    assert not ExternalIdentity.objects.exists()
