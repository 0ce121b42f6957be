"""The interface of authenticators: Principal, Authenticator and Challenge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, unquote

from django_mcp.core.auth.selection import Selection

Scope = Mapping[str, Any]
"""The ASGI scope of a request."""
HeaderPairs = Sequence[tuple[bytes, bytes]]

PERSONAL_TOKEN_PREFIX = "djmcp_"
"""How personal access tokens begin. They are for sites with this package and for nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    ``scheme`` and ``subject`` together identify the caller; sessions and signed state are bound
    to them. ``user`` is the Django user; their primary key is the subject unless one is given.
    ``scopes`` are the scopes of the access token.
    """

    scheme: str
    subject: str = ""
    user: Any = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    endpoint: str = ""
    """The values that the path of the server captured; callers of two endpoints are two callers."""
    tenant: str = ""
    """The tenant of the request, which the function named by TENANT determines. Callers of two
    tenants are two callers, even where their primary keys are equal."""
    selection: Selection | None = None
    """The connection's selection of the components that the caller may use; None: all of them."""

    def __post_init__(self) -> None:
        """Two users must never be one principal; raises ValueError for a user without a key."""
        user = self.user
        if self.subject or user is None or not getattr(user, "is_authenticated", True):
            return
        if getattr(user, "pk", None) is None:
            raise ValueError(f"A Principal with the user {user!r} needs a subject")
        object.__setattr__(self, "subject", str(user.pk))

    @property
    def key(self) -> str:
        """The identity that sessions, cursors and signed state are bound to."""
        return f"{self.identity} {self.endpoint}" if self.endpoint else self.identity

    @property
    def identity(self) -> str:
        """Who the caller is at every endpoint of their tenant: limits count them by it."""
        identity = f"{self.scheme}:{self.subject}"
        return f"{beginning_of(self.tenant)}{identity}" if self.tenant else identity

    @property
    def place(self) -> str:
        """The tenant and the endpoint where an anonymous caller may log in."""
        return f"{beginning_of(self.tenant)}{self.endpoint}" if self.tenant else self.endpoint

    @property
    def program(self) -> str | None:
        """The program that has the access token, as its issuer names it; None if it does not."""
        return self.claims.get("client_id") or self.claims.get("azp")

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller has no subject, no logged-in user and no scopes of an access token."""
        is_known = self.subject or self.scopes or getattr(self.user, "is_authenticated", False)
        return not is_known


END_OF_TENANT = "|"


def beginning_of(tenant: str) -> str:
    """Return the beginning of the keys of a tenant's principals, which only END_OF_TENANT ends."""
    return f"{quote(tenant, safe='')}{END_OF_TENANT}"


OF_ANY_TENANT = r"^[^:|]*[|]"
"""A regular expression for keys that have a tenant."""


def tenant_of_key(key: str) -> str:
    """Return the tenant of the principal that has this key; empty without one."""
    beginning, end, _ = key.partition(END_OF_TENANT)
    # A scheme ends with a colon, which is escaped in a tenant.
    return unquote(beginning) if end and ":" not in beginning else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A refusal of the credentials of a request.

    ``error`` and ``scopes`` are defined in RFC 6750, section 3: "invalid_token" with status 401,
    "insufficient_scope" with 403. The server's authenticators determine the ``WWW-Authenticate``
    headers; ``headers`` are sent in addition.
    """

    status: int = 401
    headers: tuple[tuple[bytes, bytes], ...] = ()
    message: str = "Authentication required"
    error: str = ""
    scopes: frozenset[str] = frozenset()
    is_final: bool = True
    """Whether the credentials are recognisably for this authenticator. If not, the next
    authenticators are tried, and this is the answer where none of them accepts the request."""


class Authenticator(Protocol):
    """One authentication scheme, which gives one of three answers.

    * None, *not mine*: the request has no credentials of this scheme. The next one is tried.
    * A Challenge, *refused*: it has invalid ones. No other authenticator is tried, unless they may
      be another one's, such as a bearer token without a mark: see ``Challenge.is_final``.
    * A Principal, *this caller*: it has valid ones.
    """

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        """Authenticate the request of this ASGI ``scope``."""


class BaseAuthentication:
    """A base for authenticators which describe their scheme to clients.

    An authenticator need not derive from it: the attributes are optional.
    """

    scheme: str | None = None
    """The name of the scheme in ``WWW-Authenticate``, such as "Bearer"; None for no challenge."""

    accepts_all = False
    """Whether it accepts callers without credentials."""

    authenticates_site_users = False
    """Whether its callers are people who can log in to this site. They are shown their tools at the
    URL of the server."""

    sends_tokens = False
    """Whether it sends tokens that it does not know to another service."""

    def authorization_servers(self, scope: Scope, /) -> Sequence[str]:
        """Return the issuers of accepted access tokens, for the resource's metadata."""
        return ()

    async def reauthenticate(self, principal: Principal, /) -> Principal | Challenge | None:
        """Authenticate an accepted caller again, without a request: for open streams and tasks.

        It returns the principal with its present user and scopes, a Challenge if access was
        revoked, and None for a caller of another authenticator, or if it cannot ask.
        """
        return None


INVALID_TOKEN = Challenge(error="invalid_token", message="The access token is not valid here")


TENANT_KEY = "django_mcp.tenant"
"""The key of the tenant in the ASGI scope of a request, where the site has tenants."""
TOKEN_KEY = "django_mcp.bearer_token"
"""The key of the token in the ASGI scope of a request that is being authenticated."""


def bearer_token(scope: Scope) -> str | None:
    """Return the token of the ``Authorization: Bearer`` header, or None.

    Tokens in the query are never read (RFC 6750, section 2.3; AUTH-RS-20).
    """
    if TOKEN_KEY in scope:
        token: str | None = scope[TOKEN_KEY]
        return token
    text = header(scope, b"authorization")
    if text is None or text[:7].lower() != "bearer ":
        return None
    return text[7:].strip() or None


def header(scope: Scope, name: bytes) -> str | None:
    """Return the trimmed value of a header, or None; ``name`` is in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1").strip(" \t")
    return None
