"""The URL patterns, for the root: ``path("", include("django_mcp.contrib.oauth.urls"))``.

Those in the namespace of django-oauth-toolkit take the place of ``oauth2_provider.urls``.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import include, re_path
from django.utils.cache import patch_vary_headers
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from django_mcp import conf
from django_mcp.contrib.oauth import access, consent, endpoints
from django_mcp.core.protocol import origins

METADATA = r"\.well-known/oauth-authorization-server"
ALLOWED_HEADERS = "Authorization, Content-Type, Accept, MCP-Protocol-Version"
MAX_AGE = "3600"
"""Seconds that a browser may cache a preflight."""


def for_clients(methods: str, view_class: type[View]) -> Any:
    """Return a view for clients, which send no cookies, and for web pages of other origins.

    The origins are those that MCP servers accept: of ALLOWED_HOSTS and ALLOWED_ORIGINS. Their pages
    may read the responses.
    """
    view = view_class.as_view()

    @csrf_exempt
    @login_not_required
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_preflight = request.method == "OPTIONS"
        response = HttpResponse(status=204) if is_preflight else view(request, *args, **kwargs)
        origin = request.headers.get("Origin")
        if origin is not None and is_allowed(request, origin):
            response["Access-Control-Allow-Origin"] = origin
            if is_preflight:
                response["Access-Control-Allow-Methods"] = methods
                response["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
                response["Access-Control-Max-Age"] = MAX_AGE
        patch_vary_headers(response, ["Origin"])
        return response

    return answer


def is_allowed(request: HttpRequest, origin: str) -> bool:
    """Whether pages of ``origin`` may read answers of the endpoints."""
    return origins.allows(
        origin,
        host=request.get_host(),
        scheme=request.scheme or "http",
        allowed_hosts=conf.allowed_hosts(),
        allowed_origins=conf.get().allowed_origins,
    )


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
