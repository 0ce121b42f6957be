"""The official Python SDK with the tools of the cases."""

import os

from mcp.server.mcpserver import Context, MCPServer

from tests.benchmarks.site import rows

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


async def typed_dicts() -> rows.DictPage:
    """Return about 100 kB of dicts with known keys."""
    return rows.DICT_PAGE


async def dataclasses() -> rows.DataPage:
    """Return the same as dataclasses."""
    return rows.DATA_PAGE


async def models() -> rows.ModelPage:
    """Return the same as pydantic models."""
    return rows.MODEL_PAGE


TOOLS = (add, add_sync, progress, typed_dicts, dataclasses, models)
FURTHER = int(os.environ.get("BENCH_TOOLS", "0"))
for tool in TOOLS if not FURTHER else TOOLS[:1]:
    server.tool()(tool)
for number in range(1, FURTHER):
    server.tool(name=f"tool_{number:04}")(add)

if __name__ == "__main__":
    server.run("stdio")
else:
    # Plain JSON is faster, but excludes notifications.
    application = server.streamable_http_app(
        stateless_http="BENCH_SESSIONS" not in os.environ,
        json_response="BENCH_STREAMS" not in os.environ,
    )
