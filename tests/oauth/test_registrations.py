"""mcp_prune deletes clients that were never used, and no others."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from oauth2_provider.models import Application

from django_mcp.oauth import registrations
from tests.oauth.flow import CALLBACK, Flow, call, document, post

LONG_AGO = timedelta(days=31)


def prune() -> str:
    output = io.StringIO()
    call_command("mcp_prune", stdout=output)
    return output.getvalue()


def register() -> str:
    response = post("/o/register", document("cursor.registration"), content_type="application/json")
    found: str = response.json()["client_id"]  # type: ignore[attr-defined]
    return found


def age(by: timedelta = LONG_AGO) -> None:
    Application.objects.update(created=timezone.now() - by)


def test_clients_that_were_never_used_are_deleted(
    documents: Callable[..., Any], user: User
) -> None:
    abandoned = Flow(documents("claude_ai")["client_id"], CALLBACK, user)
    assert abandoned.open().status_code == 200
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
