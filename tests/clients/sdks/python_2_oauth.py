"""The official Python SDK 2.x with OAuth, controlled over stdin (see control).

python -m tests.clients.sdks.python_2_oauth URL REDIRECT_URI [CLIENT_METADATA_URL]
"""

import asyncio
import sys
from typing import Any

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from tests.clients.sdks.control import Json, ask, run_commands, write_line
from tests.clients.sdks.python_2 import methods


class Storage:
    """The tokens and the registration of the client, in memory."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class User:
    """Sends the user to a page, and waits for the redirect."""

    redirect: Json

    async def open(self, url: str) -> None:
        self.redirect = await ask("authorize", {"url": url})

    async def answer(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(self.redirect)


async def main(url: str, redirect_uri: str, client_metadata_url: str | None = None) -> None:
    storage, user = Storage(), User()
    metadata = {
        "client_name": "Python SDK",
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none",
    }
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata.model_validate(metadata),
        storage,
        redirect_handler=user.open,
        callback_handler=user.answer,
        client_metadata_url=client_metadata_url,
    )

    async def state(_: Any) -> Json:
        client_id = storage.client and storage.client.client_id
        tokens = storage.tokens and storage.tokens.model_dump(mode="json", exclude_none=True)
        return {"client_id": client_id, "tokens": tokens}

    async def expire(_: Any) -> Json:
        provider.context.token_expiry_time = 1.0
        return {}

    # The user may have to log in before the client is connected.
    commands: dict[str, Any] = {"oauth/state": state, "oauth/expire": expire}
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
