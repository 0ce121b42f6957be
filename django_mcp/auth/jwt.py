"""Authentication by signed access tokens (JWT, RFC 9068) of an authorization server.

It needs PyJWT: the extra ``jwt`` of this package.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.bearer import (
    Claims,
    ClaimsAuthentication,
    InvalidToken,
    require_access_token,
    require_secure,
    stated_issuer,
)
from django_mcp.auth.issuers.key_set import KeySet
from django_mcp.auth.issuers.verification import (
    KEY_TYPES,
    Key,
    Rules,
    load_keys,
    verify_by_key_set,
)

TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""The values of ``typ`` that access tokens have (RFC 9068, section 4); others are other tokens."""


class JWTAuthentication(ClaimsAuthentication):
    """Accepts access tokens that are signed by a key of ``issuer``.

    The keys are loaded from ``jwks_url``, or from where the metadata of the issuer says.
    A token must have the claims ``iss``, ``aud``, ``exp`` and ``sub``.
    """

    name = "jwt"
    issuer: str
    jwks_url: str | None = None
    algorithms: Sequence[str] = tuple(KEY_TYPES)

    def __init__(
        self,
        issuer: str | None = None,
        *,
        audience: str | Sequence[str] | None = None,
        jwks_url: str | None = None,
        algorithms: Sequence[str] | None = None,
        leeway: float | None = None,
        user_claim: str | None = None,
        user_field: str | None = None,
    ) -> None:
        super().__init__(
            issuer=issuer,
            audience=audience,
            jwks_url=jwks_url,
            algorithms=algorithms,
            leeway=leeway,
            user_claim=user_claim,
            user_field=user_field,
        )
        if getattr(self, "issuer", None) is None:
            raise ImproperlyConfigured(
                'JWTAuthentication needs the issuer of the tokens: issuer="https://…"'
            )
        if self.jwks_url is not None:
            require_secure(self.jwks_url, "jwks_url")
        unknown = set(self.algorithms) - set(KEY_TYPES)
        if unknown or isinstance(self.algorithms, str) or not self.algorithms:
            raise ImproperlyConfigured(
                f"The algorithms of JWTAuthentication are {self.algorithms!r}; they must be a list "
                f"of some of {', '.join(KEY_TYPES)}."
            )
        self._keys = KeySet(self._load_keys)

    async def claims(self, token: str, /) -> Claims | None:
        """Return the claims of a token of this issuer with a valid signature and valid dates."""
        if stated_issuer(token) != self.issuer:
            return None
        # The caller compares the audience with the addressed server.
        rules = Rules(
            issuer=self.issuer, types=TYPES, algorithms=self.algorithms, leeway=self.leeway
        )
        verified = await verify_by_key_set(token, self._keys, rules)
        if verified is None:
            raise InvalidToken
        require_access_token(verified.claims, is_typed=verified.type != "jwt")
        return verified.claims

    def _load_keys(self) -> Sequence[Key]:
        return load_keys(self.issuer, self.jwks_url)
