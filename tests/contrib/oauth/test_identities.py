"""Assertions of identity providers that name users of the site (ID-JAG)."""

from __future__ import annotations

import logging
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models.lookups import IExact
from jwcrypto import jwk

from django_mcp.contrib.oauth.models import (
    Consent,
    ExternalIdentity,
    ManagedAccess,
    TrustedIssuer,
    UsedAssertion,
)
from django_mcp.contrib.oauth.validators import ResourceValidator
from tests.auth.issuer import Issuer, running_issuer
from tests.contrib.oauth.endpoints import WELL_KNOWN, get
from tests.contrib.oauth.flow import ENDPOINT, PAGE, SITE, Flow, at_once, call, document, post
from tests.contrib.oauth.signer import (
    ASSERTION_TYPE,
    ID_JAG,
    JWT_BEARER,
    client_claims,
    identity_claims,
    key,
    machine,
    public,
    sign,
)
from tests.spec import spec
from tests.waiting import SECONDS

REFUSED = (400, "invalid_grant")


@pytest.fixture
def provider() -> Iterator[Issuer]:
    """The identity provider of a company, whose metadata names its keys."""
    with running_issuer() as provider:
        provider.publish("/keys", lambda: public(key("idp")))
        yield provider


@pytest.fixture
def trusted(provider: Issuer) -> TrustedIssuer:
    return TrustedIssuer.objects.create(
        name="Acme", issuer=provider.url, scope="mcp write", email_domains="acme.example"
    )


@pytest.fixture
def linked(trusted: TrustedIssuer, user: User) -> TrustedIssuer:
    """The subject U1 is the user ann."""
    link(trusted, user)
    return trusted


@pytest.fixture
def chat() -> Any:
    """A client that the site registered, with a secret."""
    from oauth2_provider.models import Application

    return Application.objects.create(
        client_id="chat",
        name="Chat",
        client_type="confidential",
        authorization_grant_type="authorization-code",
        redirect_uris="https://chat.example/cb",
        client_secret="s3cret",
    )


def link(trusted: TrustedIssuer, user: User, subject: str = "U1") -> None:
    from django_mcp.contrib.oauth.models import identity_digest

    ExternalIdentity.objects.create(
        trusted_issuer=trusted,
        digest=identity_digest(trusted.issuer, "", subject),
        subject=subject,
        user=user,
    )


BASIC = f"Basic {b64encode(b'chat:s3cret').decode()}"


def jag(trusted: TrustedIssuer, *, client_id: str = "chat", **changes: Any) -> str:
    header = changes.pop("header", {})
    signer = changes.pop("signer", key("idp"))
    algorithm = changes.pop("algorithm", "ES256")
    claims = identity_claims(trusted.issuer, client_id, **changes)
    return sign(claims, signer, algorithm, **{"typ": ID_JAG, **header})


def redeem(assertion: str | None, *, basic: str | None = BASIC, **fields: str | None) -> Any:
    sent = {"grant_type": JWT_BEARER, "assertion": assertion, **fields}
    extra = {} if basic is None else {"HTTP_AUTHORIZATION": basic}
    return post("/o/token", {k: v for k, v in sent.items() if v is not None}, **extra)


