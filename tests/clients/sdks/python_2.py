"""The official Python SDK 2.x, controlled over stdin (see control).

python -m tests.clients.sdks.python_2 MODE URL, or MODE COMMAND ARGUMENT … for a server over stdio.
MODE is `auto`, which starts with server/discover, or `legacy`, which starts with initialize.
With the environment variable CLIENT_TOKEN, it sends this token.
"""

import asyncio
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client import session
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    PromptReference,
    ResourceTemplateReference,
)

from tests.clients.sdks.control import (
    Json,
    ProgressCallback,
    as_json,
    ask,
    run_commands,
    write_line,
)

# Over stdio, the client waits for the start of the server, then falls back to an older revision.
session.DISCOVER_TIMEOUT_SECONDS = 180.0

REFERENCES = {"ref/prompt": PromptReference, "ref/resource": ResourceTemplateReference}


async def main(mode: str, *target: str) -> None:
    async with Client(
        server(*target),
        mode=mode,
        log_level="info",
        logging_callback=logged,
        message_handler=notified if mode == "legacy" else None,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=list_roots,
    ) as client:
        write_line(
            connected=client.protocol_version,
            server=as_json(client.server_info),
            capabilities=as_json(client.server_capabilities),
            instructions=client.instructions,
        )
        await run_commands(methods(client))


def server(target: str, *arguments: str) -> Any:
    token = os.environ.get("CLIENT_TOKEN")
    if target.startswith("http") and token:
        headers = {"Authorization": f"Bearer {token}"}
        return streamable_http_client(target, http_client=create_mcp_http_client(headers))
    if target.startswith("http"):
        return target
    return StdioServerParameters(command=target, args=list(arguments), env=dict(os.environ))


def methods(client: Client) -> dict[str, Any]:
    return {
        "ping": lambda _: client.send_ping(),
        "logging/setLevel": lambda _, level: client.set_logging_level(level),
        "tools/list": lambda _, cursor=None: client.list_tools(cursor=cursor),
        "tools/call": lambda on_progress, name, arguments: call(
            client, on_progress, name, arguments
        ),
        "resources/list": lambda _, cursor=None: client.list_resources(cursor=cursor),
        "resources/templates/list": lambda _: client.list_resource_templates(),
        "resources/read": lambda _, uri: client.read_resource(uri),
        "prompts/list": lambda _, cursor=None: client.list_prompts(cursor=cursor),
        "prompts/get": lambda _, name, arguments: client.get_prompt(name, arguments),
        "completion/complete": lambda _, **params: complete(client, **params),
        "resources/subscribe": lambda _, uri: client.subscribe_resource(uri),
        "resources/unsubscribe": lambda _, uri: client.unsubscribe_resource(uri),
        "subscriptions/listen": lambda _, **wanted: listen(client, **wanted),
    }


async def call(client: Client, on_progress: ProgressCallback, name: str, arguments: Json) -> Any:
    return await client.call_tool(name, arguments, progress_callback=on_progress)


async def complete(client: Client, ref: Json, argument: Json, context: Json | None = None) -> Any:
    reference = REFERENCES[ref["type"]].model_validate(ref)
    return await client.complete(reference, argument, context and context["arguments"])


async def listen(client: Client, **wanted: Any) -> Json:
    """Write the accepted filter, then every event, until the server ends the stream."""
    async with client.listen(**wanted) as subscription:
        write_line(notification="acknowledged", params=as_json(subscription.honored))
        async for event in subscription:
            write_line(notification=type(event).__name__, params=vars(event))
    return {}


async def notified(message: Any) -> None:
    """Write notifications outside of requests; logs and progress have their own callbacks."""
    method = getattr(message, "method", None)
    if method not in (None, "notifications/message", "notifications/progress"):
        write_line(notification=method, params=as_json(message.params) if message.params else {})


async def logged(params: LoggingMessageNotificationParams) -> None:
    write_line(notification="notifications/message", params=as_json(params))


async def elicit(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult.model_validate(await ask("elicitation/create", params))


async def sample(
    _: ClientRequestContext, params: CreateMessageRequestParams
) -> CreateMessageResult:
    return CreateMessageResult.model_validate(await ask("sampling/createMessage", params))


async def list_roots(_: ClientRequestContext) -> ListRootsResult:
    return ListRootsResult.model_validate(await ask("roots/list", None))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
