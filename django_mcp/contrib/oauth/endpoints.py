"""The endpoints for clients: token, revocation, registration and metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix, reverse
from django.utils.cache import patch_cache_control
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.debug import sensitive_post_parameters
from oauth2_provider import views
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.oauth_toolkit import issuer
from django_mcp.contrib.oauth import (
    OFFLINE_ACCESS,
    assertions,
    machines,
    redemptions,
    registrations,
)
from django_mcp.contrib.oauth.clients import without_unsupported
from django_mcp.contrib.oauth.documents import CALLER
from django_mcp.contrib.oauth.resources import base_url
from django_mcp.core.protocol.limits import network_of
from django_mcp.stores.base import StoreBusy
from django_mcp.stores.cache_counts import PeriodCount

MAX_BODY = 16 * 1024
"""Bytes of a registration."""
Json = Mapping[str, Any]
MAX_FAILURES = 10
"""Failed authentications of a client from one network in a minute."""
FAILURES = PeriodCount("oauth.failures", 60)


def failed(error: str, description: str, status: int = 400) -> JsonResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)


class GuardedAgainstGuesses:
    """Refuses a client that has failed to authenticate too often (RFC 6749, section 2.3.1).

    Failures are counted for each client and network, so that one network locks out no client of
    another.
    """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        network = network_of(request.META.get("REMOTE_ADDR", ""))
        identities = [f"{network} {client}" for client in machines.stated_clients(request)]
        if any(FAILURES.read(each) >= MAX_FAILURES for each in identities):
            refused = failed("temporarily_unavailable", "Too many failed authentications", 429)
            refused["Retry-After"] = str(FAILURES.period)
            return refused
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        if response.status_code == 401:
            for identity in identities:
                with suppress(StoreBusy):  # Others fail at the same time, and are counted.
                    FAILURES.add(identity)
        return response


def refusal_of_malformed(request: HttpRequest) -> JsonResponse | None:
    """Refuse what oauthlib, the toolkit or some databases would raise other exceptions for."""
    if request.META.get("QUERY_STRING"):
        return failed("invalid_request", "Send all parameters in the body")
    texts = [text for name, values in request.POST.lists() for text in (name, *values)]
    if not all(map(assertions.is_text, texts)):
        return failed("invalid_request", "A parameter contains a NUL, or half of a surrogate pair")
    if machines.basic_credentials(request.META) == (None, None):
        return failed("invalid_client", "The credentials in the header are malformed", 401)
    try:
        for resource in request.POST.getlist("resource"):
            urlsplit(resource)
    except ValueError:
        return failed("invalid_target", "The resource is no URL")
    return None


class TokenView(GuardedAgainstGuesses, views.TokenView):
    """RFC 6749, section 3.2."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = super().dispatch(request, *args, **kwargs)
        return challenged(as_json(without_store(response)))

    @method_decorator(sensitive_post_parameters())
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        refused = refusal_of_malformed(request)
        if refused is not None:
            return refused
        grant = request.POST.get("grant_type")
        if grant not in (*oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED, *machines.GRANTS):
            # oauthlib has more grants, and tries a password before it asks who may use one.
            return failed("unsupported_grant_type", "There is no such grant here")
        read_assertions(request)
        response: HttpResponseBase
        if grant in machines.GRANTS:
            # These write only after all checks. A transaction must not stay open while a document
            # is fetched.
            response = super().post(request, *args, **kwargs)
            return response
        with transaction.atomic(using=redemptions.database()):
            redemptions.lock(request.POST)
            response = super().post(request, *args, **kwargs)
        return response


def read_assertions(request: HttpRequest) -> None:
    """Verify the assertions of a request. One for a user lets its client's document be fetched."""
    assertions.read(request, _url(base_url(request), "token"))
    identity = assertions.of(request.META).identity
    if isinstance(identity, assertions.IdentityJWT):
        client_id = request.POST.get("client_id")
        if client_id == identity.claims["client_id"]:
            request.META[CALLER] = f"issuer {identity.trusted.pk}"


def challenged(response: HttpResponseBase) -> HttpResponseBase:
    """Set the authentication scheme of clients (RFC 6749, section 5.2).

    oauthlib sets the scheme of resources.
    """
    if response.status_code == 401:
        response["WWW-Authenticate"] = 'Basic realm="OAuth clients"'
    return response