def error(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


@spec("EM-02", "EM-03", "EM-04", "EM-05", "EM-08", "EM-10", "EM-20")
def test_assertion_gives_a_token_for_its_user(linked: TrustedIssuer, chat: Any) -> None:
    response = redeem(jag(linked), scope="mcp")

    assert response.status_code == 200, response.content
    assert response["Cache-Control"] == "no-store"
    token = response.json()
    access_token = token.pop("access_token")
    assert token == {"token_type": "Bearer", "expires_in": 3600, "scope": "mcp"}
    assert "ann by chat" in call(access_token).body.decode()
    access = ManagedAccess.objects.get()
    assert (access.resource, access.scopes, access.ended_at) == (ENDPOINT, ["mcp"], None)
    assert not Consent.objects.exists()


@spec("EM-02")
def test_client_with_a_key_presents_an_assertion(linked: TrustedIssuer) -> None:
    machine(None, client_id="chat", jwks=public(key("one")))
    fields = {
        "client_assertion": sign(client_claims("chat"), key("one")),
        "client_assertion_type": ASSERTION_TYPE,
    }
    response = redeem(jag(linked), basic=None, **fields)
    assert response.status_code == 200, response.content


@spec("EM-02", "EM-07")
@pytest.mark.parametrize("is_stored", [True, False])
def test_client_with_a_metadata_document_presents_an_assertion(
    is_stored: bool, linked: TrustedIssuer, flow: Flow
) -> None:
    if is_stored:
        flow.tokens()
    response = redeem(jag(linked, client_id=flow.client_id), basic=None, client_id=flow.client_id)
    assert response.status_code == 200, response.content
    assert f"ann by {flow.client_id}" in call(response.json()["access_token"]).body.decode()
    other = redeem(jag(linked, client_id="chat"), basic=None, client_id=flow.client_id)
    assert error(other) == REFUSED


def test_document_is_not_fetched_without_an_assertion_for_it(
    linked: TrustedIssuer, documents: Callable[..., Any]
) -> None:
    client_id = documents("claude_ai")["client_id"]
    for assertion in (jag(linked), jag(linked, client_id=client_id, signer=key("evil"))):
        assert redeem(assertion, basic=None, client_id=client_id).status_code == 401


ATTACKS: dict[str, dict[str, Any]] = {
    "type of other tokens": {"header": {"typ": "JWT"}},
    "no type": {"header": {"typ": None}},
    "another key": {"signer": key("evil")},
    "another key with the same id": {"signer": key("evil"), "header": {"kid": "idp"}},
    "unknown kid": {"header": {"kid": "nobody"}},
    "another issuer": {"iss": "https://other.example"},
    "another audience": {"aud": "https://other.example"},
    "token endpoint as audience": {"aud": f"{SITE}/o/token"},
    "resource as audience": {"aud": ENDPOINT},
    "another audience as well": {"aud": [SITE, "https://other.example"]},
    "no audience": {"aud": None},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "no jti": {"jti": None},
    "no expiry": {"exp": None},
    "no time of issue": {"iat": None},
    "expired": {"exp": int(time.time()) - 60, "iat": int(time.time()) - 300},
    "too long": {"exp": int(time.time()) + 7200},
    # A day, since the test may run long after this line.
    "from the future": {"iat": int(time.time()) + 86_400, "exp": int(time.time()) + 86_500},
    "another client": {"client_id": "other"},
    "no client": {"client_id": None},
    "resource of another server": {"resource": "https://other.example/mcp"},
    "resource that takes no tokens": {"resource": f"{SITE}/public"},
    "list as resource": {"resource": [ENDPOINT]},
}


@spec("EM-03", "EM-04", "EM-05", "EM-06", "EM-07", "EM-08", "EM-10", "identity-25")
@pytest.mark.parametrize("changes", ATTACKS.values(), ids=ATTACKS)
def test_assertion_that_is_not_for_this_request_is_refused(
    changes: dict[str, Any], linked: TrustedIssuer, chat: Any
) -> None:
    changes = dict(changes)
    issuer = changes.pop("iss", linked.issuer)
    response = redeem(jag(TrustedIssuer(issuer=issuer), **changes))
    assert error(response) == REFUSED
    assert not UsedAssertion.objects.exists()
    assert not ManagedAccess.objects.exists()


@spec("EM-04")
@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
def test_assertion_of_another_algorithm_is_refused(
    algorithm: str, linked: TrustedIssuer, chat: Any, provider: Issuer
) -> None:
    """HS256 with the public key as its secret; RS256 where the administrator lists ES256."""
    if algorithm == "none":
        _, payload, _ = jag(linked).split(".")
        header = b64encode(b'{"alg":"none","typ":"oauth-id-jag+jwt","kid":"idp"}').decode()
        assertion = f"{header.rstrip('=')}.{payload}."
    elif algorithm == "HS256":
        secret = jwk.JWK(kty="oct", k=key("idp").export_public(as_dict=True)["x"], kid="idp")
        assertion = jag(linked, signer=secret, algorithm="HS256")
    else:
        from tests.contrib.oauth.signer import rsa_key

        provider.publish("/keys", lambda: public(key("idp"), rsa_key("rsa")))
        TrustedIssuer.objects.update(algorithms="ES256")
        assertion = jag(linked, signer=rsa_key("rsa"), algorithm="RS256")
    assert error(redeem(assertion)) == REFUSED
    assert redeem(jag(linked)).status_code == 200


@spec("EM-04")
def test_issuer_that_is_not_active_is_not_trusted(linked: TrustedIssuer, chat: Any) -> None:
    TrustedIssuer.objects.update(is_active=False)
    assert error(redeem(jag(linked))) == REFUSED


@spec("EM-06")
def test_assertion_is_redeemed_once(linked: TrustedIssuer, chat: Any) -> None:
    assertion = jag(linked)
    assert redeem(assertion).status_code == 200
    assert error(redeem(assertion)) == REFUSED
    # A jti is one of its issuer and subject.
    link(linked, User.objects.create_user("bob"), "U2")
    for subject, status in (("U1", 200), ("U2", 200), ("U1", 400)):
        assert redeem(jag(linked, sub=subject, jti="same")).status_code == status


@spec("EM-06")
@pytest.mark.django_db(transaction=True)
def test_assertion_is_redeemed_once_by_requests_at_once(
    real_database: str, provider: Issuer
) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer=provider.url, scope="mcp")
    link(trusted, User.objects.create_user("ann"))
    machine(None, client_id="chat")
    assertion = jag(trusted)

    responses = at_once(4, lambda _: redeem(assertion))

    assert sorted(each.status_code for each in responses) == [200, 400, 400, 400]


