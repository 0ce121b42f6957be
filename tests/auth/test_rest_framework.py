"""Authentication classes of Django REST framework on an MCP server."""

from __future__ import annotations

import base64
import threading
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from rest_framework.authentication import (
    BaseAuthentication,
    BasicAuthentication,
    TokenAuthentication,
)
from rest_framework.exceptions import AuthenticationFailed, Throttled

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.cache import Loaded, PrincipalCache
from django_mcp.auth.rest_framework import (
    CROSS_ORIGIN,
    SCHEME,
    RESTFrameworkAuthentication,
    RESTFrameworkPrincipal,
    _refusal,
)
from django_mcp.core.auth.base import INVALID_TOKEN, Challenge, Principal, Scope, bearer_token
from django_mcp.core.auth.base import BaseAuthentication as MCPAuthentication
from tests.auth.issuer import authenticated
from tests.memory_stores import Configure, configure
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]


class Tokens:
    """The model of TokenAuthentication, without its app."""

    class DoesNotExist(Exception):
        pass

    class objects:
        @staticmethod
        def select_related(name: str) -> Any:
            return Tokens

    @staticmethod
    def get(key: str) -> Any:
        if key not in USERS:
            raise Tokens.DoesNotExist
        return SimpleNamespace(user=USERS[key])


USERS = {"good": User(pk=7, username="ada"), "old": User(pk=8, is_active=False)}


class Token(TokenAuthentication):  # type: ignore[misc]
    model = Tokens


class BearerToken(Token):
    keyword = "Bearer"


class ByHeader(BaseAuthentication):  # type: ignore[misc]
    """Its header says what happens."""

    def authenticate(self, request: Any) -> Any:
        outcome = request.headers.get("X-Outcome")
        if outcome == "raise":
            raise RuntimeError("A fault of the class")
        outcomes = {
            "throttled": Throttled(wait=7),
            "denied": PermissionDenied("Not today"),
            "failed": AuthenticationFailed("a" * 1000),
        }
        if outcome in outcomes:
            raise outcomes[outcome]
        found = {
            "anonymous": (AnonymousUser(), None),
            "unsaved": (User(username="x"), None),
            "inactive": (User(pk=9, is_active=False), None),
            "cookie": (User(pk=7), None) if request.COOKIES else None,
            "query": (User(pk=7), None) if request.query_params else None,
            "body": (User(pk=7), None) if request.data else None,
            "thread": (User(pk=7, username=threading.current_thread().name), None),
        }
        return found.get(outcome)


async def test_token_identifies_its_user() -> None:
    principal = await authenticated(
        RESTFrameworkAuthentication(Token), headers={"authorization": "Token good"}
    )

    assert isinstance(principal, Principal)
    assert principal.key == "rest_framework:7"
    assert principal.user == USERS["good"]
    assert principal.scopes == frozenset()


@pytest.mark.parametrize("value", ["Token bad", "Token", "Token old", "Token a b"])
async def test_bad_token_is_rejected(value: str) -> None:
    answer = await authenticated(
        RESTFrameworkAuthentication(Token), headers={"authorization": value}
    )

    assert isinstance(answer, Challenge)
    assert answer.status == 401
    assert answer.message


async def test_missing_credentials_are_left_to_other_authenticators() -> None:
    authenticator = RESTFrameworkAuthentication(Token, BasicAuthentication)

    assert await authenticated(authenticator) == Challenge()


@pytest.mark.parametrize(
    ("classes", "challenge"),
    [
        ([Token], "Token"),
        ([BasicAuthentication, Token], 'Basic realm="api"'),
        ([BearerToken], "Bearer"),
        ([Token, BearerToken], "Bearer"),
        ([ByHeader], "Bearer"),
    ],
)
async def test_challenge_is_bearer_or_that_of_the_first_class(
    configure: Configure, classes: list[type], challenge: str
) -> None:
    server = Server("crm", authenticators=[RESTFrameworkAuthentication(*classes)])
    wire = AsgiClient(server)

    reply = await wire.post(wire.request("tools/list"))

    assert (reply.status, reply.headers["www-authenticate"]) == (401, challenge)


async def test_unknown_bearer_token_is_invalid() -> None:
    answer = await authenticated(RESTFrameworkAuthentication(BearerToken), "bad")
    assert isinstance(answer, Challenge)
    assert (answer.status, answer.error) == (401, "invalid_token")
    principal = await authenticated(RESTFrameworkAuthentication(BearerToken), "good")
    assert isinstance(principal, Principal)


@pytest.mark.django_db(transaction=True)
async def test_password_identifies_its_user() -> None:
    user = await User.objects.acreate(username="ada")
    user.set_password("s3cret")
    await user.asave()
    encoded = base64.b64encode(b"ada:s3cret").decode()

    principal = await authenticated(
        RESTFrameworkAuthentication("rest_framework.authentication.BasicAuthentication"),
        headers={"authorization": f"Basic {encoded}"},
    )

    assert isinstance(principal, Principal)
    assert principal.user == user


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("throttled", 429),
        ("denied", 403),
        ("failed", 401),
        ("anonymous", 403),
        ("unsaved", 403),
        ("inactive", 403),
        ("query", 401),
        ("body", 401),
    ],
)
async def test_rejection_has_the_status_of_the_class(outcome: str, status: int) -> None:
    answer = await authenticated(
        RESTFrameworkAuthentication(ByHeader), headers={"x-outcome": outcome}, query="token=a"
    )

    assert isinstance(answer, Challenge)
    assert answer.status == status
    assert len(answer.message) <= 100


