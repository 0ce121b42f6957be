"""Opaque access tokens: what the endpoint says of them, and what happens when it says nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth import introspection
from django_mcp.auth.bearer import Claims
from django_mcp.auth.introspection import IntrospectionAuthentication
from django_mcp.auth.issuers import fetching
from django_mcp.auth.token import new_token
from django_mcp.core.auth.base import INVALID_TOKEN, PERSONAL_TOKEN_PREFIX, Challenge, Principal
from tests.auth.issuer import Issuer, addressed_scope, authenticated, json_answer, running_issuer
from tests.spec import spec
from tests.waiting import until

SECRET = "s3cret:/+"


class EveryoneHasAnAccount(IntrospectionAuthentication):
    async def get_user(self, claims: Claims, /) -> Any:
        return User(pk=7, username=str(claims["sub"]))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Its endpoint answers that the token "good" is active."""
    with running_issuer() as issuer:
        issuer.answers["/introspect"] = lambda form: json_answer(
            {"active": True, "scope": "read", **issuer.claims()}
            if form == {"token": ["good"], "token_type_hint": ["access_token"]}
            else {"active": False}
        )
        yield issuer


@pytest.fixture
def authenticator(issuer: Issuer) -> IntrospectionAuthentication:
    return EveryoneHasAnAccount(f"{issuer.url}/introspect", "shop", SECRET, issuer=issuer.url)


def answer_with(issuer: Issuer, **changes: Any) -> None:
    issuer.answers["/introspect"] = lambda _: json_answer(
        {"active": True, **issuer.claims(**changes)}
    )


async def test_active_token_identifies_its_subject(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    principal = await authenticated(authenticator, "good")

    assert isinstance(principal, Principal)
    assert principal.key == f"introspection:{issuer.url} ada"
    assert principal.scopes == {"read"}
    encoded = base64.b64encode(b"shop:s3cret%3A%2F%2B").decode()
    assert issuer.authorizations == [f"Basic {encoded}"]


async def test_inactive_token_is_left_to_other_authenticators(
    authenticator: IntrospectionAuthentication,
) -> None:
    scope = addressed_scope("other")

    assert await authenticator.authenticate(scope) is None
    assert await authenticated(authenticator, "other") == INVALID_TOKEN


@pytest.mark.parametrize("token", ["good", "other"])
async def test_answer_is_kept_for_a_short_time(
    issuer: Issuer, authenticator: IntrospectionAuthentication, token: str
) -> None:
    answers = [await authenticated(authenticator, token) for _ in range(3)]
    assert len(issuer.requests) == 1
    assert len({isinstance(answer, Principal) for answer in answers}) == 1

    authenticator.cache_seconds = 0
    authenticator._active._answers.clear()
    authenticator._inactive._answers.clear()
    authenticator._cache.forget()
    for _ in range(2):
        await authenticated(authenticator, token)
    assert len(issuer.requests) == 3


async def test_user_is_loaded_once_while_the_answer_is_kept(issuer: Issuer) -> None:
    loaded = []

    class Counting(EveryoneHasAnAccount):
        async def get_user(self, claims: Claims, /) -> Any:
            loaded.append(claims["sub"])
            return await super().get_user(claims)

    authenticator = Counting(f"{issuer.url}/introspect", "shop", SECRET, issuer=issuer.url)
    for _ in range(3):
        assert isinstance(await authenticated(authenticator, "good"), Principal)

    assert loaded == ["ada"]


@spec("AUTH-RS-27")
async def test_kept_answers_do_not_contain_their_tokens(
    authenticator: IntrospectionAuthentication,
) -> None:
    for token in ("good", "made-up-token"):
        await authenticated(authenticator, token)
    for answers in (authenticator._active, authenticator._inactive):
        assert len(answers._answers) == 1
        assert "'good'" not in str(answers._answers)
        assert "made-up-token" not in str(answers._answers)


async def test_answers_that_were_used_last_are_kept(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    authenticator._inactive._size = 3

    await authenticated(authenticator, "good")
    for number in (0, 1, 2, 0, 3, 4):
        await authenticated(authenticator, f"made-up-{number}")
    assert len(authenticator._inactive._answers) == 3
    assert len(issuer.requests) == 6

    for token in ("good", "made-up-0", "made-up-3", "made-up-4"):
        await authenticated(authenticator, token)
    assert len(issuer.requests) == 6
    await authenticated(authenticator, "made-up-1")
    assert len(issuer.requests) == 7


async def test_one_request_is_made_for_a_token_in_many_calls(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    issuer.delay = 0.1

    answers = await asyncio.gather(*(authenticated(authenticator, "good") for _ in range(20)))

    assert all(isinstance(answer, Principal) for answer in answers)
    assert len(issuer.requests) == 1


@spec("AUTH-RS-13")
@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "http://testserver/office"},
        {"aud": None},
        {"iss": "https://other.example"},
        {"exp": 1},
        {"exp": "soon"},
        {"nbf": 4_000_000_000},
        {"nbf": "soon"},
        {"token_type": "DPoP"},
        {"cnf": {"jkt": "a"}},
        {"typ": "Refresh"},
        {"sub": None},
    ],
    ids=str,
)
async def test_active_token_that_does_not_fit_is_invalid(
    issuer: Issuer, authenticator: IntrospectionAuthentication, changes: Mapping[str, Any]
) -> None:
    answer_with(issuer, **changes)

    assert await authenticated(authenticator, "good") == INVALID_TOKEN


