"""Lists the tools and calls one with openai-agents; prints both as JSON."""

import asyncio
import json
import sys

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp


async def main() -> None:
    target = sys.argv[1:]
    if len(target) == 1:
        server = MCPServerStreamableHttp({"url": target[0]})
    else:
        server = MCPServerStdio({"command": target[0], "args": target[1:]})
    async with server:
        tools = [tool.name for tool in await server.list_tools()]
        results = [await server.call_tool("search_tickets", {"text": "printer"}) for _ in range(3)]
    print(json.dumps({"tools": sorted(tools), "results": [str(each) for each in results]}))


asyncio.run(main())
