"""Lists the tools and calls one with fastmcp's client; prints both as JSON."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    target = sys.argv[1:]
    client = Client(target[0] if len(target) == 1 else StdioTransport(target[0], target[1:]))
    async with client:
        tools = [tool.name for tool in await client.list_tools()]
        results = [await client.call_tool("search_tickets", {"text": "printer"}) for _ in range(3)]
    print(json.dumps({"tools": sorted(tools), "results": [str(each) for each in results]}))


asyncio.run(main())
