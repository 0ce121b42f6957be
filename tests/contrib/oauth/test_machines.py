"""Machine clients: tokens by client credentials, with a secret or with signed assertions."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils import timezone
from jwcrypto import jwk

from django_mcp.contrib.oauth.endpoints import MAX_FAILURES
from django_mcp.contrib.oauth.models import MachineClient, UsedAssertion
from tests.auth.issuer import running_issuer
from tests.contrib.oauth.endpoints import WELL_KNOWN, get
from tests.contrib.oauth.flow import ENDPOINT, PAGE, SITE, Flow, at_once, call, post
from tests.contrib.oauth.signer import (
    ASSERTION_TYPE,
    client_claims,
    key,
    machine,
    public,
    request,
    rsa_key,
    sign,
)
from tests.spec import spec

TOKEN_ENDPOINT = f"{SITE}/o/token"


@pytest.fixture
def robot() -> User:
    """The user as whom machines act."""
    return User.objects.create_user("robot")


@pytest.fixture
def signing(robot: User) -> MachineClient:
    """A machine with a key."""
    row: MachineClient = machine(robot, client_id="signer", jwks=public(key("one")))
    return row


def basic(client_id: str = "robot", secret: str = "s3cret") -> str:
    return b64encode(f"{client_id}:{secret}".encode()).decode()


def signed(client_id: str = "signer", name: str = "one", **changes: Any) -> str:
    return sign(client_claims(client_id, **changes), key(name))


def error(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


@spec("CC-05", "CC-08", "CC-09")
def test_machine_with_a_secret_acts_as_its_user(robot: User) -> None:
    machine(robot)

    response: Any = request(basic=basic(), scope="mcp")

    assert response.status_code == 200, response.content
    assert response["Cache-Control"] == "no-store"
    token = response.json()
    assert token.pop("access_token")
    assert token == {"token_type": "Bearer", "expires_in": 3600, "scope": "mcp"}
    assert "robot by robot" in call(request(basic=basic()).json()["access_token"]).body.decode()  # type: ignore[attr-defined]


@spec("CC-03", "CC-05", "CC-06")
@pytest.mark.parametrize("audience", [SITE, f"{SITE}/", TOKEN_ENDPOINT, [SITE]])
def test_machine_with_a_key_acts_as_its_user(audience: Any, signing: MachineClient) -> None:
    response: Any = request(signed(aud=audience))

    assert response.status_code == 200, response.content
    assert "refresh_token" not in response.json()
    assert "robot by signer" in call(response.json()["access_token"]).body.decode()


@pytest.mark.parametrize("method", ["basic", "post"])
def test_machine_authenticates_in_both_ways_of_secrets(method: str, robot: User) -> None:
    machine(robot)
    if method == "basic":
        response = request(basic=basic())
    else:
        response = request(client_id="robot", client_secret="s3cret")
    assert response.status_code == 200, response.content


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES384"])
def test_other_algorithms_are_accepted(algorithm: str, robot: User) -> None:
    signer = key("p384", "P-384") if algorithm == "ES384" else rsa_key("rsa")
    machine(robot, client_id="signer", jwks=public(signer))
    assert request(sign(client_claims("signer"), signer, algorithm)).status_code == 200


@spec("CC-06")
def test_keys_are_loaded_from_the_url_of_the_client(robot: User) -> None:
    with running_issuer() as published:
        published.publish("/jwks", lambda: public(key("one")))
        machine(robot, client_id="signer", jwks_uri=f"{published.url}/jwks")

        assert request(signed()).status_code == 200
        assert request(signed()).status_code == 200
        assert published.requests == ["/jwks"]


def test_keys_overlap_while_they_are_replaced(signing: MachineClient) -> None:
    assert error(request(signed(name="two"))) == (401, "invalid_client")
    signing.jwks = public(key("one"), key("two"))
    signing.save()
    assert request(signed(name="one")).status_code == request(signed(name="two")).status_code == 200
    signing.jwks = public(key("two"))
    signing.save()
    assert error(request(signed(name="one"))) == (401, "invalid_client")
    assert request(signed(name="two")).status_code == 200


def test_secrets_are_hashed_and_overlap_while_they_are_replaced(robot: User) -> None:
    row = machine(robot)
    row.rotate_secret("n3w", timedelta(days=1))

    row.refresh_from_db()
    row.application.refresh_from_db()
    assert not {"s3cret", "n3w"} & {row.previous_secret, row.application.client_secret}
    assert (
        request(basic=basic()).status_code == request(basic=basic(secret="n3w")).status_code == 200
    )
    MachineClient.objects.update(previous_secret_until=timezone.now())
    assert error(request(basic=basic())) == (401, "invalid_client")
    assert request(basic=basic(secret="n3w")).status_code == 200


FIELDS = {"grant_type": "client_credentials", "token": "x"}


@spec("identity-28")
@pytest.mark.parametrize("path", ["/o/token", "/o/revoke"])
def test_guesses_of_a_secret_are_bounded_for_a_client_and_a_network(
    path: str, robot: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    for name in ("robot", "other"):
        machine(robot, client_id=name)

    def attempt(
        secret: str, name: str = "robot", fields: Mapping[str, str] = FIELDS, **more: str
    ) -> Any:
        return post(path, fields, HTTP_AUTHORIZATION=f"Basic {basic(name, secret)}", **more)

    failures = [attempt(f"guess {number}").status_code for number in range(MAX_FAILURES)]
    refused = attempt("s3cret")

    assert failures == [401] * MAX_FAILURES
    assert error(refused) == (429, "temporarily_unavailable")
    assert refused["Retry-After"] == "60"
    # The toolkit tries the header, and then the body.
    assert attempt("s3cret", "other", {**FIELDS, "client_id": "robot"}).status_code == 429
    assert attempt("s3cret", "other").status_code == 200
    assert attempt("s3cret", REMOTE_ADDR="203.0.113.9").status_code == 200
    monkeypatch.setattr(time, "time", lambda: 1_800_000_060.0)
    assert attempt("s3cret").status_code == 200


def test_failed_assertions_are_counted_by_their_client(
    signing: MachineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(signing.user, client_id="neighbour", jwks=public(key("two")))
    statuses = [request(signed(name="two")).status_code for _ in range(MAX_FAILURES + 1)]

    assert statuses == [401] * MAX_FAILURES + [429]
    assert request(signed("neighbour", "two")).status_code == 200


ATTACKS: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "https://other.example"},
    "another audience as well": {"aud": [SITE, "https://other.example"]},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://other.example"},
    "another subject": {"sub": "robot"},
    "no jti": {"jti": None},
    "jti of the wrong type": {"jti": 7},
    "no expiry": {"exp": None},
    "expired": {"exp": int(time.time()) - 60},
    "too long": {"exp": int(time.time()) + 3600},
    "not yet valid": {"nbf": int(time.time()) + 3600},
    "from the future": {"iat": int(time.time()) + 3600},
    "expiry as text": {"exp": "9999999999"},
}


@spec("CC-06", "CC-07")
@pytest.mark.parametrize("changes", ATTACKS.values(), ids=ATTACKS)
def test_assertion_with_a_wrong_claim_is_refused(
    changes: dict[str, Any], signing: MachineClient
) -> None:
    assert error(request(signed(**changes))) == (401, "invalid_client")
    assert not UsedAssertion.objects.exists()


@pytest.mark.parametrize("names_itself", [True, False])
def test_client_with_a_document_logs_in_with_an_assertion_where_there_are_machines(
    names_itself: bool, signing: MachineClient, documents: Any, robot: User
) -> None:
    """ChatGPT chooses to sign, though its document says that it need not."""
    published = documents("chatgpt")
    client_id = published["client_id"]
    flow = Flow(client_id, published["redirect_uris"][0], robot)
    changes = {
        "client_assertion": signed(client_id),
        "client_assertion_type": ASSERTION_TYPE,
        "client_id": client_id if names_itself else None,
    }
    code = flow.code()
    wrong = flow.token(code, **{**changes, "code_verifier": "w" * 64})
    assert error(wrong) == (400, "invalid_grant")
    response: Any = flow.token(flow.code(prompt="consent"), **changes)
    assert response.status_code == 200, response.content
    assert "robot by" in call(response.json()["access_token"]).body.decode()


def test_client_with_a_document_gets_no_client_credentials_by_an_assertion(
    signing: MachineClient, documents: Any, robot: User
) -> None:
    published = documents("chatgpt")
    Flow(published["client_id"], published["redirect_uris"][0], robot).code()
    assert error(request(signed(published["client_id"])))[1] == "invalid_client"


@spec("CC-06")
def test_assertion_is_used_once(signing: MachineClient) -> None:
    assertion = signed()
    assert request(assertion).status_code == 200
    assert error(request(assertion)) == (401, "invalid_client")


@spec("CC-06")
@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_assertion_without_a_signature_of_a_key_is_refused(
    algorithm: str, signing: MachineClient
) -> None:
    """HS256 with the public key as the secret."""
    if algorithm == "none":
        header, payload, _ = signed().split(".")
        header = b64encode(b'{"alg":"none","typ":"JWT","kid":"one"}').decode().rstrip("=")
        assertion = f"{header}.{payload}."
    else:
        secret = jwk.JWK(kty="oct", k=key("one").export_public(as_dict=True)["x"], kid="one")
        assertion = sign(client_claims("signer"), secret, "HS256")
    assert error(request(assertion)) == (401, "invalid_client")


@pytest.mark.parametrize(
    "header",
    [
        {"kid": "two"},
        {"kid": "../../dev/null"},
        {"kid": ["one"]},
        {"typ": "at+jwt"},
        {"typ": "oauth-id-jag+jwt"},
        {"jku": "https://evil.example/keys", "kid": "evil"},
        {"jwk": key("evil").export_public(as_dict=True), "kid": "evil"},
        {"crit": ["x"], "x": 1},
    ],
    ids=[
        *("another key", "path", "list", "access token", "assertion of an issuer"),
        *("URL of keys", "key in the header", "critical"),
    ],
)
def test_header_chooses_no_other_key_and_no_other_kind(
    header: dict[str, Any], signing: MachineClient
) -> None:
    signer = key("evil") if header.get("kid") == "evil" else key("one")
    if "crit" in header:
        token = _with_header(client_claims("signer"), signer, header)
    else:
        token = sign(client_claims("signer"), signer, **header)
    assert error(request(token)) == (401, "invalid_client")


def _with_header(claims: dict[str, Any], signer: Any, header: dict[str, Any]) -> str:
    """A JWT with a critical header that jwcrypto would not write."""
    import json

    import jwt

    pem = signer.export_to_pem(private_key=True, password=None)
    token: str = jwt.encode(claims, pem, "ES256", {"kid": "one", **header})
    assert "crit" in json.loads(_decoded(token.split(".")[0]))
    return token


def _decoded(part: str) -> bytes:
    from base64 import urlsafe_b64decode

    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize("token", ["", "a.b.c", "x" * 20_000, "{}.{}.{}", "ä.ö.ü", "." * 5])
def test_malformed_assertion_is_refused(token: str, signing: MachineClient) -> None:
    assert error(request(token)) == (401, "invalid_client")


LONE_SURROGATE = sign({"sub": "\ud800", "iss": "\ud800"}, key("one"))


@pytest.mark.parametrize(
    ("query", "header", "fields", "expected"),
    [
        ("?x=%zz", None, {}, (400, "invalid_request")),
        ("?x=1", None, {}, (400, "invalid_request")),
        ("", "Basic \xe9", {}, (401, "invalid_client")),
        ("", f"Basic {basic(chr(0))}", {}, (401, "invalid_client")),
        ("", f"Basic {basic('%00')}", {}, (401, "invalid_client")),
        ("", f"Basic {basic('nobody')}", {"encoding": "nothing"}, (401, "invalid_client")),
        (
            "",
            None,
            {"client_assertion": LONE_SURROGATE, "client_assertion_type": ASSERTION_TYPE},
            (401, "invalid_client"),
        ),
        ("", None, {"client_id": "robot\0"}, (400, "invalid_request")),
        ("", None, {"resource": "https://["}, (400, "invalid_target")),
    ],
)
@pytest.mark.parametrize("path", ["/o/token", "/o/revoke"])
def test_malformed_request_of_a_client_is_an_error_as_json(
    path: str,
    query: str,
    header: str | None,
    fields: dict[str, str],
    expected: tuple[int, str],
    robot: User,
) -> None:
    machine(robot)
    extra = {} if header is None else {"HTTP_AUTHORIZATION": header}
    response = post(path + query, {**FIELDS, **fields}, **extra)
    assert error(response) == expected
    assert response["Content-Type"] == "application/json"


def test_assertion_of_another_client_is_refused(signing: MachineClient, robot: User) -> None:
    machine(robot, name="Other", jwks=public(key("two")))
    assert error(request(signed(name="two"))) == (401, "invalid_client")
    assert error(request(signed("other"))) == (401, "invalid_client")
    assert error(request(signed(), client_id="other")) == (401, "invalid_client")


def test_assertion_needs_its_type_and_is_the_only_method(signing: MachineClient) -> None:
    for fields in (
        {"client_assertion_type": None},
        {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"},
        {"client_secret": "s3cret"},
        {"basic": basic("signer")},
    ):
        assert error(request(signed(), **fields)) == (401, "invalid_client")


def test_client_with_keys_has_no_secret(signing: MachineClient) -> None:
    response = request(basic=basic("signer"))
    assert error(response) == (401, "invalid_client")


@spec("CC-07")
def test_wrong_secret_is_answered_with_the_scheme(robot: User) -> None:
    machine(robot)
    for credentials in (basic(secret="wrong"), basic("nobody"), "???", basic("robot", "")):
        response = request(basic=credentials)
        assert error(response) == (401, "invalid_client")
        assert response["WWW-Authenticate"].startswith("Basic ")
        assert response["Cache-Control"] == "no-store"


@spec("CC-07")
def test_scopes_are_those_of_the_administrator(robot: User) -> None:
    machine(robot)
    assert error(request(basic=basic(), scope="mcp write")) == (400, "invalid_scope")
    assert error(request(basic=basic(), scope="unknown")) == (400, "invalid_scope")
    MachineClient.objects.update(scope="mcp write")
    assert request(basic=basic()).json()["scope"] == "mcp write"  # type: ignore[attr-defined]


def test_machine_steps_up_as_people_do(robot: User) -> None:
    machine(robot, scope="mcp write")
    token = request(basic=basic(), scope="mcp").json()["access_token"]  # type: ignore[attr-defined]
    denied = call(token, "reprice")
    assert denied.status == 403
    assert 'scope="write"' in denied.headers["www-authenticate"]
    more = request(basic=basic(), scope="mcp write").json()["access_token"]  # type: ignore[attr-defined]
    assert call(more, "reprice").status == 200


@spec("CC-07", "CC-08")
def test_token_is_for_one_server_of_the_site(robot: User) -> None:
    machine(robot)
    for resource in ("https://other.example/mcp", f"{SITE}/public", "mcp"):
        assert error(request(basic=basic(), resource=resource)) == (400, "invalid_target")
    # The only server that accepts tokens.
    token = request(basic=basic(), resource=None).json()["access_token"]  # type: ignore[attr-defined]
    assert call(token).status == 200


@spec("CC-02", "CC-07")
def test_client_that_registered_by_itself_does_not_get_the_grant(
    flow: Flow, documents: Any, robot: User
) -> None:
    metadata = {
        "client_name": "Self",
        "redirect_uris": ["https://self.example/cb"],
        "grant_types": ["client_credentials", "authorization_code"],
        "token_endpoint_auth_method": "client_secret_basic",
    }
    registered: Any = post("/o/register", metadata, content_type="application/json")
    assert registered.status_code == 201, registered.content
    found = registered.json()
    assert "client_credentials" not in found["grant_types"]
    credentials = basic(found["client_id"], found["client_secret"])
    assert error(request(basic=credentials)) == (400, "unauthorized_client")
    only = {**metadata, "grant_types": ["client_credentials"]}
    refused: Any = post("/o/register", only, content_type="application/json")
    assert refused.status_code == 400 or "client_credentials" not in refused.json()["grant_types"]
    # Not even where a row was made for it.
    from oauth2_provider.models import Application

    application = Application.objects.get(client_id=found["client_id"])
    MachineClient.objects.create(application=application, user=robot, scope="mcp")
    assert error(request(basic=credentials)) == (400, "unauthorized_client")


def test_registration_cannot_choose_signed_assertions(site: None, signing: MachineClient) -> None:
    metadata = {
        "redirect_uris": ["https://self.example/cb"],
        "token_endpoint_auth_method": "private_key_jwt",
    }
    assert error(post("/o/register", metadata, content_type="application/json")) == (
        400,
        "invalid_client_metadata",
    )


@pytest.mark.parametrize("change", ["user is inactive", "no user", "client is inactive"])
def test_what_is_deactivated_gets_no_token(change: str, robot: User) -> None:
    row = machine(robot)
    if change == "user is inactive":
        User.objects.update(is_active=False)
    elif change == "no user":
        robot.delete()
    else:
        MachineClient.objects.update(is_active=False)
    expected = {"client is inactive": (401, "invalid_client")}
    assert error(request(basic=basic())) == expected.get(change, (400, "unauthorized_client"))
    assert MachineClient.objects.filter(pk=row.pk).exists()


def test_user_who_owns_the_application_is_not_the_caller(robot: User, admin_user: User) -> None:
    row = machine(robot)
    row.application.user = admin_user
    row.application.save()
    token = request(basic=basic()).json()["access_token"]  # type: ignore[attr-defined]
    assert "robot by robot" in call(token).body.decode()


def test_deactivated_user_is_refused_at_once(robot: User) -> None:
    machine(robot)
    token = request(basic=basic()).json()["access_token"]  # type: ignore[attr-defined]
    assert call(token).status == 200
    robot.is_active = False
    robot.save()
    assert call(token).status == 401


def test_machine_revokes_its_token(signing: MachineClient) -> None:
    token = request(signed()).json()["access_token"]  # type: ignore[attr-defined]
    fields = {"token": token, "client_assertion_type": ASSERTION_TYPE}
    assert post("/o/revoke", {**fields, "client_assertion": signed(aud="x")}).status_code == 401
    assert call(token).status == 200
    assert post("/o/revoke", {**fields, "client_assertion": signed()}).status_code == 200
    assert call(token).status == 401


@spec("CC-04")
def test_metadata_lists_the_grant_where_there_is_a_machine(signing: MachineClient) -> None:
    found = get(WELL_KNOWN).json()
    assert "client_credentials" in found["grant_types_supported"]
    methods = found["token_endpoint_auth_methods_supported"]
    assert {"private_key_jwt", "client_secret_basic"} <= {*methods}
    algorithms = found["token_endpoint_auth_signing_alg_values_supported"]
    assert {"RS256", "ES256"} <= {*algorithms}
    assert not {"none", "HS256"} & {*algorithms}
    MachineClient.objects.update(is_active=False)
    assert "client_credentials" not in get(WELL_KNOWN).json()["grant_types_supported"]


def test_assertions_need_an_issuer_that_no_header_chooses(
    signing: MachineClient, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assertion = sign(client_claims("signer", aud="https://evil.example"), key("one"))
    fields = {"client_assertion": assertion, "client_assertion_type": ASSERTION_TYPE}
    grant = {"grant_type": "client_credentials", "resource": "https://evil.example/mcp"}
    refused = post("/o/token", {**fields, **grant}, HTTP_HOST="evil.example")
    assert error(refused) == (401, "invalid_client")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": SITE}
    assert error(post("/o/token", {**fields, **grant}, HTTP_HOST="evil.example"))[0] == 401
    assert request(signed()).status_code == 200


def test_assertion_in_the_url_is_refused(signing: MachineClient) -> None:
    from urllib.parse import urlencode

    fields = {"client_assertion": signed(), "client_assertion_type": ASSERTION_TYPE}
    response = post(f"/o/token?{urlencode(fields)}", {"grant_type": "client_credentials"})
    assert error(response) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("jwks", "message"),
    [
        ({"keys": []}, "key"),
        ([], "JSON Web Key Set"),
        ({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, "public keys only"),
        ({"keys": [key("one").export(as_dict=True)]}, "public keys only"),
        ({"keys": [{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}]}, "not usable"),
        (public(key("one"), key("one")), "kid of its own"),
    ],
    ids=["none", "list", "secret", "private", "curve", "same kid"],
)
def test_keys_of_a_machine_are_checked(jwks: Any, message: str, robot: User) -> None:
    row = machine(robot)
    row.jwks = jwks or [1]
    with pytest.raises(ValidationError, match=message):
        row.full_clean()


def test_machine_has_keys_or_their_url(robot: User) -> None:
    row = machine(robot, jwks=public(key("one")), jwks_uri="https://client.example/jwks")
    with pytest.raises(ValidationError, match="not both"):
        row.full_clean()
    row.jwks, row.jwks_uri = None, "http://client.example/jwks"
    with pytest.raises(ValidationError, match="https"):
        row.full_clean()
    row.jwks_uri = "https://client.example/jwks"
    row.full_clean()


@spec("CC-06", "identity-24")
@pytest.mark.django_db(transaction=True)
def test_assertion_is_used_once_by_requests_at_once(real_database: str) -> None:
    robot = User.objects.create_user("robot")
    machine(robot, client_id="signer", jwks=public(key("one")))
    assertion = signed()

    responses = at_once(4, lambda _: request(assertion))

    assert sorted(each.status_code for each in responses) == [200, 401, 401, 401]


def test_expired_assertions_are_forgotten(signing: MachineClient) -> None:
    from django_mcp.contrib.oauth import assertions

    request(signed())
    assert assertions.prune() == 0
    UsedAssertion.objects.update(expires=timezone.now())
    assert assertions.prune() == 1


def test_user_sees_the_machines_that_act_as_them(robot: User, client: Any) -> None:
    machine(robot, name="Nightly report")
    machine(User.objects.create_user("other"), name="Elsewhere")
    client.force_login(robot)
    page = client.get("/o/access", **PAGE).text
    assert "Machines that act as you" in page
    assert "Nightly report" in page
    assert "Use the shop" in page
    assert "Elsewhere" not in page
    assert ENDPOINT not in page
