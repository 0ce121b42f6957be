"""Authentication by personal access tokens, which the app ``django_mcp.contrib.tokens`` keeps.

A token is ``djmcp_``, 256 random bits and a checksum, in letters and digits: secret scanners find
it, and a mistyped one is rejected without a query. Only its SHA-256 digest is stored, which needs
no salt, since nobody can guess the token.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from zlib import crc32

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import router

from django_mcp.auth.cache import Loaded, PrincipalCache, in_time
from django_mcp.auth.resource import addressed
from django_mcp.core.auth import selection
from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    PERSONAL_TOKEN_PREFIX,
    BaseAuthentication,
    Challenge,
    Principal,
    Scope,
    bearer_token,
)

SCHEME = "token"
"""The scheme of the principals."""
PREFIX = PERSONAL_TOKEN_PREFIX
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_LENGTH = 43
"""Characters of 256 bits: 62 ** 43 > 2 ** 256."""
CHECKSUM_LENGTH = 6
FORMAT = re.compile(f"{PREFIX}[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")


def new_token() -> str:
    """Return a new token, which must be shown once and never stored."""
    text = PREFIX + _encode(secrets.randbits(256), RANDOM_LENGTH)
    return text + _checksum(text)


def is_well_formed(token: str) -> bool:
    """Whether ``token`` has the form of ours, and its checksum is right."""
    text = token[:-CHECKSUM_LENGTH]
    checksum = token[-CHECKSUM_LENGTH:]
    return FORMAT.fullmatch(token) is not None and _checksum(text) == checksum


def digest_of(token: str) -> str:
    """Return the SHA-256 digest of the stored token, in hexadecimal."""
    return sha256(token.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _encode(crc32(text.encode()), CHECKSUM_LENGTH)


def _encode(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


class TokenAuthentication(BaseAuthentication):
    """Accepts personal access tokens of active users, as ``Authorization: Bearer djmcp_…``.

    It needs ``django_mcp.contrib.tokens`` in INSTALLED_APPS. Every refusal has the same answer.
    """

    scheme = "Bearer"
    authenticates_site_users = True

    def __init__(self) -> None:
        if not apps.is_installed("django_mcp.contrib.tokens"):
            raise ImproperlyConfigured(
                "TokenAuthentication needs the table of its tokens: add "
                "'django_mcp.contrib.tokens' to INSTALLED_APPS, and run manage.py migrate."
            )
        self._cache = PrincipalCache()

    async def authenticate(self, scope: Scope, /) -> Principal | Challenge | None:
        """Return the principal of the token's user; None for other bearer tokens."""
        token = bearer_token(scope)
        if token is None or not token.startswith(PREFIX):
            return None
        digest = digest_of(token)
        server = addressed(scope).name
        # Before the checksum, which takes 5 % of a call: a token that is kept was checked before.
        principal = self._cache.get(digest, server)
        if principal is not None:
            return principal
        if not is_well_formed(token):
            return INVALID_TOKEN
        load = partial(self._load, digest, server)
        return await self._cache.find(load, digest, server) or INVALID_TOKEN

    async def _load(self, digest: str, server: str) -> Loaded | None:
        row = await in_time(_tokens().find_valid(digest, server))
        if row is None:
            return None
        expires_at = None if row.expires_at is None else row.expires_at.timestamp()
        return Loaded(_principal(row, server), expires_at)

    async def reauthenticate(self, principal: Principal, /) -> Principal | Challenge | None:
        """Return the principal of the same token for the same server, as it is now."""
        if principal.scheme != SCHEME:
            return None
        tokens = _tokens()
        server = principal.claims.get("server")
        rows = tokens.using(router.db_for_write(tokens.model)).select_related("owner")
        row = await in_time(rows.filter(pk=principal.claims.get("token_id")).afirst())
        if row is None or not row.is_valid_for(server):
            return INVALID_TOKEN
        now = _principal(row, server)
        return replace(now, endpoint=principal.endpoint, tenant=principal.tenant)


def _tokens() -> Any:
    return apps.get_model("django_mcp_tokens", "PersonalAccessToken").objects


def _principal(row: Any, server: Any) -> Principal:
    return Principal(
        scheme=SCHEME,
        user=row.owner,
        scopes=frozenset(row.scopes),
        claims={"token_id": row.pk, "token_name": row.name, "server": server},
        selection=selection.of_token(row.groups, read_only=row.read_only),
    )
