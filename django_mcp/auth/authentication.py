"""The authentication of one server: its authenticators in order, and how it rejects a request."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, cast

from django_mcp import conf
from django_mcp.auth import cache, challenges
from django_mcp.auth.challenges import BEARER, AuthenticationFailed, Header, bearer_parameters
from django_mcp.auth.resource import SCOPE_KEY, Resource
from django_mcp.core.auth import selection
from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    TENANT_KEY,
    TOKEN_KEY,
    Authenticator,
    Challenge,
    Principal,
    Scope,
    bearer_token,
)
from django_mcp.core.auth.permissions import grants_scopes


class Authentication:
    """Authenticates the requests to one server."""

    def __init__(self, authenticators: Sequence[Authenticator], resource: Resource) -> None:
        self.authenticators = tuple(authenticators)
        self.resource = resource
        declared = dict.fromkeys(getattr(item, "scheme", BEARER) for item in self.authenticators)
        schemes = [scheme for scheme in declared if scheme]
        # Some clients read only the first challenge, and can use only tokens.
        schemes.sort(key=lambda scheme: scheme != BEARER)
        self._schemes = tuple(schemes) or (BEARER,)
        self._takes_tokens = any(
            getattr(item, "scheme", None) == BEARER for item in self.authenticators
        )

    def authenticate(self, scope: Scope) -> Coroutine[Any, Any, Principal]:
        """Return the principal; raises AuthenticationFailed.

        A bearer token which no authenticator accepts is not valid, even where anonymous callers
        are accepted: a client has to learn that its token has expired.
        """
        scope[SCOPE_KEY] = self.resource  # type: ignore[index]
        tenant = scope.get(TENANT_KEY)
        return self._of_tenant(scope, tenant) if tenant else self._authenticate(scope)

    async def _of_tenant(self, scope: Scope, tenant: str) -> Principal:
        with cache.of_tenant(tenant):
            return replace(await self._authenticate(scope), tenant=tenant)

    async def _authenticate(self, scope: Scope) -> Principal:
        has_token = False
        if self._takes_tokens:
            token = bearer_token(scope)
            scope[TOKEN_KEY] = token  # type: ignore[index]  # Authenticators read it there.
            has_token = token is not None
        # The first challenge that is not final: a later authenticator may still accept.
        refusal: Challenge | None = None
        for authenticator in self.authenticators:
            answer = await authenticator.authenticate(scope)
            if isinstance(answer, Challenge):
                if answer.is_final:
                    raise AuthenticationFailed(answer)
                refusal = refusal or answer
                continue
            if answer is None:
                continue
            # A caller with credentials must not be taken for one without.
            has_credentials = has_token or refusal is not None
            if has_credentials and _ignores_token(authenticator, answer):
                continue
            if self.resource.scopes and _is_of_token(authenticator, scope):
                self._check_scopes(answer)
            captured = scope["url_route"]["kwargs"] if "url_route" in scope else None
            if captured:
                pairs = [f"{name}={value}" for name, value in sorted(captured.items())]
                answer = replace(answer, endpoint="&".join(pairs))
            query = scope.get("query_string")
            return _with_selection(answer, query) if query else answer
        if refusal is None:
            refusal = INVALID_TOKEN if has_token else Challenge()
        raise AuthenticationFailed(refusal)

    async def reauthenticate(self, principal: Principal) -> Principal | None:
        """Authenticate a caller of an earlier request again, without its credentials.

        Returns the principal as it is now, or None where no authenticator can say. Raises
        AuthenticationFailed if access was revoked.
        """
        with cache.of_tenant(principal.tenant):
            for authenticator in self.authenticators:
                ask = getattr(authenticator, "reauthenticate", None)
                answer = None if ask is None else await ask(principal)
                if isinstance(answer, Challenge):
                    raise AuthenticationFailed(answer)
                if answer is not None:
                    if self.resource.scopes:
                        self._check_scopes(answer)
                    return cast("Principal", answer)
        return None

    def _check_scopes(self, principal: Principal) -> None:
        """Raise AuthenticationFailed if the access token lacks a scope of the server."""
        if grants_scopes(principal.scopes, self.resource.scopes, conf.get().scope_hierarchy):
            return
        message = "The access token lacks a scope that this server needs"
        raise AuthenticationFailed(
            Challenge(status=403, error="insufficient_scope", message=message)
        )

    def issuers(self, scope: Scope) -> tuple[str, ...]:
        """Return the authorization servers of all authenticators, without repetition."""
        servers: list[str] = []
        for authenticator in self.authenticators:
            find = getattr(authenticator, "authorization_servers", None)
            if find is not None:
                servers += find(scope)
        return tuple(dict.fromkeys(servers))

    def headers(self, scope: Scope, challenge: Challenge) -> tuple[Header, ...]:
        """Return the headers of a rejection, from ``challenges.headers``."""
        parameters = bearer_parameters(challenge, self.resource, scope, self.issuers)
        return challenges.headers(challenge, self._schemes, parameters)


def _with_selection(principal: Principal, query: bytes) -> Principal:
    """The principal with the components that the URL selects, within its token's selection.

    Raises AuthenticationFailed for a malformed query.
    """
    try:
        selected = selection.narrowed(principal.selection, query)
    except ValueError as error:
        raise AuthenticationFailed(Challenge(status=400, message=str(error))) from None
    return principal if selected is principal.selection else replace(principal, selection=selected)


def _ignores_token(authenticator: Authenticator, principal: Principal) -> bool:
    """Whether the authenticator accepted the request without looking at its token."""
    if getattr(authenticator, "accepts_all", False):
        return True
    return principal.is_anonymous and getattr(authenticator, "scheme", None) != BEARER


def _is_of_token(authenticator: Authenticator, scope: Scope) -> bool:
    """Whether the principal comes from an access token; a site's own class may not say it."""
    if hasattr(authenticator, "scheme"):
        return bool(authenticator.scheme == BEARER)
    return bearer_token(scope) is not None
