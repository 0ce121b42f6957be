"""Authentication by signed access tokens (JWT, RFC 9068) of an authorization server.

It needs PyJWT: the extra ``jwt`` of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.bearer import (
    Claims,
    ClaimsAuthentication,
    InvalidToken,
    require_access_token,
    require_secure,
    stated_issuer,
)
from django_mcp.auth.issuers.discovery import discover
from django_mcp.auth.issuers.fetching import Unavailable, fetch_json
from django_mcp.auth.issuers.key_set import KeySet
from django_mcp.outbound import is_loopback, is_secure

try:
    import cryptography  # noqa: F401
    import jwt
except ImportError:
    raise ImproperlyConfigured(
        "JWTAuthentication needs PyJWT: pip install 'django-mcp-channels[jwt]'"
    ) from None

KEY_TYPES: Mapping[str, frozenset[tuple[str, str | None]]] = {
    **dict.fromkeys(
        ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), frozenset({("RSA", None)})
    ),
    "ES256": frozenset({("EC", "P-256")}),
    "ES384": frozenset({("EC", "P-384")}),
    "ES512": frozenset({("EC", "P-521")}),
    "EdDSA": frozenset({("OKP", "Ed25519"), ("OKP", "Ed448")}),
}
"""The type and the curve of the keys for each algorithm. There are no algorithms with a shared
secret: whoever knows the public keys could sign."""
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""The values of ``typ`` that access tokens have (RFC 9068, section 4); others are other tokens."""
MAX_KEYS = 100
RSA_BITS = range(2048, 8192 + 1)
"""Shorter keys are not secure, longer ones take long to verify."""


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
        """Return the claims of a token of this issuer, whose signature and dates are valid."""
        if stated_issuer(token) != self.issuer:
            return None
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise InvalidToken from None
        kind, algorithm = self._kind_and_algorithm(header)
        choose = partial(_choose, key_id=header.get("kid"), algorithm=algorithm)
        key = await self._keys.find(choose)
        if key is None:
            raise InvalidToken
        try:
            claims = self._verified(token, key, algorithm)
        except _WrongSignature:
            claims = self._verified(token, await self._replacement(key, choose), algorithm)
        require_access_token(claims, is_typed=kind != "jwt")
        return claims

    async def _replacement(
        self, key: _Key, choose: Callable[[Sequence[_Key]], _Key | None]
    ) -> _Key:
        """Return the key that the issuer has put in the place of ``key``, under the same id.

        Raises InvalidToken if there is none. The keys are loaded as for an unknown id: not more
        often, whatever tokens are sent.
        """

        def other(keys: Sequence[_Key]) -> _Key | None:
            chosen = choose(keys)
            return None if chosen is None or chosen.key == key.key else chosen

        with suppress(Unavailable):
            replacement = await self._keys.find(other)
            if replacement is not None:
                return replacement
        raise InvalidToken

    def _verified(self, token: str, key: _Key, algorithm: str) -> Claims:
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                issuer=self.issuer,
                leeway=self.leeway,
                # The audience is checked with the addressed server's.
                options={"require": ["exp", "aud", "iss", "sub"], "verify_aud": False},
            )
        except jwt.InvalidSignatureError:
            raise _WrongSignature from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise InvalidToken from None

    def _kind_and_algorithm(self, header: Mapping[str, Any]) -> tuple[str, str]:
        kind = str(header.get("typ", "JWT")).lower()
        algorithm = header.get("alg")
        if kind not in TYPES or not isinstance(algorithm, str) or algorithm not in self.algorithms:
            raise InvalidToken
        return kind, algorithm

    def _load_keys(self) -> Sequence[_Key]:
        url = self.jwks_url
        if url is None:
            url = discover(self.issuer).get("jwks_uri")
            # An issuer elsewhere must not make this site send requests to itself.
            is_fit = isinstance(url, str) and is_secure(url)
            if not is_fit or (is_loopback(str(url)) and not is_loopback(self.issuer)):
                raise Unavailable(f"The metadata of {self.issuer} has no valid jwks_uri")
        return _read_keys(fetch_json(str(url)), self.issuer)


class _WrongSignature(InvalidToken):
    """The token is not signed with the key."""


class _Key(NamedTuple):
    id: Any
    type: tuple[str, str | None]
    algorithm: str | None
    """The only algorithm that it may be used with, or None."""
    key: Any


def _choose(keys: Sequence[_Key], key_id: Any, algorithm: str) -> _Key | None:
    """Return the key with this id; without an id, the only one for ``algorithm``."""
    types = KEY_TYPES[algorithm]
    usable = [key for key in keys if key.type in types and key.algorithm in (None, algorithm)]
    if key_id is None:
        return usable[0] if len(usable) == 1 else None
    return next((key for key in usable if key.id == key_id), None)


def _read_keys(document: Mapping[str, Any], issuer: str) -> Sequence[_Key]:
    """Return the keys for signatures in a key set (RFC 7517); raises Unavailable without any."""
    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise Unavailable(f"The key set of {issuer} must have a list of at most {MAX_KEYS} keys")
    keys = [key for data in listed if (key := _read_key(data)) is not None]
    if not keys:
        raise Unavailable(f"The key set of {issuer} has no key for {', '.join(KEY_TYPES)}")
    return keys


def _read_key(data: Any) -> _Key | None:
    """Return a public key for signatures; None for others, which a key set may have as well."""
    try:
        is_public = data.get("use", "sig") == "sig" and "d" not in data
        if not is_public or "verify" not in data.get("key_ops", ["verify"]):
            return None
        type_ = (data["kty"], None if data["kty"] == "RSA" else data.get("crv"))
        usable = [name for name, types in KEY_TYPES.items() if type_ in types]
        algorithm = data.get("alg")
        if not usable or algorithm not in (None, *usable):
            return None
        key: Any = jwt.PyJWK(data, algorithm or usable[0]).key
    except (jwt.PyJWTError, AttributeError, KeyError, TypeError, ValueError):
        return None
    if type_[0] == "RSA" and key.key_size not in RSA_BITS:
        return None
    return _Key(data.get("kid"), type_, algorithm, key)
