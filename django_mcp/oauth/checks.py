"""System checks of the authorization server: what was turned off, and what is not included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.urls import NoReverseMatch, get_script_prefix, reverse

from django_mcp.auth.oauth_toolkit import WELL_KNOWN
from django_mcp.oauth import SECURITY

TAG = "django_mcp"
DURATIONS = ("ACCESS_TOKEN_EXPIRE_SECONDS", "REFRESH_TOKEN_EXPIRE_SECONDS")
"""Settings whose value the site may well choose."""


@register(TAG)
def check_authorization_server(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> list[CheckMessage]:
    # A check stays registered where a test has changed INSTALLED_APPS.
    is_installed = apps.is_installed("django_mcp.oauth")
    return [*_settings(), *_urls()] if is_installed else []


def _settings() -> Iterator[CheckMessage]:
    from oauth2_provider.settings import oauth2_settings

    from django_mcp.oauth.validators import OAuthBackend, ResourceValidator

    for name, safe in SECURITY.items():
        if name not in DURATIONS and getattr(oauth2_settings, name) != safe:
            yield Warning(
                f'OAUTH2_PROVIDER["{name}"] is not {safe!r}, which RFC 9700 recommends.',
                hint="Use django_mcp.oauth.provider_settings(), and do not override it.",
                id="django_mcp_oauth.W001",
            )
    required = {
        "OAUTH2_VALIDATOR_CLASS": ResourceValidator,
        "OAUTH2_BACKEND_CLASS": OAuthBackend,
    }
    for name, base in required.items():
        if not issubclass(getattr(oauth2_settings, name), base):
            yield Error(
                f'OAUTH2_PROVIDER["{name}"] is not django_mcp.oauth.validators.{base.__name__} or '
                "a subclass of it, so that tokens would be issued for any resource.",
                hint="Use django_mcp.oauth.provider_settings(), or derive from that class.",
                id="django_mcp_oauth.E001",
            )


def _urls() -> Iterator[CheckMessage]:
    try:
        path = reverse("oauth2_provider:oauth-server-metadata")
        reverse("django_mcp_oauth:access")
    except NoReverseMatch:
        path = ""
    if "/" + path.removeprefix(get_script_prefix()) != WELL_KNOWN:
        yield Error(
            "The URLs of the authorization server are not included at the root of the site, where "
            "clients look for its metadata.",
            hint='Add path("", include("django_mcp.oauth.urls")) to the ROOT_URLCONF.',
            id="django_mcp_oauth.E002",
        )