async def test_reason_is_cut_between_words() -> None:
    def message(reason: str) -> str:
        return _refusal({"headers": []}, 403, reason).message

    assert message("short") == "short"
    assert message(f"{'a' * 60} {'b' * 60}") == f"{'a' * 60}…"
    assert message("a" * 200) == f"{'a' * 99}…"


async def test_class_finds_nothing_that_a_url_has_captured() -> None:
    class ByTenant(BaseAuthentication):  # type: ignore[misc]
        def authenticate(self, request: Any) -> Any:
            tenant = request.resolver_match.kwargs.get("tenant", "nowhere")
            return User(pk=7, username=tenant), None

    principal = await authenticated(RESTFrameworkAuthentication(ByTenant))
    assert isinstance(principal, RESTFrameworkPrincipal)
    assert principal.user.username == "nowhere"
    assert principal.authentication_class is ByTenant


async def test_fault_of_a_class_is_not_an_answer() -> None:
    with pytest.raises(RuntimeError):
        await authenticated(RESTFrameworkAuthentication(ByHeader), headers={"x-outcome": "raise"})


async def test_classes_run_in_a_thread() -> None:
    principal = await authenticated(
        RESTFrameworkAuthentication(ByHeader), headers={"x-outcome": "thread"}
    )

    assert isinstance(principal, Principal)
    assert principal.user.username != threading.current_thread().name


async def test_scopes_are_those_of_an_override() -> None:
    class WithScopes(RESTFrameworkAuthentication):
        authentication_classes = (Token,)

        def get_scopes(self, user: Any, auth: Any, /) -> Collection[str]:
            return ["read"] if auth.user == user else []

    principal = await authenticated(WithScopes(), headers={"authorization": "Token good"})

    assert isinstance(principal, Principal)
    assert principal.scopes == {"read"}


# Beside other authenticators.


class JwtTokens(BaseAuthentication):  # type: ignore[misc]
    """Refuses every token that it has not signed, as the class of simplejwt does."""

    def authenticate(self, request: Any) -> Any:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer":
            return None
        if token == "signed":
            return USERS["good"], token
        raise AuthenticationFailed(
            {
                "detail": "Given token not valid for any token type",
                "code": "token_not_valid",
                "messages": [{"token_class": "AccessToken", "message": "Token is invalid"}],
            }
        )

    def authenticate_header(self, request: Any) -> str:
        return 'Bearer realm="api"'


class Opaque(MCPAuthentication):
    """Accepts one bearer token, and leaves others to other authenticators."""

    scheme = "Bearer"

    async def authenticate(self, scope: Scope, /) -> Principal | None:
        token = bearer_token(scope)
        return Principal(scheme="opaque", subject="robot") if token == "opaque" else None


async def who(*authenticators: Any, token: str, cookie: str = "") -> Any:
    server = Server("crm", authenticators=authenticators)
    server.register_tool("who", lambda frame: frame.principal.key, description="Name the caller.")
    wire = AsgiClient(server)
    headers = {"authorization": f"Bearer {token}"}
    return await wire.post(wire.call("who"), headers | ({"cookie": cookie} if cookie else {}))


@pytest.mark.parametrize("classes", [[JwtTokens], [Token, JwtTokens]])
async def test_token_that_a_class_does_not_know_is_left_to_the_next_authenticator(
    configure: Configure, classes: list[type]
) -> None:
    chain = [RESTFrameworkAuthentication(*classes), Opaque()]

    own, foreign = await who(*chain, token="signed"), await who(*chain, token="opaque")

    assert own.json()["result"]["content"][0]["text"] == "rest_framework:7"
    assert foreign.json()["result"]["content"][0]["text"] == "opaque:robot"


@pytest.mark.parametrize("classes", [[JwtTokens], [Token, JwtTokens], [JwtTokens, Token]])
@pytest.mark.parametrize(
    "others",
    [[], [Opaque()], [AnonymousAuthentication()]],
    ids=["alone", "before tokens", "before anonymous access"],
)
async def test_token_that_nobody_knows_is_invalid_in_words(
    configure: Configure, classes: list[type], others: list[Any]
) -> None:
    reply = await who(RESTFrameworkAuthentication(*classes), *others, token="unknown")

    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]
    assert reply.json()["error"]["message"] == INVALID_TOKEN.message


async def test_refused_token_is_anonymous_nowhere(configure: Configure) -> None:
    class Unmarked(JwtTokens):
        authenticate_header = BaseAuthentication.authenticate_header

    reply = await who(
        RESTFrameworkAuthentication(Unmarked), AnonymousAuthentication(), token="unknown"
    )

    assert reply.status == 401


