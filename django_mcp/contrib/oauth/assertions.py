"""JWTs that clients present to the token endpoint: to authenticate, or for a user (RFC 7523).

| parameter | signed by | for | result |
|---|---|---|---|
| ``client_assertion`` | the client | its authentication (``private_key_jwt``) | `ClientJWT` |
| ``assertion`` | a trusted issuer | a user of the site (ID-JAG) | `IdentityJWT` |

``read`` verifies both before a transaction is open, since keys may have to be loaded. The validator
reads the results with ``of``, and marks each assertion as used.

A client with a metadata document does not have to authenticate, and its ``client_assertion`` is
ignored: it is answered as without one. ChatGPT sends one where the metadata of the site lists
``private_key_jwt``, which it does for machines.
"""

from __future__ import annotations

import json
import logging
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from oauth2_provider.models import get_application_model

from django_mcp import conf
from django_mcp.auth.bearer import audiences, number
from django_mcp.auth.issuers.fetching import Unavailable, fetch_json
from django_mcp.auth.issuers.key_set import KeySet
from django_mcp.auth.issuers.verification import (
    Key,
    Rules,
    VerifiedJWT,
    load_keys,
    read_keys,
    verify,
    verify_by_key_set,
)
from django_mcp.auth.oauth_toolkit import issuer
from django_mcp.contrib.oauth import resources
from django_mcp.contrib.oauth.models import MachineClient, TrustedIssuer, UsedAssertion, current

logger = logging.getLogger("django_mcp")

KEY = "django_mcp.assertions"
"""The key of the results in ``request.META``; no client can send it."""
CLIENT_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CLIENT_TYPES = frozenset({"jwt", "client-authentication+jwt"})
ID_JAG_TYPES = frozenset({"oauth-id-jag+jwt"})
PARAMETERS = ("assertion", "client_assertion")
"""``read`` removes them from the request."""

MAX_LENGTH = 16_384
"""Characters of a JWT."""
MAX_NAME = 255
"""Characters of a subject, a ``jti`` or a tenant."""
LEEWAY = 30.0
"""Seconds that the clocks of this site and of the signer may differ by."""
MAX_CLIENT_LIFETIME = 10 * 60.0
"""Seconds from now until a client's assertion expires, at most."""
MAX_LIFETIME = 30 * 60.0
"""Seconds between the dates of an issuer's assertion, at most."""
MAX_KEY_SETS = 256
"""Key sets that are kept in a process."""


class InvalidAssertion(Exception):
    """An assertion is not valid. The message is for the client, and contains nothing of it."""


@dataclass(frozen=True, slots=True)
class ClientJWT:
    """An assertion of a client, with a valid signature and valid claims."""

    machine: MachineClient
    claims: Mapping[str, Any] = field(repr=False)

    def use(self) -> None:
        """Mark it as used; raises InvalidAssertion for one that was used before."""
        _use("client", self.machine.application.client_id, claims=self.claims)


@dataclass(frozen=True, slots=True)
class IdentityJWT:
    """An assertion of an issuer, with a valid signature and valid claims."""

    trusted: TrustedIssuer
    claims: Mapping[str, Any] = field(repr=False)

    @property
    def scopes(self) -> list[str]:
        scope = self.claims.get("scope")
        return scope.split() if isinstance(scope, str) else []

    def use(self) -> None:
        """Mark it as used; raises InvalidAssertion for one that was used before."""
        _use("identity", self.trusted.issuer, self.claims["sub"], claims=self.claims)


@dataclass(frozen=True, slots=True)
class Assertions:
    """The assertion of a request: valid, refused with an InvalidAssertion, or None without one."""

    client: ClientJWT | InvalidAssertion | None = None
    identity: IdentityJWT | InvalidAssertion | None = None


def of(headers: Mapping[str, Any]) -> Assertions:
    """Return what ``read`` has found, of the META of a request or of oauthlib's headers."""
    assertions = headers.get(KEY)
    return assertions if isinstance(assertions, Assertions) else Assertions()


def read(request: HttpRequest, token_endpoint: str) -> None:
    """Verify the assertions of a request, and remove them from it.

    So nothing that handles the request afterwards can log them. Assertions in a query string stay
    there: oauthlib refuses the request.
    """
    if not any(name in request.POST for name in PARAMETERS):
        return
    form = request.POST.copy()
    of_issuer, of_client = (form.pop(name, []) for name in PARAMETERS)
    request.POST = form  # type: ignore[assignment]
    request.META[KEY] = Assertions(
        client=_outcome(of_client, _client, request, token_endpoint),
        identity=_outcome(of_issuer, _identity, resources.base_url(request)),
    )


def _outcome(tokens: Sequence[str], verified: Any, *args: Any) -> Any:
    """Return what ``verified`` finds, or why a parameter is refused; None where it is missing."""
    if not any(tokens):
        return None
    if len(tokens) > 1:
        return InvalidAssertion("A parameter is repeated")
    try:
        return verified(tokens[0], *args)
    except InvalidAssertion as error:
        return error
    except Unavailable as error:
        logger.warning("An assertion cannot be verified: %s", error)
        return InvalidAssertion("The keys for the assertion cannot be loaded now")


def own_issuer(base: str) -> str:
    """Return the issuer of this site; raises InvalidAssertion where the client could choose it."""
    if conf.get().base_url is None and "*" in settings.ALLOWED_HOSTS:
        raise InvalidAssertion("The site has to set BASE_URL before it accepts assertions")
    return issuer(base)


