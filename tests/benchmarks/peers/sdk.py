"""The official Python SDK with the tools of the cases."""

import os

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("bench", version="1.0", log_level="WARNING")


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add two numbers, in a synchronous handler."""
    return a + b


async def progress(steps: int, ctx: Context) -> str:
    """Say after each step how far it has come."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
    return "done"


for tool in (add, add_sync, progress):
    server.tool()(tool)

if __name__ == "__main__":
    server.run("stdio")
else:
    # Plain JSON is faster, but excludes notifications.
    application = server.streamable_http_app(
        stateless_http="BENCH_SESSIONS" not in os.environ,
        json_response="BENCH_STREAMS" not in os.environ,
    )
