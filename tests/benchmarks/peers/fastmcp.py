"""FastMCP with the tools of the cases."""

import os

from fastmcp import Context, FastMCP

server = FastMCP("bench", version="1.0")


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
    server.tool(tool)

# Plain JSON is faster, but excludes notifications.
application = server.http_app(
    path="/mcp", stateless_http=True, json_response="BENCH_STREAMS" not in os.environ
)
