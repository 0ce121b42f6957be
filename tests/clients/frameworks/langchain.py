"""Lists the tools and calls one with langchain-mcp-adapters; prints both as JSON."""

import asyncio
import json
import sys
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main() -> None:
    target = sys.argv[1:]
    connection: Any
    if len(target) == 1:
        connection = {"transport": "streamable_http", "url": target[0]}
    else:
        connection = {"transport": "stdio", "command": target[0], "args": target[1:]}
    client = MultiServerMCPClient({"site": connection})
    # A session for the list, and another one for each call.
    tools = {tool.name: tool for tool in await client.get_tools()}
    results = [await tools["search_tickets"].ainvoke({"text": "printer"}) for _ in range(3)]
    print(json.dumps({"tools": sorted(tools), "results": [str(each) for each in results]}))


asyncio.run(main())
