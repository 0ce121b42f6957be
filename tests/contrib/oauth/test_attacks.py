"""What must not be possible: redirects, codes, tokens and consents of others."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.utils import timezone

from django_mcp import Frame, Server, registry
from django_mcp.contrib.oauth.models import Redemption
from tests.contrib.oauth.flow import (
    CALLBACK,
    PAGE,
    SITE,
    VERIFIER,
    Flow,
    call,
    document,
    hidden,
    issued,
    post,
    query,
)
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings


def error_of(response: Any) -> str:
    """The error in a redirect back to the client, which names the issuer and the state."""
    assert response.status_code == 302, response.content
    assert response["Location"].startswith(CALLBACK)
    found = query(response["Location"])
    assert found["iss"] == SITE
    assert found["state"] == "s t&1"
    assert "code" not in found
    return found["error"]


# Redirects.


@spec("AUTH-RS-30", "identity-17")
@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/api/mcp/auth_callback",
        "https://claude.ai.evil.example/api/mcp/auth_callback",
        "https://claude.ai/api/mcp/auth_callback/",
        "https://claude.ai/api/mcp/auth_callback?next=https://evil.example",
        "https://user@claude.ai/api/mcp/auth_callback",
        "https://claude.ai:8443/api/mcp/auth_callback",
        "http://claude.ai/api/mcp/auth_callback",
        "HTTPS://claude.ai/api/mcp/auth_callback",
        "https://CLAUDE.ai/api/mcp/auth_callback",
        "https://claude.ai:443/api/mcp/auth_callback",
        "https://claude.ai/api/mcp/auth%5Fcallback",
        "javascript:alert(1)",
    ],
)
def test_redirect_that_the_client_did_not_publish_is_rejected_on_a_page(
    uri: str, flow: Flow
) -> None:
    response = flow.open(redirect_uri=uri)
    assert response.status_code == 400
    assert "Location" not in response
    assert b"Access is not possible" in response.content
    assert b"add it again" in response.content
    assert b"/o/access" in response.content


@spec("identity-29")
@pytest.mark.parametrize(
    "uri",
    ["https://claude.ai@evil.example/cb", "https://claude.ai\\@evil.example/cb", "app://a:b@c/d"],
)
def test_redirect_that_looks_like_one_to_another_host_is_not_registered(
    uri: str, documents: Any, user: User
) -> None:
    registered = {**document("cursor.registration"), "redirect_uris": [uri]}
    response = post("/o/register", registered, content_type="application/json")
    assert response.status_code == 400, response.content
    client_id = documents("claude_ai", redirect_uris=[uri])["client_id"]
    assert Flow(client_id, uri, user).open().status_code == 400


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("http://localhost:50123/callback", 200),
        ("http://localhost:65535/callback", 200),
        ("http://localhost:65536/callback", 400),
        ("http://LOCALHOST:50123/callback", 400),
        ("HTTP://localhost:50123/callback", 400),
        ("http://localhost:50123/Callback", 400),
        ("http://127.0.0.2:50123/callback", 400),
        ("http://user@localhost:50123/callback", 400),
    ],
)
def test_program_on_the_computer_chooses_its_port_alone(
    uri: str, status: int, documents: Any, user: User
) -> None:
    client_id = documents("claude_code", redirect_uris=["http://localhost/callback"])["client_id"]
    assert Flow(client_id, uri, user).open().status_code == status


def test_redirect_changed_in_the_form_is_rejected(flow: Flow) -> None:
    response = flow.answer(flow.open(), redirect_uri="https://evil.example/")
    assert response.status_code == 400
    assert "Location" not in response


@spec("AUTH-RS-33")
@pytest.mark.parametrize(
    "uri", ["http://evil.example/cb", "javascript:alert(1)", "data:text/html,x"]
)
def test_client_with_an_unsafe_redirect_alone_is_not_registered(uri: str) -> None:
    metadata = document("cursor.registration") | {"redirect_uris": [uri]}
    response = post("/o/register", metadata, content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_client_metadata"  # type: ignore[attr-defined]


def test_two_redirects_in_one_string_are_not_registered() -> None:
    metadata = document("cursor.registration") | {
        "redirect_uris": ["https://own.example/cb http://evil.example/cb"]
    }
    assert post("/o/register", metadata, content_type="application/json").status_code == 400


def test_redirect_which_was_stored_before_and_is_unsafe_is_rejected(flow: Flow) -> None:
    from oauth2_provider.models import Application

    Application.objects.create(
        client_id="old",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="http://old.example/cb",
    )
    flow.client_id = "old"
    for uri in ("http://old.example/cb", None):
        response = flow.open(redirect_uri=uri)
        assert response.status_code == 400
        assert "Location" not in response


# Codes.


@spec("AUTH-RS-30", "identity-16")
def test_code_without_pkce_is_not_issued(flow: Flow) -> None:
    assert error_of(flow.open(code_challenge=None, code_challenge_method=None)) == "invalid_request"


@pytest.mark.parametrize("method", ["plain", None])
def test_plain_challenge_is_rejected_before_the_user_is_prompted(
    method: str | None, flow: Flow
) -> None:
    response = flow.open(code_challenge=VERIFIER, code_challenge_method=method)
    assert error_of(response) == "invalid_request"


@spec("AUTH-12")
@pytest.mark.parametrize("challenge", ["", "a" * 42, "a" * 44, "a" * 129, "!" * 43])
def test_challenge_that_is_none_of_s256_is_rejected(challenge: str, flow: Flow) -> None:
    assert error_of(flow.open(code_challenge=challenge)) == "invalid_request"
    if challenge:
        assert error_of(flow.answer(flow.open(), code_challenge=challenge)) == "invalid_request"


def test_nonce_that_cannot_be_stored_is_rejected(flow: Flow) -> None:
    assert error_of(flow.answer(flow.open(), nonce="n" * 256)) == "invalid_request"
    flow.code()
    # The user is not asked again.
    assert error_of(flow.open(nonce="n" * 256)) == "invalid_request"


def test_code_is_worth_nothing_without_its_verifier(flow: Flow) -> None:
    code = flow.code()
    assert flow.token(code, code_verifier=None).status_code == 400
    assert flow.token(code, code_verifier="w" * 64).status_code == 400


@spec("AUTH-RS-30")
def test_code_is_redeemed_once(flow: Flow) -> None:
    code = flow.code()
    assert flow.token(code).status_code == 200
    second = flow.token(code)
    assert second.status_code == 400
    assert second.json()["error"] == "invalid_grant"  # type: ignore[attr-defined]


def test_code_is_not_redeemed_by_another_client(flow: Flow, documents: Any) -> None:
    code = flow.code()
    other = documents("claude_code")["client_id"]
    assert flow.token(code, client_id=other).status_code in (400, 401)


def test_code_of_a_user_who_was_deactivated_is_rejected(flow: Flow, user: User) -> None:
    code = flow.code()
    User.objects.update(is_active=False)
    assert flow.token(code).status_code == 400


# Refresh tokens.


@spec("AUTH-RS-29", "AUTH-RS-30", "AUTH-12", "identity-15")
def test_reused_refresh_token_ends_all_tokens_of_its_family(flow: Flow) -> None:
    first = flow.tokens()
    second = flow.refresh(first["refresh_token"]).json()  # type: ignore[attr-defined]
    assert call(second["access_token"]).status == 200
    Redemption.objects.update(created=timezone.now() - timedelta(minutes=2))
    replayed = flow.refresh(first["refresh_token"])
    assert replayed.status_code == 400
    assert replayed.json()["error"] == "invalid_grant"  # type: ignore[attr-defined]
    assert call(second["access_token"]).status == 401
    assert flow.refresh(second["refresh_token"]).status_code == 400


def test_refresh_token_of_a_user_who_was_deactivated_is_rejected(flow: Flow, user: User) -> None:
    tokens = flow.tokens()
    User.objects.update(is_active=False)
    assert flow.refresh(tokens["refresh_token"]).status_code == 400


def test_refresh_grants_no_further_scope(flow: Flow) -> None:
    response = flow.refresh(flow.tokens()["refresh_token"], scope="mcp write")
    assert response.status_code == 400


@pytest.mark.parametrize("password", ["right", "wrong"])
def test_password_is_not_tried_at_the_token_endpoint(password: str, flow: Flow, user: User) -> None:
    flow.tokens()  # A public client that is stored.
    user.set_password("right")
    user.save()

    fields = {"grant_type": "password", "client_id": flow.client_id, "username": "ann"}
    response: Any = post("/o/token", {**fields, "password": password})

    assert response.status_code == 400
    assert response.json()["error"] == "unsupported_grant_type"


# Resources.


@pytest.mark.parametrize(
    "resource",
    [
        "https://other.example/mcp",
        f"{SITE}/public",  # A server which accepts no tokens.
        f"{SITE}/",
        SITE,
        f"{SITE}/mcp/",
        f"{SITE}/mcp/x",
        "http://site.example/mcp",
        "mcp",
    ],
)
def test_token_for_a_foreign_resource_is_not_issued(resource: str, flow: Flow) -> None:
    assert error_of(flow.open(resource=resource)) == "invalid_target"


def test_resource_changed_in_the_form_is_rejected(flow: Flow) -> None:
    response = flow.answer(flow.open(), resource="https://other.example/mcp")
    assert error_of(response) == "invalid_target"


def test_resource_removed_in_the_form_is_rejected(flow: Flow) -> None:
    assert error_of(flow.answer(flow.open(), resource="")) == "invalid_target"


def test_empty_resource_is_rejected_before_the_user_is_prompted(flow: Flow) -> None:
    assert error_of(flow.open(resource="")) == "invalid_target"


@pytest.mark.parametrize("resource", ["", None])
def test_application_of_the_site_names_no_resource(resource: str | None, flow: Flow) -> None:
    from oauth2_provider.models import Application

    Application.objects.create(
        client_id="own",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=CALLBACK,
    )
    flow.client_id = "own"
    page = flow.open(resource=None)
    changes: dict[str, Any] = {} if resource is None else {"resource": resource}
    redirect = flow.answer(page, **changes)
    response = flow.token(query(redirect["Location"])["code"], resource=None)
    assert response.status_code == 200, response.content
    assert call(response.json()["access_token"]).status == 401  # type: ignore[attr-defined]


def test_resource_changed_at_the_token_endpoint_is_rejected(flow: Flow) -> None:
    code = flow.code()
    response = flow.token(code, resource="https://other.example/mcp")
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_target"  # type: ignore[attr-defined]
    tokens = flow.tokens(prompt="consent")
    rejected = flow.refresh(tokens["refresh_token"], resource="https://other.example/mcp")
    assert rejected.json()["error"] == "invalid_target"  # type: ignore[attr-defined]


@pytest.fixture
def till(shop: Server) -> Server:
    """Another server of the same project."""
    till = Server("till", path="/till", authenticators=shop.authenticators)

    @till.tool
    def whoami() -> str:
        """Say that it is the till."""
        return "till"

    registry.registered.servers["till"] = till
    return till


@spec("identity-02")
def test_token_for_another_server_of_the_project_is_rejected(flow: Flow, till: Server) -> None:
    tokens = flow.tokens()
    assert call(tokens["access_token"]).status == 200
    reply = call(tokens["access_token"], path="/till")
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]
    # It was cached for the one server, and is not for the other.
    assert call(tokens["access_token"]).status == 200


def test_code_for_one_server_gives_no_token_for_another(flow: Flow, till: Server) -> None:
    response = flow.token(flow.code(), resource=f"{SITE}/till")
    assert response.json()["error"] == "invalid_target"  # type: ignore[attr-defined]


def test_client_must_name_one_of_several_servers(flow: Flow, till: Server) -> None:
    assert error_of(flow.open(resource=None)) == "invalid_target"


@pytest.fixture
def orgs(shop: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """An endpoint for each organisation, instead of the shop."""
    orgs = Server("orgs", path="/orgs/<slug:org>/mcp", authenticators=shop.authenticators)
    orgs.describe(title="The organisation")

    @orgs.tool
    def whoami(frame: Frame) -> str:
        """Say which organisation this is."""
        return f"at {frame.get_path_param('org')}"

    servers = {name: each for name, each in registry.registered.servers.items() if name != "shop"}
    monkeypatch.setattr(registry.registered, "servers", {**servers, "orgs": orgs})
    return orgs


def test_token_is_for_one_endpoint_of_a_server_with_values_in_its_path(
    flow: Flow, orgs: Server
) -> None:
    flow.resource = f"{SITE}/orgs/acme/mcp"
    assert "The organisation" in flow.open().content.decode()
    token = flow.tokens()["access_token"]
    assert "at acme" in call(token, path="/orgs/acme/mcp").body.decode()
    assert call(token, path="/orgs/other/mcp").status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/orgs/<slug:org>/mcp",
        "/orgs/a.b/mcp",
        "/orgs/acme/mcp/",
        "/orgs/acme",
        f"/orgs/{'a' * 250}/mcp",
    ],
)
def test_token_for_no_endpoint_of_a_server_with_values_in_its_path_is_not_issued(
    path: str, flow: Flow, orgs: Server
) -> None:
    assert error_of(flow.open(resource=f"{SITE}{path}")) == "invalid_target"


def test_client_must_name_the_endpoint_of_a_server_with_values_in_its_path(
    flow: Flow, orgs: Server
) -> None:
    assert error_of(flow.open(resource=None)) == "invalid_target"


def test_one_token_for_two_servers_is_not_issued(flow: Flow, till: Server) -> None:
    parameters = [*flow.parameters().items(), ("resource", f"{SITE}/till")]
    response = flow.browser.get(f"/o/authorize?{urlencode(parameters)}", **PAGE)
    assert error_of(response) == "invalid_target"


def test_consent_for_one_server_does_not_count_for_another(flow: Flow, till: Server) -> None:
    flow.tokens()
    assert flow.open().status_code == 302
    assert flow.open(resource=f"{SITE}/till").status_code == 200
    # Nor if the client asks that past tokens count: they are for the other server.
    assert flow.open(resource=f"{SITE}/till", approval_prompt="auto").status_code == 200


# Tokens.


def test_token_for_the_endpoint_is_accepted(user: User) -> None:
    assert call(issued(user)).status == 200


@spec("identity-01")
@pytest.mark.parametrize(
    "resource",
    [[], [f"{SITE}/"], [SITE], [f"{SITE}/mc"], [f"{SITE}/mcp/"], ["https://other.example/mcp"]],
)
def test_token_for_no_resource_a_prefix_or_another_one_is_rejected(
    resource: list[str], user: User
) -> None:
    reply = call(issued(user, resource=resource))
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]


def test_token_for_a_declared_parent_is_accepted(user: User, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "AUDIENCES": [f"{SITE}/"]}
    assert call(issued(user, resource=[f"{SITE}/"])).status == 200


@spec("AUTH-RS-13", "AUTH-RS-29", "identity-03")
def test_expired_token_is_rejected(user: User) -> None:
    assert call(issued(user, expires=timezone.now() - timedelta(seconds=1))).status == 401


def test_token_of_a_deactivated_user_is_rejected_at_once(user: User) -> None:
    token = issued(user)
    assert call(token).status == 200
    user.is_active = False
    user.save()
    assert call(token).status == 401


def test_token_without_a_user_is_rejected(user: User) -> None:
    assert call(issued(user, user=None)).status == 401


def test_deleted_token_is_rejected_at_once(user: User) -> None:
    from oauth2_provider.models import AccessToken

    token = issued(user)
    assert call(token).status == 200
    AccessToken.objects.all().delete()
    assert call(token).status == 401


def test_token_whose_scope_was_taken_in_the_admin_is_rejected_at_once(user: User) -> None:
    from oauth2_provider.models import AccessToken

    token = issued(user, scope="mcp write")
    assert call(token, "reprice").status == 200
    found = AccessToken.objects.get()
    found.scope = "mcp"
    found.save()
    assert call(token, "reprice").status == 403


@spec("AUTH-RS-13")
@pytest.mark.parametrize("token", ["unknown", "é" * 10, "x" * 5000])
def test_unknown_token_is_rejected(token: str) -> None:
    reply = call(token)
    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]


@spec("AUTH-RS-27", "AUTH-12", "identity-22")
def test_tokens_are_stored_as_digests_alone(flow: Flow) -> None:
    from oauth2_provider.models import AccessToken, RefreshToken

    tokens = flow.tokens()
    assert call(tokens["access_token"]).status == 200
    rows = [*AccessToken.objects.values(), *RefreshToken.objects.values()]
    assert len(rows) == 2
    for name in ("access_token", "refresh_token"):
        assert tokens[name] not in str(rows)


@spec("AUTH-RS-27", "AUTH-12")
def test_tokens_are_not_logged(flow: Flow, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        tokens = flow.tokens()
        assert call(tokens["access_token"]).status == 200
        assert call(tokens["access_token"] + "x").status == 401
        newer = flow.refresh(tokens["refresh_token"]).json()  # type: ignore[attr-defined]
        flow.revoke(newer["refresh_token"])
    for found in (tokens, newer):
        assert found["access_token"] not in caplog.text
        assert found["refresh_token"] not in caplog.text


def test_level_that_the_site_sets_for_the_loggers_of_the_toolkit_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels = {}
    for set_by_the_site in (logging.NOTSET, logging.DEBUG, logging.ERROR):
        monkeypatch.setattr(logging.getLogger("oauthlib"), "level", set_by_the_site)
        apps.get_app_config("django_mcp_oauth").ready()
        levels[set_by_the_site] = logging.getLogger("oauthlib").level
    assert levels == {
        logging.NOTSET: logging.INFO,
        logging.DEBUG: logging.DEBUG,
        logging.ERROR: logging.ERROR,
    }


def test_registration_token_is_no_access_token() -> None:
    metadata = document("cursor.registration")
    registered = post("/o/register", metadata, content_type="application/json").json()  # type: ignore[attr-defined]
    assert call(registered["registration_access_token"]).status == 401


def test_challenge_names_the_metadata_and_the_metadata_the_issuer() -> None:
    challenge = call(None).headers["www-authenticate"]
    assert f'resource_metadata="{SITE}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert "offline_access" not in challenge


# The consent page.


@spec("AUTH-RS-30", "identity-18")
def test_consent_posted_by_a_foreign_page_is_rejected(flow: Flow) -> None:
    fields = hidden(flow.open().content.decode()) | {"allow": "on"}
    foreign: dict[str, Any] = {
        "HTTP_REFERER": "https://evil.example/",
        "HTTP_ORIGIN": "https://evil.example",
    }
    response = flow.browser.post("/o/authorize", fields, **PAGE, **foreign)
    assert response.status_code == 403
    fields.pop("csrfmiddlewaretoken")
    own: dict[str, Any] = {"HTTP_REFERER": f"{SITE}/o/authorize"}
    response = flow.browser.post("/o/authorize", fields, **PAGE, **own)
    assert response.status_code == 403


def test_consent_is_protected_on_a_site_without_the_middleware(
    flow: Flow, settings: Settings
) -> None:
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "csrf" not in each]
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "clickjacking" not in each]
    page = flow.open()
    assert page["X-Frame-Options"] == "DENY"
    fields = hidden(page.content.decode()) | {"allow": "on", "csrfmiddlewaretoken": "x" * 64}
    assert flow.browser.post("/o/authorize", fields, **PAGE).status_code == 403


def test_consent_page_is_not_shown_in_frames_and_lets_redirects_go_to_programs(
    flow: Flow,
) -> None:
    page = flow.open()
    assert page["X-Frame-Options"] == "DENY"
    assert "form-action" not in page.content.decode()
    assert "no-store" in page["Cache-Control"]


STRICT_POLICY = "default-src 'self'; script-src 'none'"


def set_policy(get_response: Any) -> Any:
    """A middleware that sets the policy of the site where a view sets none, as django-csp does."""

    def middleware(request: Any) -> Any:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", STRICT_POLICY)
        return response

    return middleware


@pytest.mark.parametrize("path", ["/o/authorize", "/o/access"])
def test_page_adds_to_the_policy_of_the_site(path: str, flow: Flow, settings: Settings) -> None:
    settings.MIDDLEWARE = ["tests.contrib.oauth.test_attacks.set_policy", *settings.MIDDLEWARE]
    page = flow.browser.get(path, flow.parameters(), **PAGE)
    assert page.status_code == 200
    assert page["Content-Security-Policy"] == STRICT_POLICY
    assert page["X-Frame-Options"] == "DENY"
    own = """<meta http-equiv="Content-Security-Policy" content="base-uri 'none'">"""
    assert own in page.content.decode()


def test_scope_added_in_the_form_must_exist(flow: Flow) -> None:
    response = flow.answer(flow.open(), scope="mcp everything")
    assert error_of(response) == "invalid_scope"


def test_post_without_the_fields_of_the_form_is_rejected(flow: Flow) -> None:
    page = hidden(flow.open().content.decode())
    fields = {"csrfmiddlewaretoken": page["csrfmiddlewaretoken"], "allow": "on"}
    own: dict[str, Any] = {"HTTP_REFERER": f"{SITE}/o/authorize"}
    response = flow.browser.post("/o/authorize", fields, **PAGE, **own)
    assert response.status_code == 400


def test_client_changed_in_the_form_is_rejected(flow: Flow) -> None:
    assert flow.answer(flow.open(), client_id="unknown").status_code == 400


def test_client_id_with_a_nul_is_rejected(flow: Flow) -> None:
    assert flow.open(client_id="a\0b", resource=None).status_code == 400


@pytest.mark.parametrize("name", ["client_id", "state", "scope", "nonce"])
def test_authorization_request_with_a_nul_is_rejected(name: str, flow: Flow) -> None:
    assert flow.open(**{name: "a\0b"}).status_code == 400


def test_client_that_wants_no_page_is_sent_back_without_a_login(flow: Flow) -> None:
    flow.browser.logout()
    assert error_of(flow.open(prompt="none")) == "login_required"


def test_answer_in_a_fragment_names_the_issuer_once(flow: Flow) -> None:
    flow.code()
    parts = urlsplit(flow.open(response_mode="fragment")["Location"])
    assert parts.query == ""
    answer = parse_qs(parts.fragment)
    assert answer.keys() == {"code", "state", "iss"}
    assert answer["iss"] == [SITE]


def test_error_is_in_the_fragment_where_the_client_wants_answers(flow: Flow) -> None:
    for rejected in ({"scope": "unknown"}, {"resource": "https://other.example/mcp"}):
        parts = urlsplit(flow.open(response_mode="fragment", **rejected)["Location"])
        assert parts.query == ""
        answer = parse_qs(parts.fragment)
        assert answer.keys() - {"error_description"} == {"error", "state", "iss"}
    flow.browser.logout()
    refused = flow.open(response_mode="fragment", prompt="none")
    assert "error=login_required" in urlsplit(refused["Location"]).fragment


def test_post_without_a_login_is_redirected_to_it(flow: Flow) -> None:
    page = flow.open()
    flow.browser.logout()
    fields = hidden(page.content.decode()) | {"allow": "on"}
    response = flow.browser.post("/o/authorize", fields, **PAGE, HTTP_REFERER=f"{SITE}/o/authorize")
    assert response.status_code in (302, 403)
    assert "code=" not in response.get("Location", "")


def test_name_of_a_client_is_text(documents: Any, user: User) -> None:
    name = "<script>alert(1)</script>\u202e" + "x" * 300
    published = documents("claude_ai", client_name=name)
    page = Flow(published["client_id"], CALLBACK, user).open().content.decode()
    assert "<script>" not in page
    assert "\u202e" not in page
    assert "x" * 101 not in page


# Metadata documents and registrations.


@pytest.mark.parametrize(
    "changes",
    [
        {"client_secret": "x"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"grant_types": ["client_credentials"]},
        {"redirect_uris": ["http://evil.example/cb"]},
        {"redirect_uris": "https://claude.ai/api/mcp/auth_callback"},
    ],
)
def test_metadata_document_that_cannot_be_served_is_rejected(
    changes: dict[str, Any], documents: Any, user: User
) -> None:
    published = documents("claude_ai", **changes)
    assert Flow(published["client_id"], CALLBACK, user).open().status_code == 400


@spec("identity-20")
def test_metadata_document_of_a_private_address_is_not_fetched(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    def connect(*_: Any) -> None:
        raise AssertionError("It is fetched")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", connect)
    flow = Flow("https://evil.example/client.json", CALLBACK, user)
    assert flow.open().status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("x" * 20_000, 413),
        ("{", 400),
        ("[]", 400),
        ("[" * 15_000, 400),
        ('{"redirect_uris": 1}', 400),
        ('{"redirect_uris": ["https://own.example/cb"], "client_name": null}', 400),
        ('{"redirect_uris": ["https://own.example/cb"], "client_name": ["x"]}', 400),
        ('{"redirect_uris": ["https://own.example/\\ud800"]}', 400),
        ('{"redirect_uris": ["https://own.example/\\u0000"]}', 400),
        ('{"redirect_uris": ["http://localhost:65536/cb"]}', 400),
        (
            '{"redirect_uris": ["https://own.example/cb"],'
            ' "token_endpoint_auth_method": "private_key_jwt"}',
            400,
        ),
        (
            '{"redirect_uris": ["https://own.example/cb"], "token_endpoint_auth_method": null}',
            400,
        ),
    ],
)
def test_malformed_registration_is_rejected_as_json(body: str, status: int) -> None:
    response = Browser(enforce_csrf_checks=True).post(
        "/o/register", body, content_type="application/json", **PAGE
    )
    assert response.status_code == status
    assert response.json()["error"] == "invalid_client_metadata"


def test_registration_that_the_toolkit_cannot_read_is_rejected_as_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JSON just below the limit of nesting: the toolkit reads it with more calls on the stack."""
    from oauth2_provider.views import dynamic_client_registration

    def read(body: bytes) -> None:
        raise RecursionError

    monkeypatch.setattr(dynamic_client_registration, "_parse_metadata", read)
    response: Any = post(
        "/o/register", document("cursor.registration"), content_type="application/json"
    )
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_client_metadata"


def test_registration_belongs_to_no_user_even_with_a_cookie(flow: Flow) -> None:
    from oauth2_provider.models import Application

    metadata = document("cursor.registration")
    flow.browser.post("/o/register", metadata, content_type="application/json", **PAGE)
    assert Application.objects.get(registration_source="dcr").user is None


@pytest.mark.parametrize("length", ["many", "1e3", "-", "0x10"])
def test_registration_with_a_length_that_is_no_number_is_refused(length: str) -> None:
    metadata = document("cursor.registration")
    response = post("/o/register", metadata, content_type="application/json", CONTENT_LENGTH=length)
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_client_metadata"  # type: ignore[attr-defined]


@pytest.mark.parametrize("resource", ["no resource", "https://elsewhere.example/mcp", ""])
def test_posted_form_never_redirects_to_an_unchecked_uri(flow: Flow, resource: str) -> None:
    evil = "https://evil.example/"
    response = flow.answer(flow.open(), redirect_uri=evil, resource=resource)
    assert response.status_code == 400
    assert "Location" not in response.headers
