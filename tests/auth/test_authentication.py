"""The authentication of a server: the order of its authenticators, and its challenges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.challenges import AuthenticationFailed
from django_mcp.auth.resource import Resource, addressed
from django_mcp.core.auth.base import INVALID_TOKEN, BaseAuthentication, Challenge, Principal
from django_mcp.testing.asgi import http_scope
from tests.memory_stores import Configure, configure
from tests.spec import spec

__all__ = ["configure"]

ISSUER = "https://login.example.org"
METADATA = "https://testserver/.well-known/oauth-protected-resource/desk"


class Tokens(BaseAuthentication):
    """Accepts the tokens of which it knows the scopes; those that start with "old" are expired."""

    scheme = "Bearer"

    def __init__(self, *, issuers: Sequence[str] = (), **scopes: str) -> None:
        self.issuers = issuers
        self.known = scopes

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode()[len("Bearer ") :]
        if token.startswith("old"):
            return INVALID_TOKEN
        if token not in self.known:
            return None
        scopes = frozenset(self.known[token].split())
        return Principal(scheme="token", subject=token, scopes=scopes)

    def authorization_servers(self, scope: Mapping[str, Any], /) -> Sequence[str]:
        return self.issuers


class Keys:
    """A scheme of a site's own, without a base class: the header X-Key."""

    scheme = 'Key realm="desk"'

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | None:
        key = dict(scope["headers"]).get(b"x-key")
        return None if key is None else Principal(scheme="key", subject=key.decode())


class Undescribed:
    """An authenticator that says nothing about its scheme, and accepts every token."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | None:
        has_token = b"authorization" in dict(scope["headers"])
        return Principal(scheme="site", subject="robot") if has_token else None


class Everybody:
    """A site's own class for callers without credentials."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        return Principal(scheme="everybody")


ISSUED = Tokens(issuers=[ISSUER], full="tickets mcp", weak="tickets", old="")
PUBLIC = AnonymousAuthentication()


def of(*authenticators: Any, scopes: Sequence[str] = (), path: str = "/desk") -> Authentication:
    return Authentication(authenticators, Resource(path, tuple(scopes), "Desk"))


