"""Signed access tokens: which are accepted, and what issuers and forged tokens cannot do."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jwt
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Server
from django_mcp.auth.bearer import NO_ACCOUNT, Claims
from django_mcp.auth.issuers import fetching, key_set
from django_mcp.auth.jwt import JWTAuthentication
from django_mcp.core.auth.base import INVALID_TOKEN, Challenge, Principal
from tests.auth.issuer import (
    ENDPOINT,
    Answer,
    Issuer,
    addressed_scope,
    authenticated,
    ec_key,
    json_answer,
    pem,
    public_jwk,
    public_rsa_jwk,
    rsa_key,
    running_issuer,
)
from tests.memory_stores import configure
from tests.spec import spec
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]


class EveryoneHasAnAccount(JWTAuthentication):
    async def get_user(self, claims: Claims, /) -> Any:
        return User(pk=7, username=str(claims["sub"]))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def authenticator(issuer: Issuer) -> JWTAuthentication:
    return EveryoneHasAnAccount(issuer.url)


# Valid tokens.


async def test_valid_token_identifies_its_subject(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = issuer.token(scope="tickets:read tickets:write")

    principal = await authenticated(authenticator, token)

    assert isinstance(principal, Principal)
    assert principal.key == f"jwt:{issuer.url} ada"
    assert principal.scopes == {"tickets:read", "tickets:write"}
    assert principal.claims["sub"] == "ada"
    assert token not in repr(principal)


@pytest.mark.parametrize("scp", ["read write", ["read", "write", 7]])
async def test_scopes_of_scp_are_read(
    issuer: Issuer, authenticator: JWTAuthentication, scp: Any
) -> None:
    principal = await authenticated(authenticator, issuer.token(scp=scp))

    assert isinstance(principal, Principal)
    assert principal.scopes == {"read", "write"}


@pytest.mark.parametrize("type_", ["JWT", "at+jwt", "application/at+JWT"])
async def test_type_of_an_access_token_is_accepted(
    issuer: Issuer, authenticator: JWTAuthentication, type_: str
) -> None:
    token = issuer.token(header={"typ": type_})

    assert isinstance(await authenticated(authenticator, token), Principal)


async def test_one_of_several_audiences_suffices(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = issuer.token(aud=["account", ENDPOINT])

    assert isinstance(await authenticated(authenticator, token), Principal)


async def test_audience_of_the_authenticator_is_accepted(issuer: Issuer) -> None:
    authenticator = EveryoneHasAnAccount(issuer.url, audience="api://tickets")

    assert isinstance(
        await authenticated(authenticator, issuer.token(aud="api://tickets")), Principal
    )
    assert await authenticated(authenticator, issuer.token(aud="api://other")) == INVALID_TOKEN


@pytest.mark.parametrize("algorithm", ["RS256", "PS512"])
async def test_rsa_signature_is_accepted(
    issuer: Issuer, authenticator: JWTAuthentication, algorithm: str
) -> None:
    issuer.keys.append(public_rsa_jwk())
    token = jwt.encode(issuer.claims(), rsa_key(2048), algorithm, {"kid": "rsa"})

    assert isinstance(await authenticated(authenticator, token), Principal)


async def test_token_without_kid_is_verified_by_the_only_key(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = jwt.encode(issuer.claims(), ec_key("one"), "ES256")

    assert isinstance(await authenticated(authenticator, token), Principal)


async def test_token_without_kid_is_invalid_beside_several_keys(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    issuer.keys.append(public_jwk("two"))
    token = jwt.encode(issuer.claims(), ec_key("one"), "ES256")

    assert await authenticated(authenticator, token) == INVALID_TOKEN


async def test_clock_of_the_issuer_may_differ_by_the_leeway(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    now = time.time()

    assert isinstance(await authenticated(authenticator, issuer.token(exp=now - 20)), Principal)
    assert isinstance(await authenticated(authenticator, issuer.token(nbf=now + 20)), Principal)


async def test_issuer_is_named_by_the_challenge(issuer: Issuer) -> None:
    server = Server("crm", authenticators=[JWTAuthentication(issuer.url)])
    wire = AsgiClient(server)

    reply = await wire.post(wire.request("tools/list"))

    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith('Bearer resource_metadata="http://')
    assert issuer.requests == []


# Tokens that are not for this server, or not valid.


@spec("identity-09")
async def test_token_of_another_issuer_is_left_to_other_authenticators(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    scope = addressed_scope(issuer.token(iss="https://a"))

    assert await authenticator.authenticate(scope) is None
    assert issuer.requests == []


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "a.b.c.d.e", "..", "é.é.é", "[" * 9000])
async def test_other_token_is_left_to_other_authenticators(
    issuer: Issuer, authenticator: JWTAuthentication, token: str
) -> None:
    scope = addressed_scope(token)

    assert await authenticator.authenticate(scope) is None


async def test_huge_token_is_not_read(issuer: Issuer, authenticator: JWTAuthentication) -> None:
    scope = {"headers": [(b"authorization", f"Bearer {issuer.token(a='a' * 20_000)}".encode())]}

    assert await authenticator.authenticate(scope) is None
    assert issuer.requests == []


async def test_token_in_the_query_is_not_read(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    query = f"access_token={issuer.token()}"

    assert await authenticated(authenticator, query=query) == Challenge()


@spec("AUTH-RS-13")
@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": None},
        {"aud": []},
        {"aud": ""},
        {"aud": {"a": ENDPOINT}},
        {"aud": "http://testserver"},
        {"aud": ENDPOINT + "/"},
        {"aud": "http://[a"},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": float("inf")},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"sub": None},
        {"sub": ""},
        {"sub": "a" * 256},
        {"sub": 7},
        {"cnf": {"jkt": "a"}},
        {"typ": "ID"},
        {"typ": "Refresh"},
        {"token_use": "id"},
    ],
    ids=str,
)
async def test_claims_that_do_not_fit_are_invalid(
    issuer: Issuer, authenticator: JWTAuthentication, claims: Mapping[str, Any]
) -> None:
    # PyJWT writes infinity, which is no JSON, and reads it.
    changed = {name: value for name, value in claims.items() if value is not None}
    payload = {**issuer.claims(**dict.fromkeys(claims)), **changed}
    token = jwt.api_jws.encode(
        json.dumps(payload).encode(), ec_key("one"), "ES256", {"kid": "one", "typ": "JWT"}
    )

    assert await authenticated(authenticator, token) == INVALID_TOKEN


@pytest.mark.parametrize("claim", ["at_hash", "nonce", "events"])
async def test_id_token_is_invalid(
    issuer: Issuer, authenticator: JWTAuthentication, claim: str
) -> None:
    token = issuer.token(header={"typ": "JWT"}, **{claim: "a"})

    assert await authenticated(authenticator, token) == INVALID_TOKEN


async def test_token_of_another_server_of_the_project_is_invalid(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = issuer.token(aud="http://testserver/office")

    assert await authenticated(authenticator, token, path="/mcp") == INVALID_TOKEN
    assert isinstance(await authenticated(authenticator, token, path="/office"), Principal)


@pytest.mark.parametrize("type_", ["ID", "logout+jwt", "dpop+jwt", "", 7])
async def test_type_of_another_token_is_invalid(
    issuer: Issuer, authenticator: JWTAuthentication, type_: Any
) -> None:
    token = with_header(issuer, {"typ": type_, "alg": "ES256", "kid": "one"})

    assert await authenticated(authenticator, token) == INVALID_TOKEN


def with_header(issuer: Issuer, header: Mapping[str, Any]) -> str:
    """A token with any header, whose signature is that of the issuer for ES256."""
    parts = (json.dumps(header).encode(), json.dumps(issuer.claims()).encode())
    message = b".".join(jwt.utils.base64url_encode(part) for part in parts)
    es256 = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    signature = jwt.utils.base64url_encode(es256.sign(message, ec_key("one")))
    return f"{message.decode()}.{signature.decode()}"


async def test_token_with_a_header_of_an_access_token_is_accepted(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = with_header(issuer, {"typ": "at+jwt", "alg": "ES256", "kid": "one"})

    assert isinstance(await authenticated(authenticator, token), Principal)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "", 7, None, ["ES256"]])
async def test_algorithm_without_a_key_pair_is_invalid(
    issuer: Issuer, authenticator: JWTAuthentication, algorithm: Any
) -> None:
    token = with_header(issuer, {"typ": "JWT", "alg": algorithm, "kid": "one"})

    assert await authenticated(authenticator, token) == INVALID_TOKEN
    assert issuer.requests == []


@spec("identity-06")
async def test_unsigned_token_is_invalid(issuer: Issuer, authenticator: JWTAuthentication) -> None:
    unsigned = jwt.encode(issuer.claims(), "", "none", {"kid": "one"})

    assert await authenticated(authenticator, unsigned) == INVALID_TOKEN


@spec("identity-07")
async def test_public_key_is_no_shared_secret(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    header = {"typ": "JWT", "alg": "HS256", "kid": "rsa"}
    issuer.keys.append(public_rsa_jwk())
    signed = with_header(issuer, header).rpartition(".")[0]
    secret = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = jwt.utils.base64url_encode(secret.sign(signed.encode(), pem(rsa_key(2048))))

    assert await authenticated(authenticator, f"{signed}.{signature.decode()}") == INVALID_TOKEN


async def test_key_of_another_type_does_not_verify(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = jwt.encode(issuer.claims(), rsa_key(2048), "RS256", {"kid": "one"})

    assert await authenticated(authenticator, token) == INVALID_TOKEN


@spec("AUTH-RS-13")
async def test_signature_of_another_key_is_invalid(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = jwt.encode(issuer.claims(), ec_key("attacker"), "ES256", {"kid": "one"})

    assert await authenticated(authenticator, token) == INVALID_TOKEN


@spec("identity-08")
@pytest.mark.parametrize("member", ["jku", "x5u", "jwk", "x5c"])
async def test_key_that_a_token_brings_is_ignored(
    issuer: Issuer, authenticator: JWTAuthentication, member: str
) -> None:
    issuer.publish("/attacker", lambda: {"keys": [public_jwk("attacker")]})
    named = public_jwk("attacker") if member == "jwk" else f"{issuer.url}/attacker"
    header = {"kid": "attacker", member: [named] if member == "x5c" else named}
    token = jwt.encode(issuer.claims(), ec_key("attacker"), "ES256", header)

    assert await authenticated(authenticator, token) == INVALID_TOKEN
    assert "/attacker" not in issuer.requests


async def test_unknown_critical_header_is_invalid(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    token = issuer.token(header={"crit": ["level"], "level": 9})

    assert await authenticated(authenticator, token) == INVALID_TOKEN


# Keys.


async def test_keys_are_loaded_once(issuer: Issuer, authenticator: JWTAuthentication) -> None:
    answers = await asyncio.gather(
        *(authenticated(authenticator, issuer.token()) for _ in range(20))
    )

    assert all(isinstance(answer, Principal) for answer in answers)
    assert issuer.requests == ["/.well-known/oauth-authorization-server", "/keys"]


@spec("identity-12")
async def test_unknown_keys_cause_few_requests(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    forged = [with_header(issuer, {"alg": "ES256", "kid": f"k{n}"}) for n in range(500)]

    answers = await asyncio.gather(*(authenticated(authenticator, each) for each in forged))

    assert set(answers) == {INVALID_TOKEN}
    assert len(issuer.requests) == 2


async def test_new_key_is_loaded(
    issuer: Issuer, authenticator: JWTAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_set, "RETRY_AFTER", 0.0)
    await authenticated(authenticator, issuer.token())
    issuer.keys = [public_jwk("two")]
    new = jwt.encode(issuer.claims(), ec_key("two"), "ES256", {"kid": "two"})

    assert isinstance(await authenticated(authenticator, new), Principal)
    assert await authenticated(authenticator, issuer.token()) == INVALID_TOKEN


async def test_key_that_is_replaced_under_the_same_id_is_loaded(
    issuer: Issuer, authenticator: JWTAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_set, "RETRY_AFTER", 0.0)
    await authenticated(authenticator, issuer.token())
    issuer.keys = [{**public_jwk("two"), "kid": "one"}]
    new = jwt.encode(issuer.claims(), ec_key("two"), "ES256", {"kid": "one"})

    assert isinstance(await authenticated(authenticator, new), Principal)
    old = jwt.encode(issuer.claims(), ec_key("one"), "ES256", {"kid": "one"})
    assert await authenticated(authenticator, old) == INVALID_TOKEN


async def test_tokens_with_a_wrong_signature_load_the_keys_no_more_often_than_others(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    await authenticated(authenticator, issuer.token())
    loaded = len(issuer.requests)
    forged = jwt.encode(issuer.claims(), ec_key("two"), "ES256", {"kid": "one"})

    answers = [await authenticated(authenticator, forged) for _ in range(20)]

    assert answers == [INVALID_TOKEN] * 20
    assert len(issuer.requests) == loaded
    assert isinstance(await authenticated(authenticator, issuer.token()), Principal)


async def test_old_keys_are_refreshed_in_the_background(
    issuer: Issuer, authenticator: JWTAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_set, "REFRESH_AFTER", 0.0)
    monkeypatch.setattr(key_set, "RETRY_AFTER", 0.0)
    await authenticated(authenticator, issuer.token())
    issuer.keys = []  # Without keys, the refresh fails.

    for _ in range(2):
        assert isinstance(await authenticated(authenticator, issuer.token()), Principal)
        await asyncio.sleep(0.1)
    assert len(issuer.requests) > 2


async def test_keys_expire_if_they_cannot_be_refreshed(
    issuer: Issuer, authenticator: JWTAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_set, "KEYS_LIFETIME", 0.0)
    monkeypatch.setattr(key_set, "RETRY_AFTER", 0.0)
    await authenticated(authenticator, issuer.token())
    issuer.keys = []

    answer = await authenticated(authenticator, issuer.token())

    assert isinstance(answer, Challenge)
    assert answer.status == 503


@pytest.mark.parametrize(
    "key",
    [
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"key_ops": 7},
        {"alg": "ECDH-ES"},
        {"alg": ["ES256"]},
        {"crv": "P-384"},
        {"crv": []},
        {"x": "a"},
        {"d": "a"},
        {"kty": "oct", "k": "a"},
        {"kty": None},
    ],
    ids=str,
)
async def test_key_for_another_purpose_is_not_used(
    issuer: Issuer, authenticator: JWTAuthentication, key: Mapping[str, Any]
) -> None:
    issuer.keys = [public_jwk("one", **key), public_jwk("two"), 7]  # type: ignore[list-item]

    assert await authenticated(authenticator, issuer.token()) == INVALID_TOKEN


async def test_short_rsa_key_is_not_used(issuer: Issuer, authenticator: JWTAuthentication) -> None:
    issuer.keys.append(public_rsa_jwk(1024))
    signed = with_header(issuer, {"alg": "RS256", "kid": "rsa"}).rpartition(".")[0]
    algorithm = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
    signature = jwt.utils.base64url_encode(algorithm.sign(signed.encode(), rsa_key(1024)))

    assert await authenticated(authenticator, f"{signed}.{signature.decode()}") == INVALID_TOKEN


@spec("identity-10")
@pytest.mark.parametrize(
    "document",
    [
        {"keys": []},
        {"keys": {}},
        {},
        [],
        {"keys": [{"kty": "EC"}] * 101},
        {"keys": [], "padding": "a" * fetching.MAX_DOCUMENT},
    ],
    ids=lambda document: str(document)[:30],
)
async def test_unusable_key_set_is_503(
    issuer: Issuer, authenticator: JWTAuthentication, document: Any
) -> None:
    issuer.publish("/keys", lambda: document)

    assert_unavailable(await authenticated(authenticator, issuer.token()))


@pytest.mark.parametrize("content", [b"<html>", b"[" * 100_000, b"\xff"], ids=str)
async def test_document_that_is_no_json_is_503(
    issuer: Issuer, authenticator: JWTAuthentication, content: bytes
) -> None:
    issuer.answers["/keys"] = lambda _: (200, {}, content)

    assert_unavailable(await authenticated(authenticator, issuer.token()))


def assert_unavailable(answer: Principal | Challenge) -> None:
    assert isinstance(answer, Challenge)
    assert answer.status == 503
    assert (b"retry-after", b"10") in answer.headers


async def test_failing_issuer_is_not_requested_for_each_token(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    issuer.answers.clear()

    for _ in range(5):
        assert_unavailable(await authenticated(authenticator, issuer.token()))

    assert len(issuer.requests) == 2  # One for each place of the metadata.


@pytest.mark.parametrize("status", [302, 400, 403, 405])
async def test_metadata_is_found_after_any_error_of_the_client(
    issuer: Issuer, authenticator: JWTAuthentication, status: int
) -> None:
    issuer.answers["/.well-known/oauth-authorization-server"] = lambda _: (status, {}, b"")
    issuer.publish("/.well-known/openid-configuration", issuer.metadata)

    assert isinstance(await authenticated(authenticator, issuer.token()), Principal)


async def test_issuer_that_is_not_there_is_503() -> None:
    with running_issuer() as issuer:
        token = issuer.token()

    assert_unavailable(await authenticated(EveryoneHasAnAccount(issuer.url), token))


@spec("identity-11")
async def test_slow_issuer_delays_only_its_tokens(issuer: Issuer) -> None:
    server = Server("crm", authenticators=[EveryoneHasAnAccount(issuer.url)])
    server.register_tool("add", lambda: 1, description="Add.")
    issuer.delay = 0.5
    wire = AsgiClient(server)
    token = {"authorization": f"Bearer {issuer.token(aud='http://testserver/crm')}"}

    waiting = asyncio.create_task(wire.post(wire.request("tools/list"), token))
    started = time.monotonic()
    others = [await wire.post(wire.request("tools/list")) for _ in range(10)]
    duration = time.monotonic() - started

    assert {reply.status for reply in others} == {401}
    assert duration < 0.5
    assert not waiting.done()
    assert (await waiting).status == 200


async def test_issuer_that_takes_too_long_is_503(
    issuer: Issuer, authenticator: JWTAuthentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_set, "LOAD_TIMEOUT", 0.1)
    issuer.delay = 0.5

    assert_unavailable(await authenticated(authenticator, issuer.token()))


async def test_hanging_load_delays_no_known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_set, "REFRESH_AFTER", 0.0)
    monkeypatch.setattr(key_set, "RETRY_AFTER", 0.0)
    monkeypatch.setattr(key_set, "LOAD_TIMEOUT", 0.1)
    is_over = threading.Event()
    is_over.set()

    def load() -> list[str]:
        is_over.wait(SECONDS)
        return ["known"]

    keys = key_set.KeySet(load)
    assert await keys.find(known) == "known"
    is_over.clear()

    try:
        for _ in range(3):
            assert await keys.find(known) == "known"
            await asyncio.sleep(0.05)
        # The load has taken longer than its time already: nobody waits for it.
        started = time.monotonic()
        with pytest.raises(fetching.Unavailable):
            await keys.find(lambda _: None)
        assert time.monotonic() - started < 0.09
    finally:
        is_over.set()


def known(keys: Sequence[str]) -> str | None:
    return next(iter(keys), None)


async def test_caller_who_leaves_does_not_stop_the_load(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    issuer.delay = 0.2
    leaving = asyncio.create_task(authenticated(authenticator, issuer.token()))
    staying = asyncio.create_task(authenticated(authenticator, issuer.token()))
    await asyncio.sleep(0.05)

    leaving.cancel()

    assert isinstance(await staying, Principal)
    assert leaving.cancelled()


# Metadata.


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server/realms/a",
        "/.well-known/openid-configuration/realms/a",
        "/realms/a/.well-known/openid-configuration",
        "/realms/a/.well-known/oauth-authorization-server",
    ],
)
async def test_metadata_is_found_before_and_after_the_path(issuer: Issuer, path: str) -> None:
    root, issuer.url = issuer.url, f"{issuer.url}/realms/a"
    issuer.answers.clear()
    issuer.publish(path, lambda: {"issuer": issuer.url, "jwks_uri": f"{root}/keys"})
    issuer.publish("/keys", lambda: {"keys": issuer.keys})

    assert isinstance(
        await authenticated(EveryoneHasAnAccount(issuer.url), issuer.token()), Principal
    )


async def test_keys_at_a_given_url_need_no_metadata(issuer: Issuer) -> None:
    authenticator = EveryoneHasAnAccount(issuer.url, jwks_url=f"{issuer.url}/keys")

    assert isinstance(await authenticated(authenticator, issuer.token()), Principal)
    assert issuer.requests == ["/keys"]


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://keys.example/keys"},
        {"jwks_uri": "ftp://127.0.0.1/keys"},
    ],
    ids=str,
)
async def test_metadata_that_does_not_fit_is_503(
    issuer: Issuer, authenticator: JWTAuthentication, changes: Mapping[str, Any]
) -> None:
    issuer.publish(
        "/.well-known/oauth-authorization-server", lambda: {**issuer.metadata(), **changes}
    )

    assert_unavailable(await authenticated(authenticator, issuer.token()))
    assert "/keys" not in issuer.requests


def test_issuer_elsewhere_cannot_name_keys_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = JWTAuthentication("https://issuer.example")
    metadata = {"issuer": "https://issuer.example", "jwks_uri": "http://127.0.0.1:1/keys"}
    monkeypatch.setattr("django_mcp.auth.issuers.verification.discover", lambda _: metadata)

    with pytest.raises(fetching.Unavailable, match="no valid jwks_uri"):
        authenticator._load_keys()


@pytest.mark.parametrize("target", ["/elsewhere", "http://127.0.0.1:1/", "file:///etc/passwd"])
async def test_redirect_is_not_followed(
    issuer: Issuer, authenticator: JWTAuthentication, target: str
) -> None:
    issuer.answers["/keys"] = lambda _: (302, {"Location": target}, b"")
    issuer.publish("/elsewhere", lambda: {"keys": issuer.keys})

    assert_unavailable(await authenticated(authenticator, issuer.token()))
    assert "/elsewhere" not in issuer.requests


@spec("AUTH-RS-27")
def test_tokens_are_not_logged(
    issuer: Issuer, authenticator: JWTAuthentication, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.answers["/keys"] = lambda _: json_answer({}, 500)
    token = issuer.token()

    asyncio.run(authenticated(authenticator, token))

    assert "answers 500" in caplog.text
    assert token not in caplog.text


@spec("AUTH-RS-1A")
async def test_token_is_sent_to_nobody_not_even_its_issuer(
    issuer: Issuer, authenticator: JWTAuthentication
) -> None:
    forms: list[Any] = []

    def noting(answer: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        def note(form: Any) -> Answer:
            forms.append(form)
            return answer(form)

        return note

    issuer.answers = {path: noting(answer) for path, answer in issuer.answers.items()}

    assert isinstance(await authenticated(authenticator, issuer.token()), Principal)

    assert issuer.requests == ["/.well-known/oauth-authorization-server", "/keys"]
    assert issuer.authorizations == [None, None]
    assert forms == [{}, {}]


# Users.


@pytest.mark.django_db(transaction=True)
async def test_subject_is_the_user_with_this_name(issuer: Issuer) -> None:
    user = await User.objects.acreate(username="ada")

    principal = await authenticated(JWTAuthentication(issuer.url), issuer.token())

    assert isinstance(principal, Principal)
    assert principal.user == user


@pytest.mark.django_db(transaction=True)
def test_user_is_read_at_the_first_call_of_a_token(
    issuer: Issuer, django_assert_num_queries: Any
) -> None:
    User.objects.create(username="ada")
    authenticator = JWTAuthentication(issuer.url)
    token = issuer.token()

    for expected in (1, 0, 0):
        with django_assert_num_queries(expected):
            principal = async_to_sync(authenticated)(authenticator, token)
        assert isinstance(principal, Principal)


@pytest.mark.django_db(transaction=True)
async def test_unknown_subject_is_rejected(issuer: Issuer) -> None:
    assert await authenticated(JWTAuthentication(issuer.url), issuer.token()) == NO_ACCOUNT


@pytest.mark.django_db(transaction=True)
async def test_deactivated_user_is_rejected_at_once(issuer: Issuer) -> None:
    authenticator = JWTAuthentication(issuer.url)
    await User.objects.acreate(username="ada")
    assert isinstance(await authenticated(authenticator, issuer.token()), Principal)

    await User.objects.aupdate(is_active=False)

    assert await authenticated(authenticator, issuer.token()) == NO_ACCOUNT


@pytest.mark.django_db(transaction=True)
async def test_email_identifies_a_user_only_if_it_is_verified(issuer: Issuer) -> None:
    await User.objects.acreate(username="a", email="ada@example.org")
    authenticator = JWTAuthentication(issuer.url, user_claim="email", user_field="email")
    claims: dict[str, Any] = {"email": "ada@example.org", "email_verified": True}

    for changes in ({"email_verified": "true"}, {"email_verified": None}, {"email": ["a"]}):
        token = issuer.token(**{**claims, **changes})
        assert await authenticated(authenticator, token) == NO_ACCOUNT
    assert isinstance(await authenticated(authenticator, issuer.token(**claims)), Principal)

    await User.objects.acreate(username="b", email="ada@example.org")
    assert await authenticated(authenticator, issuer.token(**claims)) == NO_ACCOUNT


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("subject", ["service@clients", "9" * 60, "1.5"])
async def test_subject_that_is_no_value_of_the_field_has_no_account(
    issuer: Issuer, subject: str
) -> None:
    await User.objects.acreate(username="a", pk=1)
    authenticator = JWTAuthentication(issuer.url, user_field="id")

    assert await authenticated(authenticator, issuer.token(sub=subject)) == NO_ACCOUNT
    assert isinstance(await authenticated(authenticator, issuer.token(sub="1")), Principal)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("subject", [" 1", "01", "1 ", "+1"])
async def test_user_is_found_by_the_value_as_it_is_written(issuer: Issuer, subject: str) -> None:
    """The database finds the user with the number 1 for each of them."""
    await User.objects.acreate(username="a", pk=1)
    authenticator = JWTAuthentication(issuer.url, user_field="id")

    assert await authenticated(authenticator, issuer.token(sub=subject)) == NO_ACCOUNT


async def test_deactivated_user_of_an_override_is_rejected(issuer: Issuer) -> None:
    class Deactivated(JWTAuthentication):
        async def get_user(self, claims: Claims, /) -> Any:
            return User(pk=7, is_active=False)

    assert await authenticated(Deactivated(issuer.url), issuer.token()) == NO_ACCOUNT


async def test_program_without_an_account_has_a_subject(issuer: Issuer) -> None:
    class Programs(JWTAuthentication):
        async def get_user(self, claims: Claims, /) -> Any:
            return AnonymousUser()

    principal = await authenticated(Programs(issuer.url), issuer.token())

    assert isinstance(principal, Principal)
    assert not principal.is_anonymous


# Configuration.


def test_subclass_without_arguments_has_its_own_options() -> None:
    class Company(EveryoneHasAnAccount):
        issuer = "https://login.example.org"

    assert Company().authorization_servers({}) == ("https://login.example.org",)


@spec("AUTH-RS-33")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the issuer"),
        ({"issuer": "http://issuer.example"}, "https://"),
        ({"issuer": "https://user:password@issuer.example"}, "https://"),
        ({"issuer": "https://issuer.example/#a"}, "https://"),
        ({"issuer": "https://[a"}, "https://"),
        ({"issuer": "https://a", "jwks_url": "file:///etc/keys"}, "jwks_url"),
        ({"issuer": "https://a", "algorithms": ["HS256"]}, "must be a list of some of RS256"),
        ({"issuer": "https://a", "algorithms": ["none"]}, "must be a list"),
        ({"issuer": "https://a", "algorithms": []}, "must be a list"),
    ],
    ids=str,
)
def test_insecure_configuration_is_rejected(options: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        JWTAuthentication(**options)
