"""The endpoints for clients: token, revocation, registration and metadata."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix, reverse
from django.utils.cache import patch_cache_control
from django.views import View
from oauth2_provider import views
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.oauth_toolkit import issuer
from django_mcp.oauth import OFFLINE_ACCESS
from django_mcp.oauth.clients import without_unsupported
from django_mcp.oauth.resources import base_url

MAX_BODY = 16 * 1024
"""Bytes of a registration."""
MAX_REGISTRATIONS = 30
"""Registrations from one IP address in an hour; what is counted is in the default cache."""
HOUR = 60 * 60


def failed(error: str, description: str, status: int = 400) -> JsonResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)


class TokenView(views.TokenView):
    """RFC 6749, section 3.2."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        patch_cache_control(response, no_store=True)
        return as_json(response)


class RevocationView(views.RevokeTokenView):
    """RFC 7009."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return as_json(super().dispatch(request, *args, **kwargs))


def as_json(response: HttpResponseBase) -> HttpResponseBase:
    """Correct the media type of errors, for which the toolkit sets none."""
    response["Content-Type"] = "application/json"
    return response


class RegistrationView(views.DynamicClientRegistrationView):
    """RFC 7591. Anybody may register, so that it is bounded, and no cookie counts."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        request.user = AnonymousUser()
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY or len(request.body) > MAX_BODY:
            return failed("invalid_client_metadata", f"Send at most {MAX_BODY} bytes", 413)
        if not _may_register(request.META.get("REMOTE_ADDR", "")):
            return failed("temporarily_unavailable", "Too many registrations: try later", 429)
        try:
            metadata = json.loads(request.body)
        except (ValueError, RecursionError):
            return failed("invalid_client_metadata", "Send JSON")
        if isinstance(metadata, dict):
            # The toolkit reads the body, and has no hook for what is in it.
            request._body = json.dumps(without_unsupported(metadata)).encode()
        response: HttpResponseBase = super().post(request, *args, **kwargs)
        return response


class RegistrationManagementView(views.DynamicClientRegistrationManagementView):
    """RFC 7592: a client reads or deletes its registration. To change it, it registers again."""

    http_method_names = ["get", "delete", "options"]


def _may_register(address: str) -> bool:
    key = f"django_mcp.oauth.registrations:{address}"
    if cache.add(key, 1, HOUR):
        return True
    try:
        return cache.incr(key) <= MAX_REGISTRATIONS
    except ValueError:  # It expired in between.
        return True


class MetadataView(View):
    """RFC 8414. For other issuers than that of the site, the answer is 404, as JSON."""

    def get(self, request: HttpRequest, issuer_path: str = "") -> HttpResponseBase:
        base = base_url(request)
        own = issuer(base)
        if issuer_path and urlsplit(own).path.strip("/") != issuer_path.strip("/"):
            return failed("not_found", "There is no such authorization server here", 404)
        return JsonResponse(_metadata(base, own))


def _metadata(base: str, own: str) -> dict[str, Any]:
    authentication = [*oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED]
    scopes = get_scopes_backend().get_available_scopes()
    document = {
        "issuer": own,
        "authorization_endpoint": _url(base, "authorize"),
        "token_endpoint": _url(base, "token"),
        "revocation_endpoint": _url(base, "revoke-token"),
        "scopes_supported": [each for each in scopes if each != OFFLINE_ACCESS],
        "response_types_supported": [*oauth2_settings.OAUTH2_RESPONSE_TYPES_SUPPORTED],
        "grant_types_supported": [*oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED],
        "token_endpoint_auth_methods_supported": authentication,
        "revocation_endpoint_auth_methods_supported": authentication,
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": bool(oauth2_settings.CIMD_ENABLED),
        "authorization_response_iss_parameter_supported": True,
    }
    if oauth2_settings.DCR_ENABLED:
        document["registration_endpoint"] = _url(base, "dcr-register")
    return document


def _url(base: str, name: str) -> str:
    return f"{base}/{reverse(f'oauth2_provider:{name}').removeprefix(get_script_prefix())}"
