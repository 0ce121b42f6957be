"""The URL patterns, for the root: ``path("", include("django_mcp.contrib.oauth.urls"))``.

Those in the namespace of django-oauth-toolkit take the place of ``oauth2_provider.urls``.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.urls import include, re_path
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from django_mcp.contrib.oauth import access, consent, endpoints
from django_mcp.contrib.oauth.cors import cross_origin

METADATA = r"\.well-known/oauth-authorization-server"


def for_clients(methods: str, view: type[View]) -> Any:
    """Return a view that clients call without cookies, and web pages from allowed origins."""
    return cross_origin(methods)(csrf_exempt(login_not_required(view.as_view())))


metadata = for_clients("GET", endpoints.MetadataView)
registration = for_clients("POST", endpoints.RegistrationView)
management = for_clients("GET, DELETE", endpoints.RegistrationManagementView)

toolkit = [
    re_path(rf"^{METADATA}/?$", metadata, name="oauth-server-metadata"),
    # The well-known path before an issuer's, and behind it.
    re_path(rf"^{METADATA}/(?P<issuer_path>.+)$", metadata),
    re_path(rf"^(?P<issuer_path>.+)/{METADATA}/?$", metadata),
    # Where the official Python SDK refreshes in a process that has not read the metadata.
    re_path(r"^token$", for_clients("POST", endpoints.TokenView)),
    re_path(r"^o/authorize/?$", consent.AuthorizationView.as_view(), name="authorize"),
    re_path(r"^o/token/?$", for_clients("POST", endpoints.TokenView), name="token"),
    re_path(r"^o/revoke/?$", for_clients("POST", endpoints.RevocationView), name="revoke-token"),
    re_path(
        r"^o/register/?$", for_clients("POST", endpoints.RegistrationView), name="dcr-register"
    ),
    re_path(
        r"^o/register/(?P<client_id>[^/]+)/?$",
        management,
        name="dcr-register-management",
    ),
]
pages = [re_path(r"^o/access/?$", access.AccessView.as_view(), name="access")]

urlpatterns = [
    re_path("", include((toolkit, "oauth2_provider"))),
    re_path("", include((pages, "django_mcp_oauth"))),
]
