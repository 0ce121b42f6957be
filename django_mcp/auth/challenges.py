"""Challenges: what the response to a rejected request says of how to authenticate.

``Authentication`` decides that a request is rejected, and with which ``Challenge``. Here it becomes
the headers ``WWW-Authenticate``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from django_mcp.auth.resource import Resource
from django_mcp.core.auth.base import Challenge, Scope

BEARER = "Bearer"
UNQUOTABLE = re.compile(r"[^ !#-\[\]-~]")
"""Characters that a parameter of a challenge may not contain (RFC 6750, section 3)."""
Header = tuple[bytes, bytes]
IssuersOf = Callable[[Scope], Sequence[str]]


class AuthenticationFailed(Exception):
    """No authenticator accepted the request; ``challenge`` says why."""

    def __init__(self, challenge: Challenge) -> None:
        super().__init__(challenge.message)
        self.challenge = challenge


def headers(
    challenge: Challenge, schemes: Sequence[str], parameters: Iterable[tuple[str, str]]
) -> tuple[Header, ...]:
    """Return the headers of a rejection: one ``WWW-Authenticate`` for each scheme.

    ``parameters`` are those of the scheme Bearer; no other scheme has any.
    """
    if challenge.status != 401 and not challenge.error:
        return challenge.headers
    values: list[bytes] = []
    for scheme in schemes:
        if scheme == BEARER:
            members = []
            for name, value in parameters:
                text = str(value).replace('"', "'").replace("\n", " ")
                members.append(f'{name}="{UNQUOTABLE.sub("?", text)}"')
            values.append(f"{scheme} {', '.join(members)}".strip().encode())
        elif challenge.status == 401:  # No other scheme has scopes.
            values.append(scheme.encode("latin-1", "replace"))
    return (*((b"www-authenticate", value) for value in values), *challenge.headers)


def bearer_parameters(
    challenge: Challenge, resource: Resource, scope: Scope, issuers: IssuersOf
) -> Iterable[tuple[str, str]]:
    """The parameters of a Bearer challenge (RFC 6750, section 3; RFC 9728, section 5.1).

    Clients find the authorization servers of a resource, if it has ``issuers``, in its metadata.
    The authenticators are asked for them only by a challenge that says so.
    """
    if issuers(scope):
        yield "resource_metadata", resource.metadata_url(scope)
    if scopes := sorted({*resource.scopes, *challenge.scopes}):
        yield "scope", " ".join(scopes)
    if challenge.error:
        yield "error", challenge.error
        yield "error_description", challenge.message