def request(token: str | None = None, **headers: str) -> dict[str, Any]:
    sent = {} if token is None else {"authorization": f"Bearer {token}"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http_scope("POST", "/desk", headers={**sent, **named}, scheme="https")


async def rejection(authentication: Authentication, scope: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the status of a rejection, and its challenges."""
    with pytest.raises(AuthenticationFailed) as failed:
        await authentication.authenticate(scope)
    challenge = failed.value.challenge
    return challenge.status, challenges(authentication, scope, challenge)


def challenges(
    authentication: Authentication, scope: dict[str, Any], challenge: Challenge
) -> list[str]:
    headers = authentication.headers(scope, challenge)
    return [value.decode() for name, value in headers if name == b"www-authenticate"]


def test_servers_are_not_asked_for_by_a_rejection_without_a_challenge() -> None:
    class OfOrganisation(Tokens):
        def authorization_servers(self, scope: Any, /) -> list[str]:
            raise LookupError("The organisation is unknown")

    unknown = Challenge(status=404, message="Unknown organisation")
    assert challenges(of(OfOrganisation()), request(), unknown) == []


# The order.


async def test_first_authenticator_that_knows_the_credentials_decides() -> None:
    first, second = Tokens(a="one"), Tokens(a="two", b="two")

    assert (await of(first, second).authenticate(request("a"))).scopes == {"one"}
    assert (await of(first, second).authenticate(request("b"))).scopes == {"two"}
    assert (await of(Keys(), first).authenticate(request("a", x_key="7"))).scheme == "key"
    assert (await of(first, Keys()).authenticate(request("a", x_key="7"))).scheme == "token"


async def test_no_authenticator_is_called_after_a_challenge() -> None:
    status, _ = await rejection(of(Tokens(), Tokens(older="mcp")), request("older"))

    assert status == 401


async def test_authenticators_find_the_addressed_resource_in_the_scope() -> None:
    scope = request("full")
    await of(ISSUED).authenticate(scope)

    assert addressed(scope).url(scope) == "https://testserver/desk"


@spec("AUTH-RS-19")
@pytest.mark.parametrize("public", [PUBLIC, Everybody()])
async def test_unknown_token_is_invalid_beside_anonymous_access(public: Any) -> None:
    authentication = of(ISSUED, public)

    assert (await authentication.authenticate(request())).is_anonymous
    assert (await authentication.authenticate(request("weak"))).subject == "weak"
    status, sent = await rejection(authentication, request("unknown"))
    assert status == 401
    assert 'error="invalid_token"' in sent[0]


async def test_token_behind_anonymous_access_is_read() -> None:
    assert (await of(PUBLIC, ISSUED).authenticate(request("weak"))).subject == "weak"


async def test_server_without_token_authentication_ignores_tokens() -> None:
    assert (await of(PUBLIC).authenticate(request("unknown"))).is_anonymous


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic eDp5", "bearerfull", ""])
async def test_request_without_a_token_is_anonymous(header: str) -> None:
    found = await of(ISSUED, PUBLIC).authenticate(request(authorization=header))

    assert found.is_anonymous


@spec("AUTH-RS-20", "AUTH-09", "identity-14")
async def test_token_in_the_query_is_not_read() -> None:
    scope = {**request(), "query_string": b"access_token=full"}

    status, sent = await rejection(of(ISSUED), scope)

    assert status == 401
    assert "error" not in sent[0]


# The scopes of the server.


async def test_token_needs_the_scopes_of_the_server() -> None:
    authentication = of(ISSUED, scopes=["mcp"])

    assert (await authentication.authenticate(request("full"))).subject == "full"
    assert await rejection(authentication, request("weak")) == (
        403,
        [
            f'Bearer resource_metadata="{METADATA}", scope="mcp", error="insufficient_scope", '
            'error_description="The access token lacks a scope that this server needs"'
        ],
    )


async def test_token_of_an_authenticator_that_describes_no_scheme_needs_them_too() -> None:
    status, _ = await rejection(of(Undescribed(), scopes=["mcp"]), request("any"))

    assert status == 403


async def test_scopes_of_the_server_are_needed_by_tokens_only() -> None:
    authentication = of(ISSUED, Keys(), PUBLIC, scopes=["mcp"])

    assert (await authentication.authenticate(request(x_key="7"))).subject == "7"
    assert (await authentication.authenticate(request())).is_anonymous


@spec("AUTH-07")
async def test_scope_may_include_those_of_the_server(configure: Configure) -> None:
    configure(SCOPE_HIERARCHY={"tickets": ["tickets:read"], "tickets:read": ["mcp"]})

    found = await of(ISSUED, scopes=["mcp"]).authenticate(request("weak"))

    assert found.subject == "weak"


# WWW-Authenticate.

INVALID = 'error="invalid_token", error_description="The access token is not valid here"'


@spec("AUTH-RS-14", "AUTH-RS-32")
@pytest.mark.parametrize(
    ("authentication", "token", "expected"),
    [
        (of(ISSUED), None, f'Bearer resource_metadata="{METADATA}"'),
        (
            of(ISSUED, scopes=["mcp", "b"]),
            None,
            f'Bearer resource_metadata="{METADATA}", scope="b mcp"',
        ),
        (of(ISSUED), "old", f'Bearer resource_metadata="{METADATA}", {INVALID}'),
        (of(ISSUED), "unknown", f'Bearer resource_metadata="{METADATA}", {INVALID}'),
        (of(Tokens()), None, "Bearer"),
        (of(Tokens()), "unknown", f"Bearer {INVALID}"),
        (of(Undescribed()), None, "Bearer"),
        (of(Keys()), None, 'Key realm="desk"'),
    ],
)
async def test_challenge_has_the_parameters_that_are_needed_and_no_others(
    authentication: Authentication, token: str | None, expected: str
) -> None:
    assert await rejection(authentication, request(token)) == (401, [expected])


@spec("AUTH-RS-03", "AUTH-13")
async def test_each_scheme_has_a_challenge_of_its_own() -> None:
    authentication = of(Tokens(), Keys(), ISSUED)

    status, sent = await rejection(authentication, request())

    assert status == 401
    assert sent == [f'Bearer resource_metadata="{METADATA}"', 'Key realm="desk"']


async def test_insufficient_scope_is_a_challenge_for_tokens_only() -> None:
    authentication = of(ISSUED, Keys())
    challenge = Challenge(status=403, error="insufficient_scope", scopes=frozenset(["b", "a"]))

    (sent,) = challenges(authentication, request(), challenge)

    assert sent.startswith(f'Bearer resource_metadata="{METADATA}", scope="a b", error="insuff')


@pytest.mark.parametrize("status", [400, 403, 429, 503])
def test_other_rejections_have_only_headers_of_their_own(status: int) -> None:
    retry = (b"retry-after", b"5")

    found = of(ISSUED).headers(request(), Challenge(status=status, headers=(retry,)))

    assert found == (retry,)


PARAMETER = r'[a-z_]+="[ !#-\[\]-~]*"'
CHALLENGE = re.compile(rf"Bearer {PARAMETER}(?:, {PARAMETER})*")


@spec("AUTH-RS-32")
@given(message=st.text(), scope=st.text(min_size=1))
def test_challenge_is_well_formed_with_any_message_and_scope(message: str, scope: str) -> None:
    challenge = Challenge(error="invalid_token", message=message, scopes=frozenset([scope]))

    (sent,) = challenges(of(ISSUED), request(), challenge)

    assert CHALLENGE.fullmatch(sent)
    assert sent.count('"') == 8


def test_quotes_and_line_breaks_of_a_message_are_replaced() -> None:
    challenge = Challenge(error="invalid_token", message='The "key"\nis\r\ngone: ü')

    (sent,) = challenges(of(Tokens()), request(), challenge)

    assert sent == ('Bearer error="invalid_token", error_description="The \'key\' is? gone: ?"')


def test_issuers_are_named_once() -> None:
    authentication = of(ISSUED, Keys(), Tokens(issuers=["https://b.example", ISSUER]))

    assert authentication.issuers(request()) == (ISSUER, "https://b.example")
