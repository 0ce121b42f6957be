"""Authentication classes: one module for each scheme, and base classes for further ones."""

from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    PERSONAL_TOKEN_PREFIX,
    Authenticator,
    BaseAuthentication,
    Challenge,
    Principal,
    Scope,
    bearer_token,
    header,
)

__all__ = [
    "INVALID_TOKEN",
    "PERSONAL_TOKEN_PREFIX",
    "Authenticator",
    "BaseAuthentication",
    "Challenge",
    "Principal",
    "Scope",
    "bearer_token",
    "header",
]
