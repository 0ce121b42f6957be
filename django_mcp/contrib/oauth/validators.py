"""What the toolkit leaves open: resources of this project only, and active users only."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from oauth2_provider.models import get_grant_model
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749.errors import (
    CustomOAuth2Error,
    InvalidGrantError,
    InvalidScopeError,
)

from django_mcp.contrib.oauth import redemptions, resources
from django_mcp.contrib.oauth.clients import is_acceptable, is_registered
from django_mcp.contrib.oauth.models import Redemption, current

BASE_URL = "django_mcp.base_url"
"""The key of the site's URL among the headers of an oauthlib request; no client can send it."""


class InvalidTarget(CustomOAuth2Error):
    """The requested resource is unknown, or not the one that was allowed (RFC 8707)."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        super().__init__(error="invalid_target", description=description, **kwargs)


class OAuthBackend(OAuthLibCore):
    """Passes the URL of the site on to the validator, which sees only paths otherwise."""

    def extract_headers(self, request: HttpRequest) -> dict[str, Any]:
        headers: dict[str, Any] = super().extract_headers(request)
        return {**headers, BASE_URL: resources.base_url(request)}


class ResourceValidator(OAuth2Validator):
    """Issues codes and tokens for at most one resource, which is a server of this project."""

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        # The toolkit compares scheme and host without their case.
        registered = request.client.redirect_uris.split()
        return is_acceptable(redirect_uri) and is_registered(redirect_uri, registered)

    def get_default_redirect_uri(
        self, client_id: str, request: Any, *args: Any, **kwargs: Any
    ) -> str | None:
        uri = super().get_default_redirect_uri(client_id, request, *args, **kwargs)
        return uri if is_acceptable(uri) else None

    def save_authorization_code(
        self, client_id: str, code: Any, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        # The form of the consent page was filled by a browser.
        requested = _listed(request.resource)
        state = request.state
        check_resources(_base(request), requested, request.client, state=state)
        if not self.validate_scopes(client_id, request.scopes, request.client, request):
            raise InvalidScopeError(request=request, state=state)
        # An application of the site may name none; the toolkit cannot store an empty one.
        request.resource = requested
        super().save_authorization_code(client_id, code, request, *args, **kwargs)

    def _check_and_set_request_resource(self, request: Any) -> None:
        super()._check_and_set_request_resource(request)
        granted = self._granted(request)
        if granted is not None and request.resource != granted:
            raise InvalidTarget("The user allowed access to another resource", request=request)
        if request.resource:
            check_resources(_base(request), request.resource, request.client)

    @staticmethod
    def _granted(request: Any) -> list[str] | None:
        """What the user allowed; None for grants without a user's consent."""
        if request.grant_type == "authorization_code":
            grants = current(get_grant_model()).filter(
                code=request.code, application=request.client
            )
            return [resource for grant in grants for resource in grant.resource or ()]
        if request.grant_type == "refresh_token":
            token = getattr(request, "refresh_token_instance", None)
            return [] if token is None else [*(token.resource or ())]
        return None

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        is_valid = super().validate_code(client_id, code, client, request, *args, **kwargs)
        if not is_valid:
            redemptions.revoke_what_came_of(code, client)
        return bool(is_valid and request.user.is_active)

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Refuse another redirect URI than that of the code, as RFC 6749, section 5.2, names it."""
        is_own = super().confirm_redirect_uri(
            client_id, code, redirect_uri, client, *args, **kwargs
        )
        if not is_own:
            raise InvalidGrantError("The code was sent to another redirect_uri")
        return True

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        redemption = redemptions.repeatable(refresh_token, client)
        if redemption is None:
            is_valid = super().validate_refresh_token(
                refresh_token, client, request, *args, **kwargs
            )
            return bool(is_valid and request.user.is_active)
        successor = redemptions.successor_of(redemption, refresh_token)
        request.redemption = redemption
        request.user = successor.user
        request.refresh_token = refresh_token
        request.refresh_token_instance = successor
        return bool(request.user.is_active)

    def save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        """Store the tokens, or replace them by those that the same refresh token gave before."""
        # A request has its parameters as attributes, which a client chooses: hence the class.
        redemption = getattr(request, "redemption", None)
        if isinstance(redemption, Redemption):
            self._check_and_set_request_resource(request)
            token.clear()
            token.update(redemptions.tokens_of(redemption, request.refresh_token))
            return
        super().save_bearer_token(token, request, *args, **kwargs)
        if request.grant_type == "authorization_code":
            redemptions.keep(request.code, token, is_repeatable=False)
        elif request.grant_type == "refresh_token" and self.rotate_refresh_token(request):
            redemptions.keep(request.refresh_token, token, is_repeatable=True)


def check_resources(base: str, requested: list[str], application: Any, **kwargs: Any) -> None:
    """Raise InvalidTarget unless ``requested`` is one resource of this project.

    An application which the site added itself may name none, and then gets a token that no MCP
    server accepts.
    """
    if len(requested) > 1:
        raise InvalidTarget("Name one resource", **kwargs)
    if not requested and application.registration_source != "manual":
        raise InvalidTarget("Name the MCP server in the parameter resource", **kwargs)
    if requested and not resources.is_known(base, requested[0]):
        raise InvalidTarget("The resource is no MCP server of this site", **kwargs)


def _listed(resource: Any) -> list[str]:
    return resource.split() if isinstance(resource, str) else [*(resource or ())]


def _base(request: Any) -> str:
    return str(request.headers[BASE_URL])
