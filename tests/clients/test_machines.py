"""The official Python SDK gets tokens without a person: client credentials, and ID-JAG."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.auth.issuer import Issuer, running_issuer
from tests.clients import environments
from tests.clients.conftest import Command
from tests.clients.oauth.flow import structured
from tests.clients.real_client import real_client
from tests.contrib.oauth import signer
from tests.running_site import RunningSite, running_site

ROWS = """
from django.contrib.auth.models import User
from django_mcp.contrib.oauth.models import *
from oauth2_provider.models import Application
agent = User.objects.get(username="agent")
for client_id, jwks in (("secret", None), ("key", {jwks}), ("identity", None)):
    application = Application.objects.create(
        client_id=client_id, client_type="confidential", client_secret="s3cret",
        authorization_grant_type="client-credentials",
    )
    MachineClient.objects.create(
        application=application, jwks=jwks, scope="helpdesk helpdesk:write",
        user=None if client_id == "identity" else agent,
    )
trusted = TrustedIssuer.objects.create(
    name="Acme", issuer={issuer!r}, scope="helpdesk helpdesk:write"
)
ExternalIdentity.objects.create(
    trusted_issuer=trusted, subject="U1", user=agent,
    digest=identity_digest(trusted.issuer, "", "U1"),
)
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Issuer]:
    """The identity provider of a company."""
    with running_issuer() as provider:
        provider.publish("/keys", lambda: signer.public(signer.key("idp")))
        yield provider


@pytest.fixture(scope="module")
def site(provider: Issuer) -> Iterator[RunningSite]:
    settings = {"DJANGO_SETTINGS_MODULE": "tests.clients.oauth.settings", "OAUTH_ONLY": "1"}
    with running_site(demo_data=True, CLIENT_PAGES="", **settings) as site:
        rows = ROWS.format(jwks=signer.public(signer.key("client")), issuer=provider.url)
        site.manage("shell", "--verbosity", "0", "--command", rows)
        yield site
        logged = site.log
    assert "Traceback" not in logged, logged


@pytest.mark.parametrize("kind", ["secret", "key", "identity"])
def test_sdk_gets_tokens_and_steps_up_without_a_person(
    kind: str, site: RunningSite, provider: Issuer
) -> None:
    credential = "s3cret"
    if kind == "key":
        pem = signer.key("client").export_to_pem(private_key=True, password=None)
        credential = pem.decode()
    issuer = site.url("").rstrip("/")
    module = "tests.clients.sdks.python_2_machines"
    words: Command = [environments.python("sdk2"), "-m", module, site.url("/mcp"), issuer]
    with real_client([*words, kind, kind, credential], site.environment) as client:
        if kind == "identity":
            answer(client, client.connected, provider)
            client.connected = client.next_line()
        mine = structured(client.call("my_tickets"))
        assert {each["assignee"] for each in mine} == {"agent"}
        arguments = {"number": mine[0]["number"], "priority": "urgent"}
        assert structured(changed(client, kind, provider, arguments))["priority"] == "urgent"


def changed(client: Any, kind: str, provider: Issuer, arguments: dict[str, Any]) -> Any:
    """Change a ticket; the identity assertion had no scope for it, so that another is asked for."""
    if kind != "identity":
        return client.call("set_priority", **arguments)
    number = client.start("tools/call", name="set_priority", arguments=arguments)
    answer(client, client.next_request(), provider, "helpdesk helpdesk:write")
    return client.until_done(number)[-1]["result"]


def answer(client: Any, request: Any, provider: Issuer, scope: str = "helpdesk") -> None:
    """Give the client the assertion that it asks for."""
    assert request["method"] == "assertion", json.dumps(request)
    named = request["params"]
    claims = signer.identity_claims(
        provider.url, "identity", aud=named["audience"], resource=named["resource"], scope=scope
    )
    token = signer.sign(claims, signer.key("idp"), typ=signer.ID_JAG)
    client.answer(request, {"assertion": token})
