"""Codes and refresh tokens are redeemed once: by two requests at once, again, and out of order."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils import timezone

from django_mcp.contrib.oauth import redemptions
from django_mcp.contrib.oauth.models import Consent, Redemption
from tests.contrib.oauth.flow import CALLBACK, Flow, at_once, call, post

if TYPE_CHECKING:
    from pytest_django import Settings

CHATGPT = "https://chatgpt.com/connector_platform_oauth_redirect"
LATER = timedelta(seconds=redemptions.REPEAT_SECONDS + 1)


def body(response: HttpResponse) -> dict[str, Any]:
    found: dict[str, Any] = response.json()  # type: ignore[attr-defined]
    return found


def age(by: timedelta = LATER) -> None:
    Redemption.objects.update(created=timezone.now() - by)


# A refresh whose answer was lost.


def test_refresh_that_is_repeated_is_answered_with_the_same_tokens(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    lost = body(flow.refresh(first))
    repeated = flow.refresh(first)
    assert repeated.status_code == 200, repeated.content
    again = body(repeated)
    assert again["access_token"] == lost["access_token"]
    assert again["refresh_token"] == lost["refresh_token"]
    assert 3500 < again["expires_in"] <= 3600
    assert call(again["access_token"]).status == 200
    assert flow.refresh(again["refresh_token"]).status_code == 200


def test_revoked_refresh_token_is_not_repeated(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    lost = body(flow.refresh(first))
    assert flow.revoke(first).status_code == 200
    assert flow.refresh(first).status_code == 400
    assert flow.refresh(lost["refresh_token"]).status_code == 400
    assert call(lost["access_token"]).status == 401


def test_client_revokes_no_redeemed_token_of_another_client(flow: Flow, documents: Any) -> None:
    first = flow.tokens()["refresh_token"]
    flow.refresh(first)
    other = Flow(documents("chatgpt")["client_id"], CHATGPT, flow.user)
    other.tokens()
    other.revoke(first)
    assert flow.refresh(first).status_code == 200


def test_refresh_that_is_repeated_later_ends_the_login(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    stolen = body(flow.refresh(first))
    age()
    repeated = flow.refresh(first)
    assert repeated.status_code == 400
    assert body(repeated)["error"] == "invalid_grant"
    assert call(stolen["access_token"]).status == 401


def test_refresh_whose_answer_was_used_ends_the_login(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    second = body(flow.refresh(first))
    third = body(flow.refresh(second["refresh_token"]))
    assert flow.refresh(first).status_code == 400
    assert call(third["access_token"]).status == 401
    assert flow.refresh(third["refresh_token"]).status_code == 400


def test_refresh_after_a_revocation_is_not_repeated(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    second = body(flow.refresh(first))
    assert flow.revoke(second["refresh_token"]).status_code == 200
    assert flow.refresh(first).status_code == 400


def test_refresh_of_a_user_who_was_deactivated_is_not_repeated(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    flow.refresh(first)
    User.objects.update(is_active=False)
    assert flow.refresh(first).status_code == 400


def test_refresh_is_not_repeated_for_another_client(flow: Flow, documents: Any) -> None:
    first = flow.tokens()["refresh_token"]
    flow.refresh(first)
    other = Flow(documents("claude_code")["client_id"], "http://localhost:1/callback", flow.user)
    other.tokens()
    response = other.refresh(first)
    assert response.status_code == 400
    assert body(response)["error"] == "invalid_grant"


def test_refresh_is_not_repeated_for_another_resource(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    flow.refresh(first)
    response = flow.refresh(first, resource="https://other.example/mcp")
    assert body(response)["error"] == "invalid_target"
    assert flow.refresh(first).status_code == 200


def test_refresh_is_repeated_after_the_key_of_the_site_was_rotated(
    flow: Flow, settings: Settings
) -> None:
    first = flow.tokens()["refresh_token"]
    second = body(flow.refresh(first))
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "n" * 50
    assert body(flow.refresh(first))["refresh_token"] == second["refresh_token"]


def test_tokens_that_may_be_repeated_are_not_stored_as_text(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    second = body(flow.refresh(first))
    stored = str([*Redemption.objects.values()])
    for token in (first, second["refresh_token"], second["access_token"]):
        assert token not in stored


def test_name_of_a_state_as_a_parameter_is_ignored(flow: Flow) -> None:
    first = flow.tokens()["refresh_token"]
    assert flow.refresh(first, redemption="x").status_code == 200


# A code that is redeemed twice.


def test_code_that_is_redeemed_twice_ends_what_came_of_it(flow: Flow) -> None:
    code = flow.code()
    first = body(flow.token(code))
    newer = body(flow.refresh(first["refresh_token"]))
    assert flow.token(code).status_code == 400
    assert call(newer["access_token"]).status == 401
    assert flow.refresh(newer["refresh_token"]).status_code == 400


def test_code_that_another_client_presents_ends_nothing(flow: Flow, documents: Any) -> None:
    code = flow.code()
    tokens = body(flow.token(code))
    other = Flow(documents("claude_code")["client_id"], "http://localhost:1/callback", flow.user)
    other.tokens()
    assert other.token(code).status_code == 400
    assert call(tokens["access_token"]).status == 200


def test_code_ends_no_other_login_of_the_same_client(flow: Flow) -> None:
    code = flow.code()
    flow.token(code)
    other = flow.tokens(prompt="consent")
    flow.token(code)
    assert call(other["access_token"]).status == 200


def test_code_with_another_redirect_is_an_invalid_grant(flow: Flow) -> None:
    code = flow.code()
    response = flow.token(code, redirect_uri="https://claude.ai/other")
    assert response.status_code == 400
    assert body(response)["error"] == "invalid_grant"
    assert flow.token(code).status_code == 200


# What is no code and no refresh token.


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"grant_type": "urn:ietf:params:oauth:grant-type:device_code"},
            "unsupported_grant_type",
        ),
        (
            {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "x"},
            "unsupported_grant_type",
        ),
        ({"grant_type": "authorization_code", "code": "a\0b"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": "a\0b"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": ""}, "invalid_grant"),
        ({"grant_type": "authorization_code", "code": "unknown"}, "invalid_grant"),
        ({"grant_type": "openid", "code": "unknown"}, "unsupported_grant_type"),
        ({}, "unsupported_grant_type"),
    ],
)
def test_malformed_request_for_tokens_is_an_error_as_json(
    fields: dict[str, str], error: str, flow: Flow
) -> None:
    flow.tokens()  # The client is known.
    response = post("/o/token", {"client_id": flow.client_id, **fields})
    assert response.status_code == 400, response.content
    assert body(response)["error"] == error
    assert response["Cache-Control"] == "no-store"


def test_refresh_for_a_resource_that_is_no_url_is_an_error_as_json(flow: Flow) -> None:
    response = flow.refresh(flow.tokens()["refresh_token"], resource="https://[")
    assert response.status_code == 400
    assert body(response)["error"] == "invalid_target"


def test_revocation_of_a_token_with_a_nul_is_an_error_as_json(flow: Flow) -> None:
    flow.tokens()
    response = flow.revoke("a\0b")
    assert response.status_code == 400
    assert body(response)["error"] == "invalid_request"


def test_redemptions_without_valid_tokens_are_pruned(flow: Flow) -> None:
    tokens = flow.tokens()
    kept = flow.tokens(prompt="consent")
    flow.revoke(tokens["refresh_token"])
    assert redemptions.prune() == 0
    age(redemptions.KEPT * 2)
    assert redemptions.prune() == 1
    assert call(kept["access_token"]).status == 200


# Two requests at once.

AT_ONCE = 6
REFRESHES = 8


@pytest.fixture
def real_flow(real_database: str, documents: Any) -> Flow:
    user = User.objects.create_user("ann")
    return Flow(documents("claude_ai")["client_id"], CALLBACK, user)


@pytest.mark.django_db(transaction=True)
def test_refreshes_at_once_are_answered_with_the_same_tokens(real_flow: Flow) -> None:
    first = real_flow.tokens()["refresh_token"]
    for _ in range(3):
        responses = at_once(AT_ONCE, lambda _: real_flow.refresh(first))  # noqa: B023
        assert [response.status_code for response in responses] == [200] * AT_ONCE
        assert len({body(response)["refresh_token"] for response in responses}) == 1
        assert len({body(response)["access_token"] for response in responses}) == 1
        first = body(responses[0])["refresh_token"]
    assert call(body(responses[0])["access_token"]).status == 200


@pytest.mark.django_db(transaction=True)
def test_code_redeemed_at_once_gives_tokens_once(real_flow: Flow) -> None:
    for _ in range(3):
        code = real_flow.code(prompt="consent")
        responses = at_once(AT_ONCE, lambda _: real_flow.token(code))  # noqa: B023
        statuses = sorted(response.status_code for response in responses)
        assert statuses == [200] + [400] * (AT_ONCE - 1)
        errors = {body(each).get("error") for each in responses if each.status_code == 400}
        assert errors == {"invalid_grant"}


@pytest.mark.django_db(transaction=True)
def test_access_that_ends_during_a_refresh_leaves_no_valid_token(real_flow: Flow) -> None:
    for _ in range(5):
        tokens = real_flow.tokens(prompt="consent")
        latest = [tokens["refresh_token"], tokens["access_token"]]

        def refresh(latest: list[str] = latest) -> None:
            for _ in range(REFRESHES):
                response = real_flow.refresh(latest[0])
                if response.status_code != 200:
                    return
                latest[:] = [body(response)["refresh_token"], body(response)["access_token"]]

        def end() -> None:
            for consent in Consent.objects.filter(user=real_flow.user):
                consent.revoke()

        at_once(2, lambda number: [refresh, end][number]())  # type: ignore[arg-type,return-value]
        assert real_flow.refresh(latest[0]).status_code == 400
        assert call(latest[1]).status == 401