@pytest.mark.django_db(transaction=True)
def test_access_that_ends_while_a_token_is_issued_leaves_no_valid_token(
    real_database: str, provider: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = TrustedIssuer.objects.create(name="Acme", issuer=provider.url, scope="mcp")
    link(trusted, User.objects.create_user("ann"))
    machine(None, client_id="chat")
    access_ends = threading.Event()
    save = ResourceValidator.save_token

    def save_later(*args: Any) -> None:
        access_ends.set()
        time.sleep(0.3)  # Either the other thread ends the access now, or it waits for a lock.
        save(*args)

    monkeypatch.setattr(ResourceValidator, "save_token", save_later)

    def end_access() -> Any:
        assert access_ends.wait(SECONDS)
        ManagedAccess.objects.get().end()

    requests = [lambda: redeem(jag(trusted)), end_access]
    response, _ = at_once(2, lambda number: requests[number]())

    assert call(response.json()["access_token"]).status == 401  # type: ignore[attr-defined]


@spec("EM-07")
def test_client_has_to_authenticate(linked: TrustedIssuer, chat: Any) -> None:
    wrong = f"Basic {b64encode(b'chat:wrong').decode()}"
    assert error(redeem(jag(linked), basic=wrong)) == (401, "invalid_client")
    assert error(redeem(jag(linked), basic=None, client_id="chat")) == (401, "invalid_client")
    assert error(redeem(jag(linked), basic=None)) == (401, "invalid_client")
    assert error(redeem(jag(linked), client_id="other")) == (401, "invalid_client")


def test_client_that_registered_by_itself_presents_no_assertion(linked: TrustedIssuer) -> None:
    metadata = document("cursor.registration")
    metadata["token_endpoint_auth_method"] = "client_secret_post"
    registered: Any = post("/o/register", metadata, content_type="application/json")
    found = registered.json()
    fields = {"client_id": found["client_id"], "client_secret": found["client_secret"]}
    response = redeem(jag(linked, client_id=found["client_id"]), basic=None, **fields)
    assert error(response) == (400, "unauthorized_client")


@spec("EM-08")
def test_parameter_resource_may_only_repeat_the_claim(linked: TrustedIssuer, chat: Any) -> None:
    assert redeem(jag(linked), resource=ENDPOINT).status_code == 200
    assert error(redeem(jag(linked), resource=f"{SITE}/public")) == (400, "invalid_target")
    # The only server that accepts tokens.
    token = redeem(jag(linked, resource=None)).json()["access_token"]
    assert call(token).status == 200


@spec("EM-09")
@pytest.mark.parametrize(
    ("granted", "requested", "expected"),
    [
        ("mcp", None, "mcp"),
        ("mcp write", None, "mcp write"),
        ("mcp", "mcp write", "mcp"),
        ("mcp write", "mcp", "invalid_grant"),
        ("mcp admin", None, "mcp"),
        ("admin", None, "invalid_scope"),
        ("", None, "invalid_scope"),
        (None, "mcp", "invalid_scope"),
        (["mcp"], "mcp", "invalid_scope"),
    ],
)
def test_scopes_are_those_of_the_assertion_that_are_allowed(
    granted: Any, requested: str | None, expected: str, linked: TrustedIssuer, chat: Any
) -> None:
    found = redeem(jag(linked, scope=granted), scope=requested).json()
    assert (found.get("error") or found["scope"]) == expected


@spec("EM-09")
def test_administrator_bounds_the_scopes_of_an_issuer(linked: TrustedIssuer, chat: Any) -> None:
    TrustedIssuer.objects.update(scope="mcp")
    response = redeem(jag(linked, scope="mcp write"), scope="mcp write")
    assert response.json()["scope"] == "mcp"
    assert call(response.json()["access_token"], "reprice").status == 403


@spec("EM-12")
def test_unknown_subject_is_no_user(trusted: TrustedIssuer, chat: Any, user: User) -> None:
    User.objects.update(email="ann@acme.example", username="U1")
    assert error(redeem(jag(trusted, email="ann@acme.example"))) == REFUSED
    assert not ExternalIdentity.objects.exists()


@spec("EM-12")
def test_subject_is_linked_by_an_address_of_its_company(
    trusted: TrustedIssuer, chat: Any, user: User
) -> None:
    TrustedIssuer.objects.update(link_by_email=True)
    User.objects.update(email="Ann@acme.example")
    token = redeem(jag(trusted, email="ann@acme.example")).json()["access_token"]
    assert "ann by chat" in call(token).body.decode()
    # It stays linked, whatever the address is later.
    assert redeem(jag(trusted, email="x@other.example")).status_code == 200
    # Somebody else who has the address now is somebody else.
    assert error(redeem(jag(trusted, sub="U2", email="ann@acme.example"))) == REFUSED
    assert ExternalIdentity.objects.get().user == user


@spec("EM-12", "identity-26")
@pytest.mark.parametrize(
    "claims",
    [
        {"email": "ann@other.example"},
        {"email": "ann@sub.acme.example"},
        {"email": "ann@acme.example", "email_verified": False},
        {"email": "ann@acme.example", "email_verified": "true"},
        {"email": "@acme.example"},
        {"email": ["ann@acme.example"]},
        {"email": "ann@other.example\n@acme.example"},
    ],
    ids=str,
)
def test_address_that_the_issuer_may_not_vouch_for_links_nobody(
    claims: dict[str, Any], trusted: TrustedIssuer, chat: Any, user: User
) -> None:
    TrustedIssuer.objects.update(link_by_email=True)
    email = claims["email"]
    User.objects.update(email=email if isinstance(email, str) else "ann@acme.example")
    assert error(redeem(jag(trusted, **claims))) == REFUSED


def test_address_of_two_users_links_nobody(trusted: TrustedIssuer, chat: Any, user: User) -> None:
    TrustedIssuer.objects.update(link_by_email=True)
    User.objects.create_user("bob")
    User.objects.update(email="ann@acme.example")
    assert error(redeem(jag(trusted, email="ann@acme.example"))) == REFUSED


@spec("EM-12")
@pytest.mark.parametrize(
    ("stored", "is_same"),
    [
        ("ISK@Acme.example", True),
        ("\u0131sk@acme.example", False),
        ("i\u017fk@acme.example", False),
        ("is\u212a@acme.example", False),
        ("\u00edsk@acme.example", False),
    ],
)
def test_address_with_other_letters_is_not_linked(
    stored: str,
    is_same: bool,
    trusted: TrustedIssuer,
    chat: Any,
    user: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    TrustedIssuer.objects.update(link_by_email=True)
    User.objects.update(email=stored)
    # A database whose collation finds them all.
    monkeypatch.setattr(IExact, "as_sql", lambda *_args: ("1 = 1", []))
    response = redeem(jag(trusted, email="isk@acme.example"))
    assert response.status_code == (200 if is_same else 400)


@pytest.mark.parametrize("email", ["bob@acme.example", "bob@other.example", None])
def test_user_is_created_for_a_new_subject(
    email: str | None, trusted: TrustedIssuer, chat: Any
) -> None:
    TrustedIssuer.objects.update(create_users=True)
    for _ in range(2):
        assert redeem(jag(trusted, email=email)).status_code == 200
    created = ExternalIdentity.objects.get().user
    assert not created.has_usable_password()
    assert not created.is_staff
    is_own = email == "bob@acme.example"
    assert (created.username, created.email) == (
        (email, email) if is_own else (created.username, "")
    )
    assert is_own or created.username.startswith("127.0.0.1.")


def test_created_user_does_not_take_the_name_of_another(trusted: TrustedIssuer, chat: Any) -> None:
    TrustedIssuer.objects.update(create_users=True)
    User.objects.create_superuser("bob@acme.example")
    assert redeem(jag(trusted, email="bob@acme.example")).status_code == 200
    assert not ExternalIdentity.objects.get().user.is_superuser


@spec("EM-12")
def test_tenant_is_part_of_the_identity(trusted: TrustedIssuer, chat: Any) -> None:
    TrustedIssuer.objects.update(
        create_users=True, tenant_claim="hd", tenants="a.example b.example"
    )
    for tenant in ("a.example", "b.example", "a.example"):
        assert redeem(jag(trusted, hd=tenant)).status_code == 200
    assert ExternalIdentity.objects.count() == 2
    for refused in ("c.example", None, ["a.example"]):
        assert error(redeem(jag(trusted, hd=refused))) == REFUSED


def test_deactivated_user_is_refused(linked: TrustedIssuer, chat: Any, user: User) -> None:
    token = redeem(jag(linked)).json()["access_token"]
    user.is_active = False
    user.save()
    assert call(token).status == 401
    assert error(redeem(jag(linked))) == REFUSED


class ByUsername(ResourceValidator):
    """A site that finds users in its own way."""

    def user_for_assertion(self, claims: Any, trusted: TrustedIssuer) -> Any:
        return User.objects.filter(username=claims["login"]).first()


def test_site_finds_users_in_its_own_way(
    trusted: TrustedIssuer, chat: Any, user: User, settings: Any
) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "OAUTH2_VALIDATOR_CLASS": ByUsername}
    assert redeem(jag(trusted, login="ann")).status_code == 200
    assert error(redeem(jag(trusted, login="nobody"))) == REFUSED


def test_access_that_an_administrator_ended_stays_ended(linked: TrustedIssuer, chat: Any) -> None:
    token = redeem(jag(linked)).json()["access_token"]
    assert call(token).status == 200
    ManagedAccess.objects.get().end()
    assert call(token).status == 401
    assert error(redeem(jag(linked))) == REFUSED


def test_new_password_ends_the_tokens_and_not_the_access(
    linked: TrustedIssuer, chat: Any, user: User
) -> None:
    token = redeem(jag(linked)).json()["access_token"]
    user.set_password("new")
    user.save()
    assert call(token).status == 401
    assert redeem(jag(linked)).status_code == 200


def test_user_sees_what_the_company_allowed_and_cannot_end_it(
    linked: TrustedIssuer, chat: Any, user: User, client: Any
) -> None:
    redeem(jag(linked))
    client.force_login(user)
    page = client.get("/o/access", **PAGE).text
    assert "Allowed by your company" in page
    assert "Acme" in page
    assert "Chat" in page
    assert "The tea shop" in page
    assert 'name="consent"' not in page
    ManagedAccess.objects.get().end()
    assert "Acme" not in client.get("/o/access", **PAGE).text


@spec("EM-01")
def test_metadata_lists_the_profile_where_an_issuer_is_trusted(trusted: TrustedIssuer) -> None:
    found = get(WELL_KNOWN).json()
    assert found["authorization_grant_profiles_supported"] == [
        "urn:ietf:params:oauth:grant-profile:id-jag"
    ]
    assert JWT_BEARER in found["grant_types_supported"]
    trusted.delete()
    assert "authorization_grant_profiles_supported" not in get(WELL_KNOWN).json()


@spec("EM-11")
def test_assertion_is_neither_logged_nor_taken_from_a_url(
    linked: TrustedIssuer, chat: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assertion = jag(linked)
    in_url = post(
        f"/o/token?assertion={assertion}", {"grant_type": JWT_BEARER}, HTTP_AUTHORIZATION=BASIC
    )
    assert error(in_url) == (400, "invalid_request")
    other = jag(linked)
    token = redeem(other).json()["access_token"]
    redeem(other)
    assert other not in caplog.text
    assert token not in caplog.text


def test_missing_or_repeated_assertion_is_refused(linked: TrustedIssuer, chat: Any) -> None:
    assert error(redeem(None)) == (400, "invalid_request")
    fields = {"grant_type": JWT_BEARER, "assertion": [jag(linked), jag(linked)]}
    assert error(post("/o/token", fields, HTTP_AUTHORIZATION=BASIC)) == REFUSED


def test_keys_that_cannot_be_loaded_refuse_the_assertion(chat: Any, user: User) -> None:
    trusted = TrustedIssuer.objects.create(
        name="Gone", issuer="http://127.0.0.1:9", scope="mcp", jwks_uri="http://127.0.0.1:9/keys"
    )
    link(trusted, user)
    assert error(redeem(jag(trusted))) == REFUSED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": "http://idp.example"}, "https"),
        ({"jwks_uri": "ftp://idp.example/keys"}, "https"),
        ({"algorithms": "ES256 HS256"}, "Use some of"),
        ({"algorithms": "none"}, "Use some of"),
        ({"tenant_claim": "hd"}, "values to accept"),
        ({"tenants": "a.example"}, "values to accept"),
        ({"link_by_email": True}, "domains"),
    ],
    ids=str,
)
def test_row_of_an_issuer_is_checked(changes: dict[str, Any], message: str) -> None:
    row = TrustedIssuer(name="Acme", issuer="https://idp.example", scope="mcp")
    row.full_clean()
    for name, value in changes.items():
        setattr(row, name, value)
    with pytest.raises(ValidationError, match=message):
        row.full_clean()
