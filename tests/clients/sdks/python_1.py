"""The official Python SDK 1.x, controlled over stdin (see control).

python -m tests.clients.sdks.python_1 URL, or COMMAND ARGUMENT … for a server over stdio.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    GetTaskResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    PromptReference,
    ResourceTemplateReference,
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

REFERENCES = {"ref/prompt": PromptReference, "ref/resource": ResourceTemplateReference}


async def main(*target: str) -> None:
    async with (
        streams(*target) as (read, write),
        ClientSession(
            read,
            write,
            logging_callback=logged,
            elicitation_callback=elicit,
            sampling_callback=sample,
            list_roots_callback=list_roots,
            message_handler=notified,
        ) as client,
    ):
        opened = await client.initialize()
        write_line(
            connected=opened.protocolVersion,
            server=as_json(opened.serverInfo),
            capabilities=as_json(opened.capabilities),
            instructions=opened.instructions,
        )
        await run_commands(methods(client))


@asynccontextmanager
async def streams(target: str, *arguments: str) -> AsyncIterator[tuple[Any, Any]]:
    if target.startswith("http"):
        async with streamable_http_client(target) as (read, write, _):
            yield read, write
    else:
        parameters = StdioServerParameters(
            command=target, args=list(arguments), env=dict(os.environ)
        )
        async with stdio_client(parameters) as (read, write):
            yield read, write


def methods(client: ClientSession) -> dict[str, Any]:
    return {
        "ping": lambda _: client.send_ping(),
        "logging/setLevel": lambda _, level: client.set_logging_level(level),
        "tools/list": lambda _, cursor=None: client.list_tools(params=page(cursor)),
        "tools/call": lambda on_progress, name, arguments: call(
            client, on_progress, name, arguments
        ),
        "resources/list": lambda _, cursor=None: client.list_resources(params=page(cursor)),
        "resources/templates/list": lambda _: client.list_resource_templates(),
        "resources/read": lambda _, uri: client.read_resource(AnyUrl(uri)),
        "resources/subscribe": lambda _, uri: client.subscribe_resource(AnyUrl(uri)),
        "resources/unsubscribe": lambda _, uri: client.unsubscribe_resource(AnyUrl(uri)),
        "prompts/list": lambda _, cursor=None: client.list_prompts(params=page(cursor)),
        "prompts/get": lambda _, name, arguments: client.get_prompt(name, arguments),
        "completion/complete": lambda _, **params: complete(client, **params),
        "task": lambda _, name, arguments, ttl: client.experimental.call_tool_as_task(
            name, arguments, ttl=ttl
        ),
        "tasks/poll": lambda _, taskId: poll(client, taskId),
        "tasks/result": lambda _, taskId: client.experimental.get_task_result(
            taskId, CallToolResult
        ),
        "tasks/list": lambda _, cursor=None: client.experimental.list_tasks(cursor),
        "tasks/cancel": lambda _, taskId: client.experimental.cancel_task(taskId),
    }


async def poll(client: ClientSession, task_id: str) -> GetTaskResult:
    """Poll as the SDK does, until the task has ended or requires input."""
    async for status in client.experimental.poll_task(task_id):
        if status.status == "input_required":
            break
    return status


def page(cursor: str | None) -> PaginatedRequestParams:
    return PaginatedRequestParams(cursor=cursor)


async def call(
    client: ClientSession, on_progress: ProgressCallback, name: str, arguments: Json
) -> Any:
    return await client.call_tool(name, arguments, progress_callback=on_progress)


async def complete(
    client: ClientSession, ref: Json, argument: Json, context: Json | None = None
) -> Any:
    reference = REFERENCES[ref["type"]].model_validate(ref)
    return await client.complete(reference, argument, context and context["arguments"])


async def logged(params: LoggingMessageNotificationParams) -> None:
    write_line(notification="notifications/message", params=as_json(params))


async def notified(message: Any) -> None:
    # Log messages and progress have their own callbacks.
    dumped = as_json(message) if isinstance(message, ServerNotification) else {"method": None}
    if dumped["method"] not in (None, "notifications/message", "notifications/progress"):
        write_line(notification=dumped["method"], params=dumped.get("params", {}))


async def elicit(_: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult.model_validate(await ask("elicitation/create", params))


async def sample(_: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult.model_validate(await ask("sampling/createMessage", params))


async def list_roots(_: Any) -> ListRootsResult:
    return ListRootsResult.model_validate(await ask("roots/list", None))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