@pytest.mark.parametrize("begins", [0, 1, -5.5])
async def test_token_that_has_begun_long_ago_is_valid(
    issuer: Issuer, authenticator: IntrospectionAuthentication, begins: float
) -> None:
    answer_with(issuer, nbf=begins)

    assert isinstance(await authenticated(authenticator, "good"), Principal)


@pytest.mark.parametrize(("name", "seconds"), [("exp", -30), ("nbf", 30)])
async def test_clocks_may_differ_by_the_leeway(
    issuer: Issuer, authenticator: IntrospectionAuthentication, name: str, seconds: int
) -> None:
    answer_with(issuer, **{name: time.time() + seconds})
    authenticator.leeway = 10
    assert await authenticated(authenticator, "good") == INVALID_TOKEN

    authenticator.leeway = 60
    authenticator._cache.forget()
    authenticator._active._answers.clear()
    assert isinstance(await authenticated(authenticator, "good"), Principal)


async def test_type_of_a_token_is_compared_in_any_case(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    answer_with(issuer, token_type="BEARER")

    assert isinstance(await authenticated(authenticator, "good"), Principal)


async def test_user_name_is_the_subject_where_there_is_no_other(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    answer_with(issuer, sub=None, username="ada", exp=None)

    principal = await authenticated(authenticator, "good")

    assert isinstance(principal, Principal)
    assert principal.subject == f"{issuer.url} ada"


async def test_token_that_expires_is_not_kept_longer(
    issuer: Issuer, authenticator: IntrospectionAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator.leeway = 0
    answer_with(issuer, exp=time.time() + 60)
    assert isinstance(await authenticated(authenticator, "good"), Principal)

    # The answer is kept by another clock, which goes on as before.
    later = SimpleNamespace(time=lambda: time.time() + 61, monotonic=time.monotonic)
    monkeypatch.setattr(introspection, "time", later)
    authenticator._cache.forget()

    assert await authenticated(authenticator, "good") == INVALID_TOKEN
    assert len(issuer.requests) == 1


# Tokens that are not sent.


@pytest.mark.parametrize("token", ["a b", "é", "a,b", "a" * 20_000, "="], ids=lambda it: it[:5])
async def test_malformed_token_is_not_sent(
    issuer: Issuer, authenticator: IntrospectionAuthentication, token: str
) -> None:
    assert await authenticated(authenticator, token) == INVALID_TOKEN
    assert issuer.requests == []


@spec("AUTH-RS-1A")
async def test_jwt_of_another_issuer_is_not_sent(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    await authenticated(authenticator, issuer.token(iss="https://other.example"))
    assert issuer.requests == []

    await authenticated(authenticator, issuer.token())
    assert issuer.requests == ["/introspect"]


@spec("AUTH-RS-1A", "identity-13")
async def test_personal_access_token_is_not_sent(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    assert await authenticated(authenticator, new_token()) == INVALID_TOKEN
    assert await authenticated(authenticator, f"{PERSONAL_TOKEN_PREFIX}mistyped") == INVALID_TOKEN
    assert issuer.requests == []


async def test_token_in_the_query_is_not_sent(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    assert await authenticated(authenticator, query="access_token=good") == Challenge()
    assert issuer.requests == []


# An endpoint that fails.


@pytest.mark.parametrize(
    "answer",
    [
        (500, {}, b""),
        (401, {}, b"{}"),
        (404, {}, b""),
        (302, {"Location": "/elsewhere"}, b""),
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (200, {}, b"{}"),
        (200, {}, b'{"active": "true"}'),
        (200, {}, json.dumps({"active": True, "a": "a" * introspection.MAX_ANSWER}).encode()),
    ],
    ids=lambda answer: str(answer)[:40],
)
async def test_failing_endpoint_is_503(
    issuer: Issuer,
    authenticator: IntrospectionAuthentication,
    answer: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer.answers["/introspect"] = lambda _: answer

    assert_unavailable(await authenticated(authenticator, "good"))
    assert "cannot be introspected" in caplog.text
    assert SECRET not in caplog.text
    assert "good" not in caplog.text
    assert "/elsewhere" not in issuer.requests


def assert_unavailable(answer: Principal | Challenge) -> None:
    assert isinstance(answer, Challenge)
    assert (answer.status, answer.error) == (503, "")


async def test_failing_endpoint_is_not_requested_for_a_while(
    issuer: Issuer,
    authenticator: IntrospectionAuthentication,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = issuer.answers.pop("/introspect")
    for number in range(10):
        assert_unavailable(await authenticated(authenticator, f"token-{number}"))
    assert len(issuer.requests) == introspection.MAX_FAILURES

    authenticator._endpoint._retry_at = 0.0
    assert_unavailable(await authenticated(authenticator, "good"))
    assert_unavailable(await authenticated(authenticator, "good"))
    assert len(issuer.requests) == introspection.MAX_FAILURES + 1

    issuer.answers["/introspect"] = good
    authenticator._endpoint._retry_at = 0.0
    assert isinstance(await authenticated(authenticator, "good"), Principal)
    assert await authenticated(authenticator, "other") == INVALID_TOKEN


async def test_slow_endpoint_delays_neither_the_event_loop_nor_kept_tokens(
    issuer: Issuer, authenticator: IntrospectionAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "WAIT_TIMEOUT", 0.2)
    await authenticated(authenticator, "good")
    issuer.delay = 0.5
    slow = asyncio.create_task(authenticated(authenticator, "slow"))
    await asyncio.sleep(0)

    started = time.monotonic()
    assert isinstance(await authenticated(authenticator, "good"), Principal)
    assert time.monotonic() - started < 0.1
    assert_unavailable(await slow)


async def test_waiting_requests_are_bounded(
    issuer: Issuer, authenticator: IntrospectionAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "WAIT_TIMEOUT", 0.3)
    monkeypatch.setattr(introspection, "MAX_UNKNOWN", 1000)
    authenticator._endpoint._pool = fetching.thread_pool(2, max_waiting=3)
    issuer.delay = 0.2

    started = time.monotonic()
    answers = await asyncio.gather(*(authenticated(authenticator, f"t-{n}") for n in range(50)))

    statuses = [answer.status for answer in answers if isinstance(answer, Challenge)]
    assert statuses.count(503) >= 45
    assert time.monotonic() - started < 2
    await until(lambda: not authenticator._endpoint._pending)
    assert len(issuer.requests) <= 5


async def test_requests_that_waited_for_a_failing_endpoint_are_not_sent(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    authenticator._endpoint._pool = fetching.thread_pool(1, max_waiting=20)
    issuer.answers.pop("/introspect")

    answers = await asyncio.gather(*(authenticated(authenticator, f"t-{n}") for n in range(20)))

    for answer in answers:
        assert_unavailable(answer)
    assert len(issuer.requests) == introspection.MAX_FAILURES


# Tokens that are made up.


async def test_made_up_tokens_of_one_network_are_sent_a_few_times(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    await authenticated(authenticator, "good")
    issuer.requests.clear()

    answers = await asyncio.gather(
        *(authenticated(authenticator, f"made-up-{number}") for number in range(300))
    )

    assert len(issuer.requests) == introspection.MAX_UNKNOWN
    statuses = [answer.status for answer in answers if isinstance(answer, Challenge)]
    assert statuses.count(429) == 300 - introspection.MAX_UNKNOWN
    # A token that is known already, and other networks, are not affected.
    assert isinstance(await authenticated(authenticator, "good"), Principal)
    other = await authenticated(authenticator, "made-up", client=("192.0.2.1", 50000))
    assert other == INVALID_TOKEN


async def test_addresses_of_one_ipv6_network_count_together(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    for number in range(300):
        client = (f"2001:db8::{number:x}", 50000)
        await authenticated(authenticator, f"made-up-{number}", client=client)
    assert len(issuer.requests) == introspection.MAX_UNKNOWN


async def test_valid_tokens_do_not_count_as_made_up(
    issuer: Issuer, authenticator: IntrospectionAuthentication
) -> None:
    answer_with(issuer)
    for number in range(2 * introspection.MAX_UNKNOWN):
        assert isinstance(await authenticated(authenticator, f"good-{number}"), Principal)


async def test_tokens_that_the_endpoint_cannot_tell_of_do_not_count_as_made_up(
    issuer: Issuer, authenticator: IntrospectionAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "MAX_UNKNOWN", 2)
    issuer.answers["/introspect"] = lambda _: json_answer({}, 500)
    for number in range(4):
        answer = await authenticated(authenticator, f"any-{number}")
        assert isinstance(answer, Challenge)
        assert answer.status == 503


async def test_made_up_tokens_are_sent_again_after_a_while(
    issuer: Issuer,
    authenticator: IntrospectionAuthentication,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(introspection, "MAX_UNKNOWN", 1)
    assert await authenticated(authenticator, "one") == INVALID_TOKEN
    assert await authenticated(authenticator, "two") == introspection.TOO_MANY_UNKNOWN
    authenticator._unknown._period_ends = 0.0
    assert await authenticated(authenticator, "three") == INVALID_TOKEN


# Configuration.


def test_subclass_without_arguments_has_its_own_options() -> None:
    class Company(IntrospectionAuthentication):
        url = "https://login.example.org/introspect"
        client_id = "shop"
        client_secret = SECRET

    authenticator = Company()

    assert authenticator.authorization_servers({}) == ()
    assert authenticator.namespace == "https://login.example.org/introspect"
    assert SECRET not in repr(authenticator)


@spec("AUTH-RS-33")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the url"),
        ({"url": "https://a/introspect"}, "client_id"),
        ({"url": "http://a/introspect", "client_id": "shop"}, "https://"),
    ],
    ids=str,
)
def test_insecure_configuration_is_rejected(options: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        IntrospectionAuthentication(**options)