async def test_refusal_of_other_credentials_is_in_words() -> None:
    class Keys(JwtTokens):
        def authenticate(self, request: Any) -> Any:
            raise AuthenticationFailed({"detail": "The key has expired", "code": "expired"})

    answer = await authenticated(RESTFrameworkAuthentication(Keys), headers={"x-key": "7"})

    assert isinstance(answer, Challenge)
    assert answer.message == "The key has expired"


async def test_token_of_a_deactivated_user_is_refused_at_once() -> None:
    class Inactive(JwtTokens):
        def authenticate(self, request: Any) -> Any:
            return USERS["old"], "signed"

    answer = await authenticated(RESTFrameworkAuthentication(Inactive), "signed")

    assert isinstance(answer, Challenge)
    assert (answer.status, answer.is_final) == (403, True)


async def test_cookie_beside_a_token_is_not_read(configure: Configure) -> None:
    class Cookies(BaseAuthentication):  # type: ignore[misc]
        def authenticate(self, request: Any) -> Any:
            return (USERS["good"], None) if request.COOKIES else None

    chain = [RESTFrameworkAuthentication(Cookies), Opaque()]

    reply = await who(*chain, token="unknown", cookie="sessionid=a")

    assert reply.status == 401


async def test_principal_has_what_the_class_returned() -> None:
    principal = await authenticated(
        RESTFrameworkAuthentication(Token), headers={"authorization": "Token good"}
    )

    assert isinstance(principal, RESTFrameworkPrincipal)
    assert principal.request_auth.user == USERS["good"]


async def test_cache_keeps_no_token() -> None:
    cache = PrincipalCache()
    principal = RESTFrameworkPrincipal(scheme=SCHEME, subject="7", request_auth="secret")

    async def load() -> Loaded:
        return Loaded(principal, None)

    assert await cache.find(load, "digest") is principal
    assert await cache.find(load, "digest") == Principal(scheme=SCHEME, subject="7")


# Pages of other origins.


@pytest.mark.parametrize("origin", ["https://evil.example", "http://testserver:81", "null"])
async def test_foreign_page_uses_no_stored_password(origin: str) -> None:
    headers = {"authorization": "Basic YTph", "origin": origin}

    answer = await authenticated(RESTFrameworkAuthentication(BasicAuthentication), headers=headers)

    assert answer == CROSS_ORIGIN


async def test_foreign_page_uses_no_cookie() -> None:
    authenticator = RESTFrameworkAuthentication(ByHeader)
    headers = {"cookie": "a=b", "x-outcome": "cookie"}

    own = await authenticated(authenticator, headers={**headers, "origin": "http://testserver"})
    foreign = await authenticated(authenticator, headers={**headers, "origin": "https://e.example"})

    assert isinstance(own, Principal)
    assert foreign == Challenge()


async def test_foreign_page_may_send_a_token() -> None:
    headers = {"authorization": "Token good", "origin": "https://app.example"}

    principal = await authenticated(RESTFrameworkAuthentication(Token), headers=headers)

    assert isinstance(principal, Principal)


def test_classes_are_required() -> None:
    with pytest.raises(ImproperlyConfigured, match="needs authentication classes"):
        RESTFrameworkAuthentication()


class Devices(BaseAuthentication):  # type: ignore[misc]
    """Accepts the tokens of devices, which belong to nobody, as pretix does."""

    def authenticate(self, request: Any) -> Any:
        scheme, _, name = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Device":
            return None
        user = None if name == "none" else AnonymousUser()
        return user, DEVICES.get(name, name)


DEVICES = {"one": Group(pk=1, name="Till"), "two": Group(pk=2), "unsaved": Group(name="x")}
"""Rows of any model stand for the tokens."""


@pytest.mark.parametrize(("name", "number"), [("one", 1), ("two", 2)])
async def test_credentials_without_a_user_are_a_principal(name: str, number: int) -> None:
    authenticator = RESTFrameworkAuthentication(Devices)
    principal = await authenticated(authenticator, headers={"authorization": f"Device {name}"})

    assert isinstance(principal, RESTFrameworkPrincipal)
    assert principal.key == f"rest_framework:auth.group {number}"
    assert principal.request_auth is DEVICES[name]
    assert not principal.user.is_authenticated
    assert not principal.is_anonymous


@pytest.mark.parametrize("name", ["unsaved", "text", "none"])
async def test_credentials_that_identify_nobody_are_refused(name: str) -> None:
    authenticator = RESTFrameworkAuthentication(Devices)
    answer = await authenticated(authenticator, headers={"authorization": f"Device {name}"})

    assert isinstance(answer, Challenge)
    assert answer.status == 403


async def test_override_identifies_credentials_without_a_user() -> None:
    class ByText(RESTFrameworkAuthentication):
        def get_subject(self, user: Any, auth: Any, /) -> str:
            return f"device {auth}"

    principal = await authenticated(ByText(Devices), headers={"authorization": "Device none"})

    assert isinstance(principal, Principal)
    assert principal.key == "rest_framework:device none"
    assert not principal.user.is_authenticated
