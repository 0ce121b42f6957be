"""The official Python SDK 1.1, which supports 2024-11-05 only, controlled over stdin (see control).

python -m tests.clients.sdks.python_1_1 URL, where the URL is one for HTTP+SSE,
or COMMAND ARGUMENT … for a server over stdio.
"""

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.shared.session import RequestResponder
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ClientRequest,
    ClientResult,
    ListResourceTemplatesRequest,
    ListResourceTemplatesResult,
    ListRootsResult,
    PromptReference,
    ResourceReference,
    ServerNotification,
)
from pydantic import AnyUrl

from tests.clients.sdks.control import (
    Json,
    ProgressCallback,
    as_json,
    ask,
    run_commands,
    write_line,
)

REFERENCES = {"ref/prompt": PromptReference, "ref/resource": ResourceReference}
PROGRESS_TOKEN = 0


async def main(*target: str) -> None:
    async with streams(*target) as (read, write), ClientSession(read, write) as client:
        listener = asyncio.create_task(listen(client))
        opened = await client.initialize()
        write_line(
            connected=opened.protocolVersion,
            server=as_json(opened.serverInfo),
            capabilities=as_json(opened.capabilities),
        )
        await run_commands(methods(client))
        listener.cancel()


def streams(target: str, *arguments: str) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    if target.startswith("http"):
        found: AbstractAsyncContextManager[tuple[Any, Any]] = sse_client(target)
    else:
        found = stdio_client(
            StdioServerParameters(command=target, args=list(arguments), env=dict(os.environ))
        )
    return found


def methods(client: ClientSession) -> dict[str, Any]:
    return {
        "ping": lambda _: client.send_ping(),
        "logging/setLevel": lambda _, level: client.set_logging_level(level),
        "tools/list": lambda _: client.list_tools(),
        "tools/call": lambda on_progress, name, arguments: call(
            client, on_progress, name, arguments
        ),
        "resources/list": lambda _: client.list_resources(),
        "resources/templates/list": lambda _: list_templates(client),
        "resources/read": lambda _, uri: client.read_resource(AnyUrl(uri)),
        "resources/subscribe": lambda _, uri: client.subscribe_resource(AnyUrl(uri)),
        "resources/unsubscribe": lambda _, uri: client.unsubscribe_resource(AnyUrl(uri)),
        "prompts/list": lambda _: client.list_prompts(),
        "prompts/get": lambda _, name, arguments: client.get_prompt(name, arguments),
        "completion/complete": lambda _, ref, argument: client.complete(
            REFERENCES[ref["type"]].model_validate(ref), argument
        ),
    }


async def call(client: ClientSession, _: ProgressCallback, name: str, arguments: Json) -> Any:
    """Call a tool with a progress token, which the SDK's own method cannot send."""
    params = CallToolRequestParams.model_validate(
        {"name": name, "arguments": arguments, "_meta": {"progressToken": PROGRESS_TOKEN}}
    )
    request = CallToolRequest(method="tools/call", params=params)
    return await client.send_request(ClientRequest(request), CallToolResult)


async def list_templates(client: ClientSession) -> Any:
    request = ListResourceTemplatesRequest(method="resources/templates/list")
    return await client.send_request(ClientRequest(request), ListResourceTemplatesResult)


async def listen(client: ClientSession) -> None:
    """Write the server's notifications; this SDK has one stream for all of them."""
    async for message in client.incoming_messages:
        if isinstance(message, ServerNotification):
            dumped = as_json(message)
            write_line(notification=dumped["method"], params=dumped.get("params", {}))
        elif isinstance(message, RequestResponder):
            dumped = as_json(message.request)
            answer = ListRootsResult.model_validate(await ask(dumped["method"], None))
            await message.respond(ClientResult(answer))
        else:
            write_line(notification="nonsense", params={"raised": repr(message)})


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
