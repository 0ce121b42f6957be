"""Keys and JWTs of machine clients and of identity providers, made by jwcrypto."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.http import HttpResponse
from jwcrypto import jwk, jws

from tests.contrib.oauth.flow import ENDPOINT, SITE, post

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG = "oauth-id-jag+jwt"


@cache
def key(name: str, curve: str = "P-256") -> Any:
    return jwk.JWK.generate(kty="EC", crv=curve, kid=name)


@cache
def rsa_key(name: str) -> Any:
    return jwk.JWK.generate(kty="RSA", size=2048, kid=name)


def public(*keys: Any) -> dict[str, Any]:
    return {"keys": [each.export_public(as_dict=True) for each in keys]}


def sign(claims: Mapping[str, Any], signer: Any, algorithm: str = "ES256", **header: Any) -> str:
    """Return a JWT; what is None in claims or header is left out."""
    named = {"alg": algorithm, "typ": "JWT", "kid": signer.get("kid"), **header}
    token = jws.JWS(json.dumps({k: v for k, v in claims.items() if v is not None}))
    token.allowed_algs = [algorithm]
    protected = {name: value for name, value in named.items() if value is not None}
    token.add_signature(signer, None, json.dumps(protected))
    return str(token.serialize(compact=True))


def client_claims(client_id: str, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {"iss": client_id, "sub": client_id, "aud": SITE, "exp": now + 60, "iat": now}
    return {**usual, "jti": str(uuid4()), **changes}


def identity_claims(issuer: str, client_id: str, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {"iss": issuer, "sub": "U1", "aud": SITE, "client_id": client_id, "scope": "mcp"}
    dates = {"exp": now + 300, "iat": now, "jti": str(uuid4()), "resource": ENDPOINT}
    return {**usual, **dates, **changes}


def machine(
    user: User | None, *, secret: str = "s3cret", name: str = "Robot", **fields: Any
) -> Any:
    """Store a machine client, as the admin does."""
    from oauth2_provider.models import Application

    from django_mcp.contrib.oauth.models import MachineClient

    application = Application.objects.create(
        client_id=fields.pop("client_id", name.lower()),
        name=name,
        client_type="confidential",
        authorization_grant_type="client-credentials",
        client_secret=secret,
    )
    return MachineClient.objects.create(
        application=application, user=user, **{"scope": "mcp", **fields}
    )


def request(assertion: str | None = None, **fields: str | None) -> HttpResponse:
    """Ask for a token by client credentials, with an assertion of the client or a Basic header."""
    basic = fields.pop("basic", None)
    usual: dict[str, str | None] = {"grant_type": "client_credentials", "resource": ENDPOINT}
    if assertion is not None:
        usual |= {"client_assertion": assertion, "client_assertion_type": ASSERTION_TYPE}
    sent = {name: value for name, value in {**usual, **fields}.items() if value is not None}
    extra = {} if basic is None else {"HTTP_AUTHORIZATION": f"Basic {basic}"}
    return post("/o/token", sent, **extra)