class RevocationView(GuardedAgainstGuesses, views.RevokeTokenView):
    """RFC 7009."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return challenged(as_json(super().dispatch(request, *args, **kwargs)))

    @method_decorator(sensitive_post_parameters())
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        refused = refusal_of_malformed(request)
        if refused is not None:
            return refused
        assertions.read(request, _url(base_url(request), "token"))
        response: HttpResponseBase = super().post(request, *args, **kwargs)
        return response


def as_json(response: HttpResponseBase) -> HttpResponseBase:
    """Correct the media type of errors: the toolkit sets none."""
    response["Content-Type"] = "application/json"
    return response


class RegistrationView(views.DynamicClientRegistrationView):
    """RFC 7591. Anybody may register, so unused clients are bounded, and cookies are ignored."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return without_store(super().dispatch(request, *args, **kwargs))

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        request.user = AnonymousUser()
        try:
            stated_size = int(request.META.get("CONTENT_LENGTH") or 0)
        except ValueError:
            return failed("invalid_client_metadata", "Content-Length is not a number")
        if stated_size > MAX_BODY or len(request.body) > MAX_BODY:
            return failed("invalid_client_metadata", f"Send at most {MAX_BODY} bytes", 413)
        try:
            metadata = metadata_in(request.body)
        except ValueError as error:
            return failed("invalid_client_metadata", str(error))
        try:
            return self._register(request, metadata)
        except RecursionError:  # It was read with fewer calls on the stack.
            return failed("invalid_client_metadata", NOT_JSON)

    def _register(self, request: HttpRequest, metadata: Json) -> HttpResponseBase:
        # The toolkit reads the body, and has no hook for its parameters.
        request._body = json.dumps(metadata).encode()
        with transaction.atomic(using=redemptions.database()):
            response: HttpResponseBase = super().post(request)
            if response.status_code != CREATED:
                return response
            return registered(request, metadata, response)


def metadata_in(body: bytes) -> Json:
    """Return the metadata of a registration; raises ValueError with the reason of a refusal."""
    try:
        metadata = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(NOT_JSON) from None
    if not isinstance(metadata, dict):
        raise ValueError("Send a JSON object")
    if not isinstance(metadata.get("client_name", ""), str):
        raise ValueError("client_name must be a string")
    metadata = without_unsupported(metadata)
    method = metadata.get("token_endpoint_auth_method", registrations.DEFAULT_METHOD)
    if method not in oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED:
        raise ValueError("token_endpoint_auth_method is not supported")
    return metadata


CREATED = 201
NOT_JSON = "Send JSON, without deep nesting"


def registered(request: HttpRequest, metadata: Json, response: Any) -> HttpResponseBase:
    """Store the metadata of a client, and complete the toolkit's answer (RFC 7591, 3.2.1)."""
    answer = json.loads(response.content)
    network = network_of(request.META.get("REMOTE_ADDR", ""))
    kept = registrations.store(answer["client_id"], network, metadata)
    return JsonResponse(completed(request, answer, kept), status=CREATED)


def completed(request: HttpRequest, answer: Json, kept: Json) -> dict[str, Any]:
    """Return the toolkit's description of a client with the missing members."""
    path = reverse("oauth2_provider:dcr-register-management", args=[answer["client_id"]])
    # The toolkit does not know BASE_URL.
    url = f"{base_url(request)}/{path.removeprefix(get_script_prefix())}"
    expiry = {"client_secret_expires_at": 0} if "client_secret" in answer else {}
    return {**answer, **kept, **expiry, "registration_client_uri": url}


class RegistrationManagementView(views.DynamicClientRegistrationManagementView):
    """RFC 7592: a client reads or deletes its registration. To change it, it registers again."""

    http_method_names = ["get", "delete", "options"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return without_store(super().dispatch(request, *args, **kwargs))

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: Any = super().get(request, *args, **kwargs)
        if response.status_code != 200:
            return response  # type: ignore[no-any-return]
        answer = json.loads(response.content)
        kept = registrations.metadata_of(answer["client_id"])
        return JsonResponse(completed(request, answer, kept))


def without_store(response: HttpResponseBase) -> HttpResponseBase:
    """Forbid caches to keep an answer with secrets (RFC 7591, section 3.2.1)."""
    patch_cache_control(response, no_store=True)
    return response


class MetadataView(View):
    """RFC 8414. For issuers other than the site's, the answer is 404, as JSON."""

    def get(self, request: HttpRequest, issuer_path: str = "") -> HttpResponseBase:
        base = base_url(request)
        own = issuer(base)
        if issuer_path and urlsplit(own).path.strip("/") != issuer_path.strip("/"):
            return failed("not_found", "There is no such authorization server here", 404)
        return JsonResponse(_metadata(base, own))


def _metadata(base: str, own: str) -> dict[str, Any]:
    more = machines.metadata()
    authentication = [
        *oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED,
        *more.pop("token_endpoint_auth_methods_supported", ()),
    ]
    scopes = get_scopes_backend().get_available_scopes()
    document = {
        "issuer": own,
        "authorization_endpoint": _url(base, "authorize"),
        "token_endpoint": _url(base, "token"),
        "revocation_endpoint": _url(base, "revoke-token"),
        "scopes_supported": [scope for scope in scopes if scope != OFFLINE_ACCESS],
        "response_types_supported": [*oauth2_settings.OAUTH2_RESPONSE_TYPES_SUPPORTED],
        "grant_types_supported": [
            *oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED,
            *more.pop("grant_types_supported"),
        ],
        "token_endpoint_auth_methods_supported": authentication,
        "revocation_endpoint_auth_methods_supported": authentication,
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": bool(oauth2_settings.CIMD_ENABLED),
        "authorization_response_iss_parameter_supported": True,
    }
    document |= more
    if oauth2_settings.DCR_ENABLED:
        document["registration_endpoint"] = _url(base, "dcr-register")
    return document


def _url(base: str, name: str) -> str:
    return f"{base}/{reverse(f'oauth2_provider:{name}').removeprefix(get_script_prefix())}"
