"""Authentication by access tokens of django-oauth-toolkit in the same project.

It needs the extra ``oauth`` and ``"oauth2_provider"`` in INSTALLED_APPS.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.db.models import Q
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils import timezone

from django_mcp.auth.cache import Loaded, PrincipalCache, in_time
from django_mcp.auth.resource import addressed, base_url, canonical, is_for
from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    BaseAuthentication,
    Challenge,
    Principal,
    Scope,
    bearer_token,
)

try:
    from oauth2_provider.models import get_access_token_model, refresh_token_expire_timedelta
    from oauth2_provider.settings import oauth2_settings
except (ImportError, RuntimeError) as error:
    raise ImproperlyConfigured(
        "OAuthToolkitAuthentication needs django-oauth-toolkit. Install "
        'django-mcp-channels[oauth], and add "oauth2_provider" to INSTALLED_APPS.'
    ) from error

SCHEME = "oauth"
"""The scheme of the principals."""
MAX_TOKENS = 100
"""Tokens of a program whose scopes are read: most programs have a few."""
WELL_KNOWN = "/.well-known/oauth-authorization-server"
"""The path of the metadata of an authorization server (RFC 8414, section 3)."""


class OAuthToolkitAuthentication(BaseAuthentication):
    """Accepts access tokens which name the addressed server as their resource (RFC 8707).

    A token without a resource is refused.
    """

    scheme = "Bearer"
    authenticates_site_users = True
    needs_endpoint_url = True
    """The URL of the endpoint is the only audience that it accepts, besides AUDIENCES."""

    def __init__(self) -> None:
        self._model = get_access_token_model()
        self._cache = PrincipalCache()

    async def authenticate(self, scope: Scope, /) -> Principal | Challenge | None:
        """Return the principal of a valid token of an active user, or None for unknown tokens."""
        token = bearer_token(scope)
        if token is None:
            return None
        # The toolkit stores this digest, and finds tokens by it.
        digest = sha256(token.encode("utf-8")).hexdigest()
        endpoint = addressed(scope).url(scope)
        return await self._cache.find(partial(self._load, scope, digest), digest, endpoint)

    async def _load(self, scope: Scope, digest: str) -> Loaded | Challenge | None:
        # A replica may not have a revocation yet: the database for writing is asked.
        database = router.db_for_write(self._model)
        rows = self._model.objects.using(database).select_related("user", "application")
        token = await in_time(rows.filter(token_checksum=digest).afirst())
        if token is None:
            return None
        principal = await self._principal(scope, token)
        return INVALID_TOKEN if principal is None else Loaded(principal, token.expires.timestamp())

    async def _principal(self, scope: Scope, token: Any) -> Principal | None:
        if token.expires <= timezone.now() or not is_for(scope, token.resource or ()):
            return None
        user = await self.get_user(token)
        if user is None or not user.is_active:
            return None
        client_id = "" if token.application is None else token.application.client_id
        scopes = frozenset(token.scope.split())
        claims = {"client_id": client_id, "resource": [*token.resource]}
        return Principal(scheme=SCHEME, user=user, scopes=scopes, claims=claims)

    async def reauthenticate(self, principal: Principal, /) -> Principal | Challenge | None:
        """Return the principal while the user lets the program go on with the same server.

        The program needs an access token that has not expired, or one that it can refresh: access
        tokens are replaced every hour. Scopes that none of them has any more are lost.
        """
        if principal.scheme != SCHEME:
            return None
        scopes = await in_time(self._scopes_now(principal))
        return INVALID_TOKEN if scopes is None else replace(principal, scopes=scopes)

    async def _scopes_now(self, principal: Principal) -> frozenset[str] | None:
        """The scopes that tokens for the resource of a principal still have; None without any."""
        resource = {*map(canonical, principal.claims.get("resource", ()))}
        now = timezone.now()
        access = self._model.objects.using(router.db_for_write(self._model)).filter(
            user=principal.user.pk, application__client_id=principal.claims.get("client_id")
        )
        usable = Q(expires__gt=now)
        lifetime = refresh_token_expire_timedelta()
        is_idle = Q() if lifetime is None else Q(expires__gt=now - lifetime)
        usable |= Q(refresh_token__isnull=False, refresh_token__revoked=None) & is_idle
        newest = access.filter(usable).order_by("-created").values_list("scope", "resource")
        usable_scopes = [
            {*scope.split()}
            async for scope, of in newest[:MAX_TOKENS]
            if not resource.isdisjoint(map(canonical, of or ()))
        ]
        return principal.scopes & frozenset().union(*usable_scopes) if usable_scopes else None

    async def get_user(self, token: Any) -> Any:
        """Return the user of an access token, or None to refuse it.

        By default, the user who allowed the access, or as whom a machine client acts. A token of
        the client credentials grant for another application has none.
        """
        return token.user

    def authorization_servers(self, scope: Scope, /) -> tuple[str, ...]:
        """Return the issuer of this project."""
        return (issuer(base_url(scope)),)


def issuer(base: str) -> str:
    """Return the issuer: OIDC_ISS_ENDPOINT, else where the metadata is served below ``base``."""
    if pinned := oauth2_settings.OIDC_ISS_ENDPOINT:
        return str(pinned)
    try:
        path = reverse("oauth2_provider:oauth-server-metadata")
    except NoReverseMatch:
        return base
    return base + ("/" + path.removeprefix(get_script_prefix())).partition(WELL_KNOWN)[0]
