"""The base class of authenticators that read the claims of access tokens from an issuer."""

from __future__ import annotations

import base64
import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import router

from django_mcp.auth.cache import Loaded, PrincipalCache
from django_mcp.auth.issuers.fetching import Unavailable
from django_mcp.auth.resource import addressed, is_for
from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    PERSONAL_TOKEN_PREFIX,
    BaseAuthentication,
    Challenge,
    Principal,
    Scope,
    bearer_token,
)
from django_mcp.core.protocol.texts import similar
from django_mcp.outbound import is_secure

logger = logging.getLogger("django_mcp")

Claims = Mapping[str, Any]

MAX_TOKEN_LENGTH = 16_384
"""Characters; ASGI servers accept few headers that are longer."""
MAX_SUBJECT_LENGTH = 255
"""Characters of a subject (OpenID Connect Core, section 2)."""
NO_ACCOUNT = Challenge(
    status=403, message="The subject of the access token has no active account here"
)
"""Its status is not 401: with another token, the caller would not have an account either."""


class InvalidToken(Exception):
    """The token is of this authenticator, and is not valid."""


class ClaimsAuthentication(BaseAuthentication, ABC):
    """Accepts the access tokens of one issuer that name this server as their audience.

    A principal is kept for TOKEN_CACHE_TTL, so that a call does not check the signature and read
    the user each time. A change of the user removes it at once.

    Options are arguments, or attributes of a subclass, which the settings can name.
    """

    scheme = "Bearer"
    name = ""
    """The ``scheme`` of its principals."""

    issuer: str | None = None
    """The issuer, exactly as its metadata and its tokens name it."""
    audience: str | Sequence[str] | None = None
    """Audiences to accept besides the URL of the endpoint and the setting ``AUDIENCES``: on each
    server that has this authenticator."""
    leeway: float = 30.0
    """Seconds that the clocks of this site and of the issuer may differ by."""
    user_claim = "sub"
    """The claim that identifies a Django user. It must be one that users cannot choose."""
    user_field: str | None = None
    """The field of the user model that the claim is compared with; None for USERNAME_FIELD."""

    def __init__(self, **options: Any) -> None:
        attributes: set[str] = set()
        for kind in type(self).__mro__:  # Some have a default, others only an annotation.
            attributes |= {name for name, value in vars(kind).items() if not callable(value)}
            attributes |= inspect.get_annotations(kind).keys()
        attributes = {name for name in attributes if not name.startswith("_")}
        for name, value in options.items():
            if name not in attributes:
                near = similar(name, attributes)
                raise ImproperlyConfigured(
                    f"{type(self).__name__} has no option {name!r}"
                    + (f": did you mean {near!r}?" if near else "")
                )
            if value is not None:
                setattr(self, name, value)
        if self.issuer is not None:
            require_secure(self.issuer, "issuer")
        self._cache = PrincipalCache()

    @abstractmethod
    async def claims(self, token: str, /) -> Claims | None:
        """Return the verified claims; None for a token of another authenticator.

        Raises InvalidToken for a token of this one, and Unavailable if nobody can tell now.
        """

    async def get_user(self, claims: Claims, /) -> Any:
        """Return the Django user of verified claims; None refuses the request with 403.

        By default, the user whose ``user_field`` is equal to ``user_claim``. Return
        ``AnonymousUser()`` for callers without an account. A user who is not active is always
        refused. The claim "email" counts only if "email_verified" is true.
        """
        value = claims.get(self.user_claim)
        if not isinstance(value, str) or not value or "\0" in value:
            return None
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            return None
        model = get_user_model()
        field = self.user_field or model.USERNAME_FIELD
        try:
            # A replica may have a user active who is not any more.
            current = model._default_manager.using(router.db_for_write(model))
            matching = current.filter(**{field: value})
            users = [user async for user in matching[:2]]
        except (ValueError, OverflowError, ValidationError):
            return None  # No value of the field, such as a name where the field is a number.
        # A value that several users have identifies nobody.
        if len(users) != 1:
            return None
        # Databases may compare without case.
        is_equal = str(getattr(users[0], field)) == value
        return users[0] if is_equal else None

    def authorization_servers(self, scope: Scope, /) -> Sequence[str]:
        """Return the issuer."""
        return () if self.issuer is None else (self.issuer,)

    async def authenticate(self, scope: Scope, /) -> Principal | Challenge | None:
        """Return the principal of the token's subject."""
        token = bearer_token(scope)
        if token is None or len(token) > MAX_TOKEN_LENGTH:
            return None
        if token.startswith(PERSONAL_TOKEN_PREFIX):
            return None  # No authorization server issued it, and it must not be sent to one.
        digest = sha256(token.encode()).hexdigest()
        load = partial(self._load, scope, token)
        return await self._cache.find(load, digest, addressed(scope).url(scope))

    async def _load(self, scope: Scope, token: str) -> Loaded | Challenge | None:
        try:
            claims = await self.claims(token)
            if claims is None:
                return None
        except InvalidToken:
            return INVALID_TOKEN
        except Unavailable as error:
            # With 401, clients would begin to log in again.
            return Challenge(
                status=503,
                headers=((b"retry-after", str(error.retry_after).encode()),),
                message="Access tokens cannot be verified now. Try again later",
            )
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_LENGTH:
            return INVALID_TOKEN
        of_token = audiences(claims)
        own = self.audience or ()
        accepted = (own,) if isinstance(own, str) else own
        if not is_for(scope, of_token) and not {*of_token} & {*accepted}:
            return INVALID_TOKEN
        user = await self.get_user(claims)
        # AnonymousUser is not active, and stands for nobody who could be deactivated.
        is_user = user is not None and getattr(user, "is_authenticated", True)
        if user is None or (is_user and not getattr(user, "is_active", True)):
            return NO_ACCOUNT
        principal = Principal(
            scheme=self.name,
            # Subjects are unique only within an issuer. Its URL has no space.
            subject=f"{self.namespace} {subject}",
            user=user,
            scopes=scopes(claims),
            claims=claims,
        )
        return Loaded(principal, self.valid_until(token, claims))

    def valid_until(self, token: str, claims: Claims, /) -> float | None:
        """Return the time, in seconds since the epoch, when the token has to be read again."""
        expires = number(claims.get("exp"))
        return None if expires is None else expires + self.leeway

    @property
    def needs_endpoint_url(self) -> bool:
        """Whether the URL of the endpoint is the only audience of its own that it accepts."""
        return not self.audience

    @property
    def namespace(self) -> str | None:
        """The URL of the issuer: subjects are unique within it."""
        return self.issuer


