"""mcp_prune deletes clients that were never used, and no others."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import Application

from django_mcp.contrib.oauth import registrations
from tests.contrib.oauth.flow import PAGE, SITE, Flow, call, document, post

if TYPE_CHECKING:
    from pytest_django import Settings

LONG_AGO = timedelta(days=31)


def prune() -> str:
    output = io.StringIO()
    call_command("mcp_prune", stdout=output)
    return output.getvalue()


OWN = {"client_name": "Own", "redirect_uris": ["https://own.example/cb"]}


def registered(metadata: dict[str, Any], address: str = "192.0.2.1") -> dict[str, Any]:
    """The answer to a registration from this IP address."""
    response = post("/o/register", metadata, content_type="application/json", REMOTE_ADDR=address)
    assert response.status_code == 201, response.content
    assert response["Cache-Control"] == "no-store"
    found: dict[str, Any] = response.json()  # type: ignore[attr-defined]
    return found


def register(address: str = "192.0.2.1") -> str:
    client_id: str = registered(document("cursor.registration"), address)["client_id"]
    return client_id


def age(by: timedelta = LONG_AGO) -> None:
    Application.objects.update(created=timezone.now() - by)


# What is answered (RFC 7591, section 3.2.1).


@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post", None])
def test_registration_is_answered_with_all_of_its_metadata(method: str | None) -> None:
    asked = {**OWN, "scope": "mcp write", "client_uri": "https://own.example/", "software_id": "7"}
    if method is not None:
        asked["token_endpoint_auth_method"] = method
    answer = registered(asked)
    read = Browser().get(
        answer["registration_client_uri"].removeprefix(SITE),
        **PAGE,
        HTTP_AUTHORIZATION=f"Bearer {answer['registration_access_token']}",
    )
    assert read["Cache-Control"] == "no-store"
    for found in (answer, read.json()):
        assert found["token_endpoint_auth_method"] == (method or "client_secret_basic")
        assert found["grant_types"] == ["authorization_code", "refresh_token"]
        assert found["response_types"] == ["code"]
        assert {name: found[name] for name in (*OWN, "scope", "client_uri", "software_id")} == {
            name: asked[name] for name in (*OWN, "scope", "client_uri", "software_id")
        }
    has_secret = method != "none"
    assert ("client_secret" in answer) is has_secret
    assert answer.get("client_secret_expires_at") == (0 if has_secret else None)


def test_registration_is_managed_at_the_public_url(settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://public.example"}
    url = registered(OWN)["registration_client_uri"]
    assert url.startswith("https://public.example/o/register/")


# How many are kept.


def test_oldest_unused_client_of_a_network_makes_room(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    monkeypatch.setattr(registrations, "MAX_UNUSED", 2)
    allowed = Flow(register(), "http://localhost:8787/callback", user)
    allowed.tokens()
    clients = [register() for _ in range(3)]
    age(timedelta(minutes=11))
    newest = register()
    kept = {*Application.objects.values_list("client_id", flat=True)}
    assert kept == {allowed.client_id, *clients[1:], newest}


def test_new_client_is_kept_while_its_user_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MAX_UNUSED", 2)
    for _ in range(5):
        register()
    assert Application.objects.count() == 5


def test_new_clients_of_a_network_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MAX_NEW", 3)
    clients = [register() for _ in range(5)]
    kept = {*Application.objects.values_list("client_id", flat=True)}
    assert kept == {*clients[2:]}


def test_all_addresses_of_a_network_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MAX_NEW", 3)
    other = register("2001:db8:0:2::1")
    for host in range(10):
        register(f"2001:db8:0:1:{host:x}::1")
    assert Application.objects.count() == 4
    assert Application.objects.filter(client_id=other).exists()


def test_clients_that_were_never_used_are_deleted() -> None:
    register()
    register()
    age()
    assert Application.objects.count() == 2

    assert "Deleted 2 clients that were never used." in prune()

    assert not Application.objects.exists()
    assert "Deleted 0 clients" in prune()


def test_client_that_registered_recently_is_kept() -> None:
    register()
    age(timedelta(days=29))
    assert registrations.prune() == 0
    assert Application.objects.exists()


def test_client_with_access_is_kept(flow: Flow) -> None:
    tokens = flow.tokens()
    age()
    assert registrations.prune() == 0
    assert call(tokens["access_token"]).status == 200


def test_client_whose_user_has_just_allowed_it_is_kept(flow: Flow) -> None:
    code = flow.code()
    age()
    assert registrations.prune() == 0
    assert flow.token(code).status_code == 200


def test_client_that_the_site_added_is_kept() -> None:
    Application.objects.create(
        client_type="confidential", authorization_grant_type="client-credentials"
    )
    age()
    assert registrations.prune() == 0


def test_many_clients_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "BATCH", 2)
    for _ in range(5):
        register()
    age()
    assert registrations.prune() == 5


def test_deleted_client_registers_again(user: User) -> None:
    uri = "http://localhost:8787/callback"
    first = register()
    age()
    registrations.prune()
    assert Flow(first, uri, user).open().status_code == 400
    assert Flow(register(), uri, user).tokens()["access_token"]
