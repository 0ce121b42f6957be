"""Lists the tools and calls one with pydantic-ai; prints both as JSON."""

import asyncio
import json
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset


async def main() -> None:
    target = sys.argv[1:]
    transport = target[0] if len(target) == 1 else StdioTransport(target[0], target[1:])
    # On a busy machine, a process needs longer than the default to start.
    toolset = MCPToolset(transport, init_timeout=30)
    async with toolset:
        tools = [tool.name for tool in await toolset.list_tools()]
        arguments = {"text": "printer"}
        results = [await toolset.direct_call_tool("search_tickets", arguments) for _ in range(3)]
    print(json.dumps({"tools": sorted(tools), "results": [str(each) for each in results]}))


asyncio.run(main())
