"""Calls a tool with fastmcp's client, whose tokens are saved in a folder (see python_sdk.py).

It has a page of its own to which the user is redirected, so that it reads nothing.
"""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.auth import OAuth
from key_value.aio.stores.filetree import FileTreeStore, FileTreeV1KeySanitizationStrategy


class Login(OAuth):
    async def redirect_handler(self, authorization_url: str) -> None:
        print(json.dumps({"authorize": authorization_url}), flush=True)

    async def _initialize(self) -> None:
        await super()._initialize()
        if self.context.current_tokens:
            # The server has let it expire, which the client would find out by its clock.
            self.context.token_expiry_time = 1.0


async def main(url: str, path: str, *_: str) -> None:
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    names = FileTreeV1KeySanitizationStrategy(folder)
    store = FileTreeStore(data_directory=folder, key_sanitization_strategy=names)
    auth = Login(url, token_storage=store)
    async with Client(url, auth=auth) as client:
        result = await client.call_tool("my_tickets", {})
    text = " ".join(getattr(part, "text", "") for part in result.content)
    print(json.dumps({"text": text}), flush=True)


asyncio.run(main(*sys.argv[1:]))