def require_secure(url: Any, option: str) -> None:
    """Raise ImproperlyConfigured unless ``url`` is an https one, or one of this machine."""
    if not isinstance(url, str) or not is_secure(url) or urlsplit(url).fragment:
        raise ImproperlyConfigured(
            f"The {option} {url!r} must be a URL that begins with https://; http:// is for "
            "development only, with localhost or 127.0.0.1."
        )


def stated_issuer(token: str) -> str | None:
    """Return the issuer that a JWT states, which nobody has verified; None for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    encoded = parts[1]
    padding = "=" * (-len(encoded) % 4)
    try:
        payload = json.loads(base64.urlsafe_b64decode(encoded + padding))
    except (ValueError, RecursionError):
        return None
    issuer = payload.get("iss") if isinstance(payload, dict) else None
    return issuer if isinstance(issuer, str) else None


def audiences(claims: Claims) -> Sequence[str]:
    """Return the audiences of a token: the claim ``aud`` is a string or a list."""
    stated = claims.get("aud")
    listed = stated if isinstance(stated, list) else [stated]
    return [audience for audience in listed if isinstance(audience, str) and audience]


def scopes(claims: Claims) -> frozenset[str]:
    """Return the scopes: ``scope``, or ``scp`` of issuers that name it so; a string or a list."""
    granted = claims.get("scope", claims.get("scp"))
    if isinstance(granted, str):
        return frozenset(granted.split())
    if isinstance(granted, list):
        return frozenset(scope for scope in granted if isinstance(scope, str))
    return frozenset()


def require_access_token(claims: Claims, *, is_typed: bool = False) -> None:
    """Raise InvalidToken for the claims of an ID, refresh or logout token.

    The claims of a token that is bound to a key are invalid, too: its sender would have to prove
    that they have the key (RFC 9449, section 7.1). With ``is_typed``, the header of the token says
    that it is an access token, so that its claims need not show it.
    """
    if claims.get("typ", "Bearer") not in ACCESS_TOKEN_KINDS:
        raise InvalidToken
    if claims.get("token_use", "access") != "access":
        raise InvalidToken
    if not is_typed and not NOT_OF_ACCESS_TOKENS.isdisjoint(claims):
        raise InvalidToken
    is_bound_to_key = "cnf" in claims
    if is_bound_to_key:
        raise InvalidToken


ACCESS_TOKEN_KINDS = ("Bearer", "bearer", "JWT", "at+jwt")
"""Keycloak states the kind of a token in a claim."""
NOT_OF_ACCESS_TOKENS = frozenset({"at_hash", "c_hash", "events", "nonce", "s_hash"})
"""Claims of ID tokens (OpenID Connect Core, section 3.3.2.11) and of events (RFC 8417)."""


def number(value: Any) -> float | None:
    """Return a NumericDate of a claim as seconds, or None if it is not a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number and isfinite(value) else None
    except OverflowError:
        return None
