"""Grants without a consent page: of clients that are machines, and of a company for its users.

| grant | who acts | allowed by |
|---|---|---|
| ``client_credentials`` | the user of a `MachineClient` | the administrator who registered it |
| ``jwt-bearer`` with an ID-JAG | the user whom a `TrustedIssuer` names | the company |

Neither has refresh tokens. ``ResourceValidator`` calls the functions here.
"""

from __future__ import annotations

import binascii
import json
import logging
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import Error, router, transaction
from django.http import HttpRequest
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model
from oauthlib.oauth2.rfc6749.errors import (
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
)
from oauthlib.oauth2.rfc6749.grant_types.base import GrantTypeBase

from django_mcp.auth.issuers.verification import KEY_TYPES
from django_mcp.auth.resource import canonical
from django_mcp.contrib.oauth import assertions, redemptions, resources
from django_mcp.contrib.oauth.assertions import IdentityJWT, InvalidAssertion
from django_mcp.contrib.oauth.models import (
    ExternalIdentity,
    MachineClient,
    ManagedAccess,
    TrustedIssuer,
    current,
    identity_digest,
)

logger = logging.getLogger("django_mcp")

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG_PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
GRANTS = (CLIENT_CREDENTIALS, JWT_BEARER)


def metadata() -> dict[str, list[str]]:
    """Return further members of the authorization server's metadata (RFC 8414).

    A site that has neither machine clients nor trusted issuers lists nothing of them.
    """
    machines = current(MachineClient).filter(is_active=True)
    members: dict[str, list[str]] = {"grant_types_supported": []}
    if machines.exists():
        members["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
        for endpoint in ("token", "revocation"):
            members[f"{endpoint}_endpoint_auth_signing_alg_values_supported"] = [*KEY_TYPES]
    if machines.exclude(user=None).exists():
        members["grant_types_supported"].append(CLIENT_CREDENTIALS)
    if current(TrustedIssuer).filter(is_active=True).exists():
        members["grant_types_supported"].append(JWT_BEARER)
        members["authorization_grant_profiles_supported"] = [ID_JAG_PROFILE]
    return members


# Machine clients.


def machine_of(client: Any) -> MachineClient | None:
    """Return the machine that an application of the toolkit is, or None."""
    rows = current(MachineClient).filter(application=client)
    return rows.select_related("application", "user").first()


def is_authentic(request: Any, *, by_secret: bool) -> bool:
    """Whether a client has authenticated; ``by_secret``: whether its secret was right.

    A client with keys must use them, and one that the administrator turned off cannot.
    """
    presented = assertions.of(request.headers).client
    if isinstance(presented, assertions.ClientJWT):
        try:
            presented.use()
        except InvalidAssertion as error:
            return _refused(error)
        request.client = presented.machine.application
        return True
    if presented is not None:
        return _refused(presented)
    machine = None if request.client is None else machine_of(request.client)
    if machine is None:
        return by_secret
    if machine.has_keys or not machine.is_active:
        return False
    return by_secret


def has_previous_secret(request: Any) -> bool:
    """Whether a request has the secret that was replaced a short time ago; it sets the client."""
    # RFC 6749, section 2.3.1.
    in_header = basic_credentials(request.headers)
    in_body = (request.client_id, getattr(request, "client_secret", None))
    client_id, secret = in_body if in_header is None else in_header
    if not client_id or not secret:
        return False
    rows = current(MachineClient).filter(application__client_id=client_id)
    machine = rows.exclude(previous_secret="").select_related("application").first()
    if machine is None or machine.application.client_id != client_id:
        return False
    request.client = machine.application
    return bool(machine.is_previous_secret(secret))


def stated_clients(request: HttpRequest) -> set[str]:
    """Return the client ids that a request states, unverified: each of them may be tried."""
    in_header, _secret = basic_credentials(request.META) or (None, None)
    clients = {in_header or "", request.POST.get("client_id", "")}
    with suppress(InvalidAssertion):
        clients.add(assertions.stated(request.POST.get("client_assertion", ""), "sub"))
    return clients - {""}


def basic_credentials(headers: Mapping[str, Any]) -> tuple[str | None, str | None] | None:
    """Return the id and the secret of HTTP Basic, None for invalid ones; or None without it."""
    scheme, _space, encoded = headers.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme != "Basic":
        return None
    try:
        client_id, _colon, secret = b64decode(encoded).decode().partition(":")
    except (binascii.Error, ValueError):
        return None, None
    client_id = unquote_plus(client_id)
    secret = unquote_plus(secret)
    return (client_id, secret) if "\0" not in client_id + secret else (None, None)


def _refused(error: InvalidAssertion) -> bool:
    logger.info("A client was not authenticated: %s", error)
    return False


def may_use_client_credentials(client: Any) -> bool | None:
    """Whether a client may use this grant; None for one that is no machine: the toolkit decides.

    A client that registered by itself never may.
    """
    if client.registration_source != get_application_model().RegistrationSource.MANUAL:
        return False
    machine = machine_of(client)
    if machine is None:
        return None
    is_confidential = client.client_type == client.CLIENT_CONFIDENTIAL
    return bool(is_confidential and machine.is_active and is_active(machine.user))


def is_active(user: Any) -> bool:
    return user is not None and bool(user.is_active)


def assign(token: Mapping[str, Any], user: Any) -> None:
    """Set the user of a token that was just stored: the toolkit stores it without one."""
    digest = redemptions.digest_of(token["access_token"])
    current(get_access_token_model()).filter(token_checksum=digest).update(user=user)


# Access that a company gives to clients for its users.


class IdentityAssertionGrant(GrantTypeBase):
    """Tokens for the user whom an assertion of a trusted issuer names (RFC 7523, ID-JAG)."""

    def create_token_response(
        self, request: Any, token_handler: Any
    ) -> tuple[dict[str, str], str, int]:
        self.validate_client_authentication(request)
        self.validate_grant_type(request)
        presented = assertions.of(request.headers).identity
        if presented is None:
            raise InvalidRequestError("The parameter assertion is missing", request=request)
        if isinstance(presented, InvalidAssertion):
            logger.info("An assertion was refused: %s", presented)
            raise InvalidGrantError(str(presented), request=request)
        accept(presented, request, self.request_validator)
        access, _created = current(ManagedAccess).get_or_create(
            user=request.user,
            application=request.client,
            resource=canonical(request.resource[0]),
            defaults={"trusted_issuer": presented.trusted},
        )
        # An administrator who ends the access meanwhile waits here, and then sees the token.
        with transaction.atomic(using=router.db_for_write(ManagedAccess)):
            if not _record(access, presented, request):
                raise InvalidGrantError("An administrator has ended this access", request=request)
            token = token_handler.create_token(request, refresh_token=False)
            self.request_validator.save_token(token, request)
        return {}, json.dumps(token), 200


def may_present_assertions(client: Any) -> bool:
    """Whether a client may present assertions of issuers: not one that registered by itself.

    One with a metadata document is known to the issuer by the URL of the document.
    """
    if client.registration_source == get_application_model().RegistrationSource.DCR:
        return False
    machine = machine_of(client)
    return machine is None or machine.is_active


def accept(identity: IdentityJWT, request: Any, validator: Any) -> None:
    """Set user, scopes and resource of a request; raises OAuth2Error for a refusal."""
    claims = identity.claims
    if claims["client_id"] != request.client.client_id:
        raise InvalidGrantError("The assertion is for another client", request=request)
    request.resource = [_resource(identity, request)]
    request.scopes = _scopes(identity, request)
    if not validator.validate_scopes(request.client_id, request.scopes, request.client, request):
        raise InvalidScopeError(request=request)
    try:
        identity.use()
    except InvalidAssertion as error:
        raise InvalidGrantError(str(error), request=request) from None
    user = validator.user_for_assertion(claims, identity.trusted)
    if not is_active(user):
        logger.info("A subject of trusted issuer #%s is no active user", identity.trusted.pk)
        raise InvalidGrantError("The subject has no active account here", request=request)
    request.user = user


def _resource(identity: IdentityJWT, request: Any) -> str:
    """Return the resource that the assertion names. The parameter may only repeat it."""
    base = resources.base_of(request)
    named = identity.claims.get("resource", resources.only(base))
    if not isinstance(named, str) or not resources.is_known(base, named):
        raise InvalidGrantError("The assertion names no MCP server of this site", request=request)
    requested = resources.listed(getattr(request, "resource", None))
    if any(canonical(each) != canonical(named) for each in requested):
        raise resources.InvalidTarget("The assertion is for another resource", request=request)
    return named


def _scopes(identity: IdentityJWT, request: Any) -> list[str]:
    """Return the scopes of the assertion that the administrator allows the issuer.

    The assertion must not have scopes that the request does not ask for.
    """
    requested = set(request.scope.split() if request.scope else identity.scopes)
    if not requested.issuperset(identity.scopes):
        raise InvalidGrantError(
            "The assertion has scopes that the request does not ask for", request=request
        )
    allowed = [scope for scope in identity.scopes if scope in identity.trusted.scopes]
    if not allowed:
        raise InvalidScopeError(
            "The assertion grants no scope that is allowed here", request=request
        )
    return [*dict.fromkeys(allowed)]


def _record(access: ManagedAccess, identity: IdentityJWT, request: Any) -> bool:
    """Store what a company allowed, and lock it; return False if an administrator has ended it."""
    updated = (
        current(ManagedAccess)
        .filter(pk=access.pk, ended_at=None)
        .update(
            trusted_issuer=identity.trusted,
            scope=" ".join(sorted({*access.scopes, *request.scopes})),
            updated=timezone.now(),
        )
    )
    return updated == 1


def user_of(claims: Mapping[str, Any], trusted: TrustedIssuer) -> Any:
    """Return the user for the subject of an assertion, or None.

    A subject is linked once: a later change of its address or name has no effect.
    """
    tenant = str(claims[trusted.tenant_claim]) if trusted.tenant_claim else ""
    digest = identity_digest(trusted.issuer, tenant, claims["sub"])
    linked = current(ExternalIdentity).filter(digest=digest).select_related("user")
    if identity := linked.first():
        return identity.user
    email = trusted.vouched_email(claims)
    try:
        with transaction.atomic(using=router.db_for_write(ExternalIdentity)):
            user = _user_with(email, trusted) if trusted.link_by_email and email else None
            if user is None and trusted.create_users:
                user = _new_user(email, trusted, digest)
            if user is not None:
                current(ExternalIdentity).create(
                    digest=digest,
                    trusted_issuer=trusted,
                    tenant=tenant,
                    subject=claims["sub"],
                    user=user,
                )
    except (Error, ValidationError) as error:
        # Another request may just have linked it.
        logger.warning("A subject was not linked to a user: %s", type(error).__name__)
        again = linked.first()
        return None if again is None else again.user
    return user


def _user_with(email: str, trusted: TrustedIssuer) -> Any:
    """Return the only user with an address, unless another subject of the issuer is this user.

    A company may give the address of an employee who left to another one.
    """
    model = get_user_model()
    field = model.get_email_field_name()
    # Some databases also find addresses with other letters: without accents, or a dotless i.
    users = [
        user
        for user in current(model).filter(**{f"{field}__iexact": email})
        if _cases(getattr(user, field)) == _cases(email)
    ]
    if len(users) != 1:
        return None
    is_taken = current(ExternalIdentity).filter(user=users[0], trusted_issuer=trusted).exists()
    return None if is_taken else users[0]


def _cases(address: str) -> tuple[str, str]:
    # A dotless i and a long s equal other letters in upper case only, the sign of kelvin in lower.
    return address.lower(), address.upper()


def _new_user(email: str, trusted: TrustedIssuer, digest: str) -> Any:
    """Create a user without a password; raises ValidationError if the site requires more."""
    model = get_user_model()
    email_fields = {model.get_email_field_name(): email} if email else {}
    name_fields = {model.USERNAME_FIELD: email}
    if not email or current(model).filter(**name_fields).exists():
        name_fields = {model.USERNAME_FIELD: f"{urlsplit(trusted.issuer).hostname}.{digest[:16]}"}
    user = model(**{**email_fields, **name_fields})
    user.set_unusable_password()
    user.full_clean(exclude=["password"])
    user.save(using=router.db_for_write(model))
    return user
