"""Calls a tool with the official Python SDK, 1.30 or 2.x, whose tokens are saved in a file.

python python_sdk.py URL FILE REDIRECT_URI: it prints the page of the user as {"authorize": URL},
reads the parameters of the redirect, and prints the result as {"text": …}.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken


class Storage:
    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self, name: str) -> Any:
        return json.loads(self._path.read_text()).get(name) if self._path.exists() else None

    def _write(self, name: str, value: Any) -> None:
        saved = json.loads(self._path.read_text()) if self._path.exists() else {}
        dumped = value.model_dump(mode="json", exclude_none=True)
        self._path.write_text(json.dumps({**saved, name: dumped}))

    async def get_tokens(self) -> Any:
        saved = self._read("tokens")
        return saved and OAuthToken.model_validate(saved)

    async def set_tokens(self, tokens: Any) -> None:
        self._write("tokens", tokens)

    async def get_client_info(self) -> Any:
        saved = self._read("client")
        return saved and OAuthClientInformationFull.model_validate(saved)

    async def set_client_info(self, client_info: Any) -> None:
        self._write("client", client_info)


async def open_page(url: str) -> None:
    print(json.dumps({"authorize": url}), flush=True)


async def redirected() -> Any:
    answer = json.loads(await asyncio.to_thread(sys.stdin.readline))
    try:
        from mcp.shared.auth import AuthorizationCodeResult
    except ImportError:
        return answer["code"], answer["state"]
    return AuthorizationCodeResult.model_validate(answer)


async def main(url: str, path: str, redirect_uri: str) -> None:
    metadata = {
        "client_name": "Python SDK",
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none",
    }
    file = Path(path)
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata.model_validate(metadata),
        Storage(file),
        redirect_handler=open_page,
        callback_handler=redirected,
    )
    if file.exists():
        # The SDK saves no time of expiry: whoever uses it says that the token has expired.
        provider.context.token_expiry_time = 1.0
    async with create_mcp_http_client(auth=provider) as http:
        streams = streamable_http_client(url, http_client=http)
        if hasattr(mcp, "Client"):
            async with mcp.Client(streams) as client:
                await call(client)
        else:
            async with streams as (read, write, *_), mcp.ClientSession(read, write) as session:
                await session.initialize()
                await call(session)


async def call(client: Any) -> None:
    result = await client.call_tool("my_tickets", {})
    text = " ".join(getattr(part, "text", "") for part in result.content)
    print(json.dumps({"text": text}), flush=True)


asyncio.run(main(*sys.argv[1:]))
