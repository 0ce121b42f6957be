"""Rules beyond the toolkit's: resources of this project only, and active users only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from oauth2_provider.models import get_grant_model
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749.errors import (
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
)

from django_mcp.contrib.oauth import assertions, machines, redemptions, resources
from django_mcp.contrib.oauth.clients import is_acceptable, is_registered
from django_mcp.contrib.oauth.models import Redemption, TrustedIssuer, current
from django_mcp.contrib.oauth.resources import BASE_URL, InvalidTarget, base_of, listed


class OAuthBackend(OAuthLibCore):
    """Passes the URL of the site to the validator, which would see only a path without it.

    It adds the grant of assertions to the grants of oauthlib.
    """

    def __init__(self, server: Any = None) -> None:
        super().__init__(server)
        validator = self.server.request_validator
        self.server.grant_types[machines.JWT_BEARER] = machines.IdentityAssertionGrant(validator)

    def extract_headers(self, request: HttpRequest) -> dict[str, Any]:
        headers: dict[str, Any] = super().extract_headers(request)
        return {**headers, BASE_URL: resources.base_url(request)}

    def extract_body(self, request: HttpRequest) -> list[tuple[str, str]]:
        # The toolkit would decode the credentials in the header with a codec of this name.
        body = super().extract_body(request)
        return [(name, value) for name, value in body if name != "encoding"]


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
        requested = listed(request.resource)
        state = request.state
        check_resources(base_of(request), requested, request.client, state=state)
        check_challenge(request.code_challenge, request.code_challenge_method, state=state)
        if len(request.nonce or "") > MAX_NONCE:
            raise InvalidRequestError("The nonce is too long", request=request, state=state)
        if not self.validate_scopes(client_id, request.scopes, request.client, request):
            raise InvalidScopeError(request=request, state=state)
        # An application of the site may name none; the toolkit cannot store an empty one.
        request.resource = requested
        super().save_authorization_code(client_id, code, request, *args, **kwargs)

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Whether the client has to authenticate: also where it presents an assertion."""
        if assertions.of(request.headers).client is not None:
            return True
        return bool(super().client_authentication_required(request, *args, **kwargs))

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        by_secret = False
        if assertions.of(request.headers).client is None:
            by_secret = super().authenticate_client(request, *args, **kwargs)
            by_secret = by_secret or machines.has_previous_secret(request)
        if not machines.is_authentic(request, by_secret=by_secret):
            return False
        # oauthlib answers server_error for this.
        return request.client_id in (None, "", request.client.client_id)

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        if grant_type == machines.JWT_BEARER:
            return machines.may_present_assertions(request.client)
        if grant_type == machines.CLIENT_CREDENTIALS:
            is_allowed = machines.may_use_client_credentials(request.client)
            if is_allowed is not None:
                return is_allowed
        return bool(
            super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs)
        )

    def get_default_scopes(self, client_id: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the scopes of a client that asks for none: a machine gets all of its own."""
        machine = self._machine(request)
        if machine is not None:
            return machine.scopes
        return super().get_default_scopes(client_id, request, *args, **kwargs)

    def validate_scopes(
        self, client_id: str, scopes: Any, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        machine = self._machine(request)
        if machine is not None and not {*scopes} <= {*machine.scopes}:
            return False
        return bool(super().validate_scopes(client_id, scopes, client, request, *args, **kwargs))

    @staticmethod
    def _machine(request: Any) -> Any:
        """The machine that requests client credentials, or None."""
        if getattr(request, "grant_type", None) != machines.CLIENT_CREDENTIALS:
            return None
        return machines.machine_of(request.client)

    def user_for_assertion(self, claims: Mapping[str, Any], trusted: TrustedIssuer) -> Any:
        """Return the user whom the assertion of a trusted issuer names, or None to refuse it.

        By default, the user who is linked to the subject, or who is linked or created now, as the
        issuer's row says. Users who are not active are refused.
        """
        return machines.user_of(claims, trusted)

    def _check_and_set_request_resource(self, request: Any) -> None:
        super()._check_and_set_request_resource(request)
        if not request.resource and self._machine(request) is not None:
            only = resources.only(base_of(request))
            if only is None:
                raise InvalidTarget("Name the MCP server in the parameter resource")
            request.resource = [only]
        granted = self._granted(request)
        if granted is not None and request.resource != granted:
            raise InvalidTarget("The user allowed access to another resource", request=request)
        if request.resource:
            check_resources(base_of(request), request.resource, request.client)

    @staticmethod
    def _granted(request: Any) -> list[str] | None:
        """The consent of the user; None for grants without one."""
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
        """Refuse a redirect URI other than the code's, as RFC 6749, section 5.2, names it."""
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

    def revoke_token(
        self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Revoke a token; also one that was just redeemed, whose answer the client may not have."""
        super().revoke_token(token, token_type_hint, request, *args, **kwargs)
        if request.client is not None:
            redemptions.end_family_of(token, request.client)

    def save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        """Store the tokens, or replace them by those that the same refresh token gave before."""
        # A request has its parameters as attributes, which a client chooses: hence the class.
        redemption = getattr(request, "redemption", None)
        if isinstance(redemption, Redemption):
            self._check_and_set_request_resource(request)
            token.clear()
            token.update(redemptions.tokens_of(redemption, request.refresh_token))
            return
        with transaction.atomic(using=redemptions.database()):
            super().save_bearer_token(token, request, *args, **kwargs)
            machine = self._machine(request)
            if machine is not None:
                machines.assign(token, machine.user)
        if request.grant_type == "authorization_code":
            redemptions.keep(request.code, token, is_repeatable=False)
        elif request.grant_type == "refresh_token" and self.rotate_refresh_token(request):
            redemptions.keep(request.refresh_token, token, is_repeatable=True)


CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
MAX_NONCE = 255
"""Characters that the toolkit can store."""


def check_challenge(challenge: str | None, method: str | None, **kwargs: Any) -> None:
    """Raise InvalidRequestError unless it is one by S256 (RFC 7636, section 4.2), or None.

    oauthlib refuses None where a challenge is required.
    """
    if challenge is None:
        return
    if method != "S256":
        raise InvalidRequestError("Use the code_challenge_method S256", **kwargs)
    if not CHALLENGE.fullmatch(challenge):
        raise InvalidRequestError("The code_challenge is not one by S256", **kwargs)


def check_resources(base: str, requested: list[str], application: Any, **kwargs: Any) -> None:
    """Raise InvalidTarget unless ``requested`` is one resource of this project.

    An application that the site itself added may name none. It gets a token that no MCP server
    accepts.
    """
    if len(requested) > 1:
        raise InvalidTarget("Name one resource", **kwargs)
    if not requested and application.registration_source != "manual":
        raise InvalidTarget("Name the MCP server in the parameter resource", **kwargs)
    if requested and not resources.is_known(base, requested[0]):
        raise InvalidTarget("The resource is no MCP server of this site", **kwargs)
