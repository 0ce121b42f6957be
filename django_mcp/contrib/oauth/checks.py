"""System checks of the authorization server: disabled options, and missing URLs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse

from django_mcp import registry
from django_mcp.auth.oauth_toolkit import WELL_KNOWN
from django_mcp.contrib.oauth import SECURITY
from django_mcp.core.components.base import ConfigurationError

TAG = "django_mcp"
DURATIONS = ("ACCESS_TOKEN_EXPIRE_SECONDS", "REFRESH_TOKEN_EXPIRE_SECONDS")
"""Settings that a site may set to any value."""


@register(TAG)
def check_authorization_server(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> list[CheckMessage]:
    # A check stays registered where a test has changed INSTALLED_APPS.
    if not apps.is_installed("django_mcp.contrib.oauth"):
        return []
    messages = [*_settings(), *_urls(), *_login()]
    # Other checks report invalid settings, and components that cannot be built.
    with suppress(ConfigurationError, ImproperlyConfigured):
        messages += _scopes()
    return messages


def _settings() -> Iterator[CheckMessage]:
    from oauth2_provider.settings import oauth2_settings

    from django_mcp.contrib.oauth.validators import OAuthBackend, ResourceValidator

    for name, safe in SECURITY.items():
        if name not in DURATIONS and getattr(oauth2_settings, name) != safe:
            yield Warning(
                f'OAUTH2_PROVIDER["{name}"] is not {safe!r}, which RFC 9700 recommends.',
                hint="Use django_mcp.contrib.oauth.provider_settings(), and do not override it.",
                id="django_mcp_oauth.W001",
            )
    required = {
        "OAUTH2_VALIDATOR_CLASS": ResourceValidator,
        "OAUTH2_BACKEND_CLASS": OAuthBackend,
    }
    for name, base in required.items():
        if not issubclass(getattr(oauth2_settings, name), base):
            yield Error(
                f'OAUTH2_PROVIDER["{name}"] is not '
                f"django_mcp.contrib.oauth.validators.{base.__name__} or a subclass of it, so that "
                "tokens would be issued for any resource.",
                hint="Use django_mcp.contrib.oauth.provider_settings(), or derive from that class.",
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
            hint='Add path("", include("django_mcp.contrib.oauth.urls")) to the ROOT_URLCONF, in '
            "place of oauth2_provider.urls, which have the same namespace.",
            id="django_mcp_oauth.E002",
        )


def _login() -> Iterator[CheckMessage]:
    name = str(settings.LOGIN_URL)
    try:
        parts = urlsplit(resolve_url(settings.LOGIN_URL))
        if not parts.netloc:  # Otherwise another site has the login page.
            resolve("/" + parts.path.removeprefix(get_script_prefix()).lstrip("/"))
    except NoReverseMatch:
        yield Error(
            f"LOGIN_URL is {name!r}, which no URL pattern of this project is called: users who are "
            "to allow an access see an error.",
            hint=LOGIN_HINT,
            id="django_mcp_oauth.E004",
        )
    except Resolver404:
        yield Warning(
            f"LOGIN_URL is {name!r}, which is no URL of this project: users who are to allow an "
            "access are sent to a page that does not exist.",
            hint=f"{LOGIN_HINT} Silence this check if another application of the site serves it.",
            id="django_mcp_oauth.W002",
        )


LOGIN_HINT = "Set LOGIN_URL to the login page: a path, or the name of a URL pattern."


def _scopes() -> Iterator[CheckMessage]:
    """Clients request the scopes of a server and of its components: each has to be registered."""
    from oauth2_provider.scopes import get_scopes_backend

    from django_mcp.contrib.oauth import resources

    registered = frozenset(get_scopes_backend().get_all_scopes())
    required: dict[str, str] = {}
    for server in resources.accepting():
        for scope in registry.authentication(server).resource.scopes:
            required.setdefault(scope, f"The MCP server {server.name!r}")
        for entry in registry.registered_entries(server):
            for scope in entry.component.scopes:
                required.setdefault(scope, f"The {entry.kind} {entry.component.name!r}")
    for scope in sorted(required.keys() - registered):
        yield Error(
            f"{required[scope]} requires the scope {scope!r}, which the authorization server does "
            "not know: clients that ask for it are answered invalid_scope.",
            hint="Add it with its description to the scopes in OAUTH2_PROVIDER, or correct it.",
            id="django_mcp_oauth.E003",
        )
