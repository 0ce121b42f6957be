"""A server whose callers have access tokens, for tests of what they are answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.auth.base import INVALID_TOKEN, BaseAuthentication, Challenge, Principal

ISSUER = "https://login.example.org"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Tokens(BaseAuthentication):
    """Accepts tokens which consist of scopes, such as "read+write", and none that is revoked."""

    scheme = "Bearer"

    def __init__(self, *issuers: str) -> None:
        self.issuers = issuers
        self.revoked: set[str] = set()

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        if not header:
            return None
        token = header.removeprefix("Bearer ")
        if token in self.revoked or token == "expired":
            return INVALID_TOKEN
        return Principal(scheme="token", subject="ann", scopes=frozenset(token.split("+")))

    def authorization_servers(self, scope: Mapping[str, Any], /) -> Sequence[str]:
        return self.issuers


def desk(*, public: bool = True, issuer: str | None = ISSUER, **options: Any) -> Server:
    """A server with a tool for everybody, one that needs a scope and one that needs two."""
    tokens = Tokens(*([] if issuer is None else [issuer]))
    authenticators: list[Any] = [tokens, AnonymousAuthentication()] if public else [tokens]
    server = Server("desk", **{"authenticators": authenticators, **options})
    server.tool(name="hello")(lambda: "hello")
    server.tool(name="look", scopes=["read"])(lambda: "seen")
    server.tool(name="close", scopes=["read", "write"])(lambda: "closed")
    server.resource("desk://news", name="news", scopes=["read"])(lambda: "news")
    return server


def tokens_of(server: Server) -> Tokens:
    """The authenticator of a server which ``desk`` returned."""
    assert server.authenticators is not None
    found = server.authenticators[0]
    assert isinstance(found, Tokens)
    return found


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