def _client(token: str, request: HttpRequest, token_endpoint: str) -> ClientJWT | None:
    """Return the valid assertion of a machine; None for the one of a client with a document."""
    if request.POST.get("client_assertion_type") != CLIENT_ASSERTION_TYPE:
        raise InvalidAssertion(f"The client_assertion_type must be {CLIENT_ASSERTION_TYPE}")
    if "HTTP_AUTHORIZATION" in request.META or "client_secret" in request.POST:
        raise InvalidAssertion("Use one method of authentication")
    client_id = stated(token, "sub")
    if request.POST.get("client_id", client_id) != client_id:
        raise InvalidAssertion("The assertion is of another client")
    if _has_document(client_id):
        form: Any = request.POST
        form.setdefault("client_id", client_id)
        return None
    own = own_issuer(resources.base_url(request))
    rows = current(MachineClient).filter(application__client_id=client_id, is_active=True)
    machine = rows.select_related("application", "user").first()
    # Some databases compare without case.
    if machine is None or machine.application.client_id != client_id or not machine.has_keys:
        raise InvalidAssertion("The assertion is not of a client with keys")
    rules = Rules(
        issuer=client_id,
        types=CLIENT_TYPES,
        required=("exp", "aud", "iss", "sub", "jti"),
        leeway=LEEWAY,
    )
    if machine.jwks:
        verified = verify(token, machine.own_keys(), rules)
    else:
        keys = _keys_at(machine.jwks_uri)
        verified = async_to_sync(verify_by_key_set)(token, keys, rules)
    claims = _checked(verified, {*_spellings(own), token_endpoint})
    if claims["exp"] > time.time() + MAX_CLIENT_LIFETIME + LEEWAY:
        raise InvalidAssertion(f"The assertion must expire within {MAX_CLIENT_LIFETIME:.0f} s")
    return ClientJWT(machine, claims)


def _has_document(client_id: str) -> bool:
    clients = current(get_application_model()).filter(client_id=client_id)
    stored = clients.filter(registration_source="cimd").first()
    return stored is not None and stored.client_id == client_id


def _identity(token: str, base: str) -> IdentityJWT:
    own = own_issuer(base)
    issuer_name = stated(token, "iss")
    trusted = current(TrustedIssuer).filter(issuer=issuer_name, is_active=True).first()
    if trusted is None or trusted.issuer != issuer_name:
        raise InvalidAssertion("The issuer of the assertion is not trusted")
    rules = Rules(
        issuer=issuer_name,
        types=ID_JAG_TYPES,
        algorithms=trusted.accepted_algorithms,
        required=("exp", "iat", "aud", "iss", "sub", "jti", "client_id"),
        leeway=LEEWAY,
    )
    keys = _keys_of(trusted.issuer, trusted.jwks_uri)
    verified = async_to_sync(verify_by_key_set)(token, keys, rules)
    claims = _checked(verified, {*_spellings(own)})
    issued_at = number(claims["iat"])
    if issued_at is None or claims["exp"] - issued_at > MAX_LIFETIME:
        raise InvalidAssertion(f"The assertion must expire within {MAX_LIFETIME:.0f} s")
    if not _is_name(claims["client_id"]):
        raise InvalidAssertion("The client_id of the assertion is not a string")
    if trusted.tenant_claim:
        tenant = claims.get(trusted.tenant_claim)
        if not _is_name(tenant) or tenant not in trusted.tenants.split():
            raise InvalidAssertion("The tenant of the assertion is not trusted")
    return IdentityJWT(trusted, claims)


def _checked(verified: VerifiedJWT | None, accepted: set[str]) -> Mapping[str, Any]:
    """Return the claims that both kinds have in common; raises InvalidAssertion."""
    if verified is None:
        raise InvalidAssertion("The assertion, its signature or its dates are not valid")
    claims = verified.claims
    stated_audiences = audiences(claims)
    # Another server that it is for as well could present it here.
    if not stated_audiences or not accepted.issuperset(stated_audiences):
        raise InvalidAssertion("The audience of the assertion is not this authorization server")
    if not (_is_name(claims["sub"]) and _is_name(claims["jti"]) and number(claims["exp"])):
        raise InvalidAssertion("A claim of the assertion has the wrong type")
    return claims


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and is_text(value)


def is_text(value: str) -> bool:
    """Whether all databases can search for it: not for a NUL, or for half of a surrogate pair."""
    return "\0" not in value and not any("\ud800" <= each <= "\udfff" for each in value)


def _spellings(own: str) -> Sequence[str]:
    """The issuer, and with a slash if it has no path, as libraries for URLs write it."""
    return [own] if urlsplit(own).path else [own, f"{own}/"]


def stated(token: str, claim: str) -> str:
    """Return an unverified claim of a JWT; raises InvalidAssertion."""
    parts = token.split(".") if len(token) <= MAX_LENGTH else []
    try:
        payload = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        value = payload[claim]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        value = None
    if not _is_name(value):
        raise InvalidAssertion("The assertion is not a JWT, or a claim is missing")
    return str(value)


def _use(*identity: str, claims: Mapping[str, Any]) -> None:
    expires = timezone.now() + timedelta(seconds=claims["exp"] + LEEWAY - time.time())
    if not UsedAssertion.use(*identity, claims["jti"], expires=expires):
        raise InvalidAssertion("The assertion was used before")


def prune() -> int:
    """Forget the assertions that have expired; return their number."""
    deleted, _ = current(UsedAssertion).filter(expires__lt=timezone.now()).delete()
    return deleted


@lru_cache(maxsize=MAX_KEY_SETS)
def _keys_at(url: str) -> KeySet[Key]:
    def load() -> Sequence[Key]:
        return read_keys(fetch_json(url), url)

    return KeySet(load)


@lru_cache(maxsize=MAX_KEY_SETS)
def _keys_of(name: str, url: str) -> KeySet[Key]:
    return KeySet(partial(load_keys, name, url or None))
