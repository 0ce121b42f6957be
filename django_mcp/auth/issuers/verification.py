"""JWTs that are verified by published keys: of an issuer of tokens, or of a client.

It needs PyJWT: the extra ``jwt`` of this package, which ``oauth`` includes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.issuers.fetching import Unavailable, discover, fetch_json
from django_mcp.auth.issuers.key_set import KeySet
from django_mcp.outbound import is_loopback, is_secure

try:
    import cryptography  # noqa: F401
    import jwt
except ImportError:
    raise ImproperlyConfigured(
        "Signed tokens need PyJWT: pip install 'django-mcp-channels[jwt]'"
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
"""The type and the curve of the keys for each algorithm. Algorithms with a shared secret are left
out: whoever knows the public keys could sign."""
MAX_KEYS = 100
RSA_BITS = range(2048, 8192 + 1)
"""Shorter keys are not secure, longer ones take long to verify."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The requirements for the JWTs of one purpose."""

    issuer: str
    types: Collection[str]
    """The values of ``typ``, in lower case; a JWT without one has the type ``jwt``."""
    algorithms: Sequence[str] = tuple(KEY_TYPES)
    required: Sequence[str] = ("exp", "aud", "iss", "sub")
    """Claims that must be there. The audience is for the caller to check."""
    leeway: float = 30.0
    """Seconds that the clocks of this site and of the issuer may differ by."""


class VerifiedJWT(NamedTuple):
    """A JWT with a valid signature, the right issuer and valid dates."""

    type: str
    claims: Mapping[str, Any]


class Key(NamedTuple):
    """A public key for signatures."""

    id: Any
    type: tuple[str, str | None]
    algorithm: str | None
    """The only algorithm that it may be used with, or None."""
    key: Any


def verify(token: str, keys: Sequence[Key], rules: Rules) -> VerifiedJWT | None:
    """Verify a JWT by keys that are at hand; return None if it is not valid."""
    header = _header(token, rules)
    if header is None:
        return None
    key = header.choose(keys)
    claims = None if key is None else _claims(token, key, header, rules)
    return VerifiedJWT(header.type, claims) if isinstance(claims, Mapping) else None


async def verify_by_key_set(token: str, keys: KeySet[Key], rules: Rules) -> VerifiedJWT | None:
    """Verify a JWT by keys that are loaded from their URL; return None if it is not valid.

    Raises Unavailable if the keys cannot be loaded.
    """
    header = _header(token, rules)
    if header is None:
        return None
    key = await keys.find(header.choose)
    if key is None:
        return None
    claims = _claims(token, key, header, rules)
    if claims is WRONG_SIGNATURE:
        replacement = await _replacement(keys, key, header.choose)
        claims = None if replacement is None else _claims(token, replacement, header, rules)
    return VerifiedJWT(header.type, claims) if isinstance(claims, Mapping) else None


WRONG_SIGNATURE = object()


class _Header(NamedTuple):
    type: str
    algorithm: str
    choose: Callable[[Sequence[Key]], Key | None]


def _header(token: str, rules: Rules) -> _Header | None:
    """Read the header; return None unless it has a type and an algorithm of ``rules``."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    type_ = str(header.get("typ", "JWT")).lower()
    algorithm = header.get("alg")
    if type_ not in rules.types or not isinstance(algorithm, str):
        return None
    # A site may list an algorithm with a shared secret. It is refused all the same.
    if algorithm not in rules.algorithms or algorithm not in KEY_TYPES:
        return None
    choose = partial(choose_key, key_id=header.get("kid"), algorithm=algorithm)
    return _Header(type_, algorithm, choose)


def _claims(token: str, key: Key, header: _Header, rules: Rules) -> Any:
    """Return the claims; None if they are not valid; WRONG_SIGNATURE for one of another key."""
    try:
        return jwt.decode(
            token,
            key.key,
            algorithms=[header.algorithm],
            issuer=rules.issuer,
            leeway=rules.leeway,
            options={"require": [*rules.required], "verify_aud": False},
        )
    except jwt.InvalidSignatureError:
        return WRONG_SIGNATURE
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        return None


async def _replacement(
    keys: KeySet[Key], key: Key, choose: Callable[[Sequence[Key]], Key | None]
) -> Key | None:
    """Return the key that was put in the place of ``key``, under the same id, or None.

    The keys are loaded as for an unknown id: not more often, whatever tokens are sent.
    """

    def other(present: Sequence[Key]) -> Key | None:
        chosen = choose(present)
        return None if chosen is None or chosen.key == key.key else chosen

    with suppress(Unavailable):
        return await keys.find(other)
    return None


def load_keys(issuer: str, url: str | None) -> Sequence[Key]:
    """Return the keys at ``url``, else where the metadata of ``issuer`` says; it blocks.

    Raises Unavailable.
    """
    if url is None:
        url = key_set_url(issuer, discover(issuer))
    return read_keys(fetch_json(url), issuer)


def key_set_url(issuer: str, metadata: Mapping[str, Any]) -> str:
    """Return the URL of the keys that the metadata of an issuer names; raises Unavailable."""
    url = metadata.get("jwks_uri")
    # An issuer elsewhere must not make this site send requests to itself.
    is_fit = isinstance(url, str) and is_secure(url)
    if not is_fit or (is_loopback(str(url)) and not is_loopback(issuer)):
        raise Unavailable(f"The metadata of {issuer} has no valid jwks_uri")
    return str(url)


def choose_key(keys: Sequence[Key], key_id: Any, algorithm: str) -> Key | None:
    """Return the key with this id; without an id, the only one for ``algorithm``."""
    types = KEY_TYPES[algorithm]
    usable = [key for key in keys if key.type in types and key.algorithm in (None, algorithm)]
    if key_id is None:
        return usable[0] if len(usable) == 1 else None
    return next((key for key in usable if key.id == key_id), None)


def read_keys(document: Mapping[str, Any], issuer: str) -> Sequence[Key]:
    """Return the keys for signatures in a key set (RFC 7517); raises Unavailable without any."""
    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise Unavailable(f"The key set of {issuer} must have a list of at most {MAX_KEYS} keys")
    keys = [key for data in listed if (key := _read_key(data)) is not None]
    if not keys:
        raise Unavailable(f"The key set of {issuer} has no key for {', '.join(KEY_TYPES)}")
    return keys


def _read_key(data: Any) -> Key | None:
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
    return Key(data.get("kid"), type_, algorithm, key)
