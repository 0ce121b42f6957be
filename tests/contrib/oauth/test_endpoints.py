"""Metadata, CORS, settings, and system checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.test import Client as Browser

from django_mcp.contrib.oauth import provider_settings
from django_mcp.routing import mount
from django_mcp.testing.asgi import http_scope, perform
from tests.contrib.oauth.endpoints import WELL_KNOWN, get
from tests.contrib.oauth.flow import PAGE, SITE, Flow, call, document, post
from tests.spec import spec

if TYPE_CHECKING:
    from django.core.checks import CheckMessage
    from pytest_django import Settings


def test_metadata_has_what_clients_need() -> None:
    found = get(WELL_KNOWN).json()
    assert found == {
        "issuer": SITE,
        "authorization_endpoint": f"{SITE}/o/authorize",
        "token_endpoint": f"{SITE}/o/token",
        "revocation_endpoint": f"{SITE}/o/revoke",
        "registration_endpoint": f"{SITE}/o/register",
        "scopes_supported": ["mcp", "write"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
        ],
        "revocation_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
        ],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


def test_refresh_at_the_root_of_the_site_is_answered(flow: Flow) -> None:
    refresh_token = flow.tokens()["refresh_token"]
    fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    response = post("/token", {**fields, "client_id": flow.client_id})
    assert response.status_code == 200, response.content
    assert response["Cache-Control"] == "no-store"
    assert get("/o/token").status_code == get("/token").status_code == 405
    assert get(WELL_KNOWN).json()["token_endpoint"] == f"{SITE}/o/token"


def test_metadata_of_the_server_names_the_issuer() -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    scope = http_scope("GET", path, headers={"host": "site.example"}, scheme="https")
    reply = async_to_sync(perform)(mount(get_asgi_application()), scope)
    found = reply.json()
    assert found["authorization_servers"] == [SITE]
    assert found["resource"] == f"{SITE}/mcp"


@pytest.mark.parametrize(
    "path", [f"{WELL_KNOWN}/mcp", f"/mcp{WELL_KNOWN}", f"{WELL_KNOWN}/site.example"]
)
def test_metadata_of_another_issuer_is_not_found_as_json(path: str) -> None:
    response = get(path)
    assert response.status_code == 404
    assert response.json()["error"] == "not_found"


@pytest.mark.parametrize("path", [WELL_KNOWN, f"{WELL_KNOWN}/o", f"/o{WELL_KNOWN}"])
def test_issuer_with_a_path_has_its_metadata_before_and_behind_it(
    path: str, settings: Settings
) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "OIDC_ISS_ENDPOINT": f"{SITE}/o"}
    assert get(path).json()["issuer"] == f"{SITE}/o"


def test_issuer_is_where_a_site_includes_the_toolkit_itself(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.contrib.oauth.urls_of_toolkit"
    from django_mcp.auth.oauth_toolkit import issuer

    assert issuer(SITE) == f"{SITE}/o"
    assert get(f"/o{WELL_KNOWN}").json()["issuer"] == f"{SITE}/o"
    settings.ROOT_URLCONF = "tests.contrib.oauth.urls_of_nothing"
    assert issuer(SITE) == SITE


def test_issuer_is_that_of_the_setting_behind_a_proxy(settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://public.example"}
    found = get(WELL_KNOWN).json()
    assert found["issuer"] == "https://public.example"
    assert found["token_endpoint"] == "https://public.example/o/token"
    challenge = call(None).headers["www-authenticate"]
    assert "https://public.example/.well-known/oauth-protected-resource/mcp" in challenge


def test_metadata_leaves_out_what_the_site_turned_off(settings: Settings) -> None:
    off = {"DCR_ENABLED": False, "CIMD_ENABLED": False}
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, **off}
    found = get(WELL_KNOWN).json()
    assert "registration_endpoint" not in found
    assert found["client_id_metadata_document_supported"] is False
    response = post("/o/register", document("cursor.registration"), content_type="application/json")
    assert response.status_code == 404


@pytest.mark.parametrize("path", [WELL_KNOWN, "/o/token", "/o/register", "/o/revoke"])
def test_preflight_of_an_allowed_page_is_answered(path: str) -> None:
    response = Browser().options(path, **PAGE, HTTP_ORIGIN="https://page.example")
    assert response.status_code == 204
    assert response["Access-Control-Allow-Origin"] == "https://page.example"
    assert "Content-Type" in response["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in response


def test_page_of_this_computer_reads_the_endpoints_of_a_new_project(settings: Settings) -> None:
    settings.DEBUG = True
    settings.ALLOWED_HOSTS = []
    own = {"HTTP_HOST": "localhost:8000", "HTTP_ORIGIN": "http://localhost:6274", "secure": False}
    response = get(WELL_KNOWN, **own)
    assert response["Access-Control-Allow-Origin"] == "http://localhost:6274"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://page.example"])
@pytest.mark.parametrize("path", [WELL_KNOWN, "/o/token", "/o/register"])
def test_pages_of_other_origins_cannot_read_the_endpoints(path: str, origin: str) -> None:
    for response in (
        Browser().options(path, **PAGE, HTTP_ORIGIN=origin),
        Browser().get(path, **PAGE, HTTP_ORIGIN=origin),
    ):
        assert "Access-Control-Allow-Origin" not in response
        assert "Origin" in response["Vary"]


def test_page_reads_errors_of_the_token_endpoint() -> None:
    response = post("/o/token", {"grant_type": "x"}, HTTP_ORIGIN="https://page.example")
    assert response.status_code in (400, 401)
    assert response["Access-Control-Allow-Origin"] == "https://page.example"
    assert response["Cache-Control"] == "no-store"
    assert response.json()["error"]  # type: ignore[attr-defined]


def test_client_manages_its_registration() -> None:
    registered = post(
        "/o/register", document("cursor.registration"), content_type="application/json"
    ).json()  # type: ignore[attr-defined]
    path = registered["registration_client_uri"].removeprefix(SITE)
    strict = Browser(enforce_csrf_checks=True)
    bearer = f"Bearer {registered['registration_access_token']}"
    assert get(path).status_code == 401
    assert get(path, HTTP_AUTHORIZATION=bearer).json()["client_name"] == "Cursor"
    assert Browser().put(path, **PAGE, HTTP_AUTHORIZATION=bearer).status_code == 405
    assert strict.delete(path, **PAGE, HTTP_AUTHORIZATION=bearer).status_code == 204


def test_settings_need_a_scope_and_may_be_overridden() -> None:
    with pytest.raises(ValueError, match="at least one scope"):
        provider_settings({})
    found = provider_settings({"mcp": "Use it"}, ACCESS_TOKEN_EXPIRE_SECONDS=60)
    assert found["ACCESS_TOKEN_EXPIRE_SECONDS"] == 60
    assert found["DEFAULT_SCOPES"] == ["mcp"]


# System checks.


def messages() -> list[CheckMessage]:
    from django_mcp.contrib.oauth.checks import check_authorization_server

    return [*check_authorization_server(None)]


def problems() -> list[str]:
    return [message.id or "" for message in messages()]


def test_site_with_the_settings_and_urls_has_no_problems() -> None:
    assert problems() == []


@spec("AUTH-RS-30", "AUTH-12")
def test_check_warns_of_protection_that_is_off(settings: Settings) -> None:
    off = {"PKCE_REQUIRED": False, "ACCESS_TOKEN_EXPIRE_SECONDS": 60}
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, **off}
    assert problems() == ["django_mcp_oauth.W001"]


def test_check_finds_a_validator_which_knows_no_resources(settings: Settings) -> None:
    plain = {"OAUTH2_VALIDATOR_CLASS": "oauth2_provider.oauth2_validators.OAuth2Validator"}
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, **plain}
    assert problems() == ["django_mcp_oauth.E001"]


def test_check_leaves_invalid_settings_to_the_check_of_the_settings(settings: Settings) -> None:
    settings.DJANGO_MCP = {"MAX_BODY_SIZ": 3}
    assert problems() == []


@pytest.mark.parametrize(
    "urlconf", ["urls_of_nothing", "urls_below", "urls_of_toolkit", "urls_hidden"]
)
def test_check_finds_urls_which_are_not_at_the_root(urlconf: str, settings: Settings) -> None:
    settings.ROOT_URLCONF = f"tests.contrib.oauth.{urlconf}"
    settings.LOGIN_URL = "https://login.example/"  # Theirs has no login page.
    (problem,) = messages()
    assert problem.id == "django_mcp_oauth.E002"
    assert "in place of oauth2_provider.urls, which have the same namespace" in str(problem.hint)
