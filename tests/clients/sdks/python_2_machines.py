"""The official Python SDK 2.x without a person, controlled over stdin (see control).

python -m tests.clients.sdks.python_2_machines URL ISSUER CLIENT_ID secret|key|identity CREDENTIAL

The credential is a secret, or a private key in PEM. Assertions about a user are asked for.
"""

import asyncio
import sys
from typing import Any

from mcp import Client
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.clients.sdks.control import ask, run_commands, write_line
from tests.clients.sdks.python_2 import methods
from tests.clients.sdks.python_2_oauth import Storage


async def assertion(audience: str, resource: str) -> str:
    """Ask the identity provider for an assertion, as a client exchanges its ID token."""
    answer = await ask("assertion", {"audience": audience, "resource": resource})
    return str(answer["assertion"])


def provider_of(kind: str, url: str, issuer: str, client_id: str, credential: str) -> Any:
    options: dict[str, Any] = {
        "server_url": url,
        "storage": Storage(),
        "client_id": client_id,
        "issuer": issuer,
    }
    if kind == "secret":
        return ClientCredentialsOAuthProvider(client_secret=credential, **options)
    if kind == "identity":
        return IdentityAssertionOAuthProvider(
            client_secret=credential, assertion_provider=assertion, **options
        )
    signed = SignedJWTParameters(
        issuer=client_id, subject=client_id, signing_key=credential, signing_algorithm="ES256"
    )
    return PrivateKeyJWTOAuthProvider(
        assertion_provider=signed.create_assertion_provider(), **options
    )


async def main(url: str, issuer: str, client_id: str, kind: str, credential: str) -> None:
    provider = provider_of(kind, url, issuer, client_id, credential)
    commands: dict[str, Any] = {}
    reader = asyncio.create_task(run_commands(commands))
    async with (
        create_mcp_http_client(auth=provider) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        commands |= methods(client)
        write_line(connected=client.protocol_version)
        await reader


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
