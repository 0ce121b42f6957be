"""The URL of a server as a protected resource, and the audiences of tokens for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mcp.auth.resource import SCOPE_KEY, Resource, _warn_of_any_host, is_for
from django_mcp.testing.asgi import http_scope
from tests.memory_stores import Configure, configure
from tests.rows import rows
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["configure"]

DESK = Resource("/desk")


def request(
    resource: Resource = DESK, scheme: str = "http", root: str = "", **headers: str
) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    scope = http_scope("POST", f"{root}{resource.path}", headers=named, scheme=scheme)
    return {**scope, "root_path": root, SCOPE_KEY: resource}


# The URL.


@spec("AUTH-RS-28", "AUTH-10")
def test_url_is_that_of_the_request() -> None:
    assert DESK.url(request(host="testserver:8000")) == "http://testserver:8000/desk"
    assert DESK.url(request(scheme="https")) == "https://testserver/desk"


def test_base_url_precedes_the_url_of_the_request(configure: Configure) -> None:
    configure(BASE_URL="https://example.org/app")

    scope = request(root="/other", host="testserver")

    assert DESK.url(scope) == "https://example.org/app/desk"
    assert DESK.metadata_url(scope) == (
        "https://example.org/.well-known/oauth-protected-resource/app/desk"
    )


def test_path_of_the_site_is_part_of_the_url(settings: Settings) -> None:
    assert DESK.url(request(root="/app")) == "http://testserver/app/desk"
    settings.FORCE_SCRIPT_NAME = "/forced/"
    assert DESK.url(request(root="/app")) == "http://testserver/forced/desk"


def test_endpoint_at_the_root_has_a_slash_as_its_path() -> None:
    root = Resource("/")

    assert root.url(request(root)) == "http://testserver/"
    assert root.metadata_url(request(root)) == (
        "http://testserver/.well-known/oauth-protected-resource"
    )


@pytest.mark.parametrize(
    ("setting", "sent", "expected"),
    [
        (None, "https", "http"),
        (("HTTP_X_FORWARDED_PROTO", "https"), "https", "https"),
        (("HTTP_X_FORWARDED_PROTO", "https"), "https, http", "https"),
        (("HTTP_X_FORWARDED_PROTO", "https"), "http", "http"),
        (("HTTP_X_FORWARDED_PROTO", "https"), "javascript", "http"),
        (("HTTP_X_OTHER", "on"), "https", "http"),
    ],
)
def test_scheme_of_a_proxy_counts_if_django_trusts_it(
    settings: Settings, setting: Any, sent: str, expected: str
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = setting

    assert DESK.url(request(x_forwarded_proto=sent)) == f"{expected}://testserver/desk"


@pytest.mark.parametrize(
    ("is_trusted", "sent", "expected"),
    [
        (False, "www.example.com", "testserver"),
        (True, "www.example.com", "www.example.com"),
        (True, "www.example.com:8443", "www.example.com:8443"),
        (True, "evil.example", "testserver"),
        (True, "www.example.com, evil.example", "testserver"),
        (True, 'www.example.com" evil="', "testserver"),
        (True, "", "testserver"),
    ],
)
def test_host_of_a_proxy_counts_if_django_trusts_it_and_serves_it(
    settings: Settings, is_trusted: bool, sent: str, expected: str
) -> None:
    settings.ALLOWED_HOSTS = ["testserver", "www.example.com"]
    settings.USE_X_FORWARDED_HOST = is_trusted

    assert DESK.url(request(x_forwarded_host=sent)) == f"http://{expected}/desk"


# Audiences.


@spec("AUTH-RS-15", "AUTH-RS-16", "AUTH-RS-18", "AUTH-RS-19", "AUTH-RS-28", "AUTH-04", "AUTH-10")
@rows(
    ("audience", "expected"),
    [
        ("https://testserver/desk", True),
        ("HTTPS://TestServer/desk", True),
        ("https://testserver/Desk", False),
        ("https://testserver/desk/", False),
        ("https://testserver/desk/more", False),
        ("https://testserver/desk?x=1", False),
        ("https://testserver/desk#top", False),
        ("https://testserver/", False),
        ("https://testserver", False),
        ("http://testserver/desk", False),
        ("https://testserver:8443/desk", False),
        ("https://evil@testserver/desk", False),
        ("https://testserver/shop", False),
        ("https://other.example/desk", False),
        ("https://[broken/desk", False),
        ("/desk", False),
        ("desk", False),
        ("", False),
    ],
)
def test_token_is_accepted_if_its_audience_is_the_url_of_the_endpoint(
    audience: str, expected: bool
) -> None:
    assert is_for(request(scheme="https"), [audience]) is expected


@spec("AUTH-RS-16")
def test_one_of_several_audiences_suffices() -> None:
    scope = request(scheme="https")

    assert is_for(scope, ["account", "https://testserver/desk"])
    assert not is_for(scope, [])


def test_audiences_of_the_site_are_accepted_by_all_servers(configure: Configure) -> None:
    configure(AUDIENCES=["https://Example.org", "api://desk", "account"])

    for audience in ("https://example.org", "api://desk", "account", "http://testserver/desk"):
        assert is_for(request(), [audience]), audience
    assert not is_for(request(), ["Account"])


@spec("AUTH-RS-15")
def test_host_which_the_client_chooses_is_no_audience(
    settings: Settings, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    _warn_of_any_host.cache_clear()
    scope = request(host="evil.example")

    assert not is_for(scope, ["http://evil.example/desk"])
    assert "BASE_URL" in caplog.text
    configure(BASE_URL="https://example.org")
    assert is_for(scope, ["https://example.org/desk"])
    assert not is_for(scope, ["http://evil.example/desk"])


# The metadata.


@spec("AUTH-RS-05", "AUTH-RS-06")
def test_metadata_has_only_what_is_known() -> None:
    scope = request(scheme="https")

    assert DESK.metadata(scope, ["https://login.example.org"]) == {
        "resource": "https://testserver/desk",
        "authorization_servers": ["https://login.example.org"],
        "bearer_methods_supported": ["header"],
    }


@spec("AUTH-RS-26")
def test_metadata_names_the_scopes_of_every_call_and_the_title() -> None:
    document = Resource("/desk", ("mcp",), "Desk").metadata(request(), ["https://a.example"])

    assert document["scopes_supported"] == ["mcp"]
    assert document["resource_name"] == "Desk"
