"""Input requests and errors of a handler in a task group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_mcp import Frame, Server, ToolError
from django_mcp.core.frame.client.multi_round_trip import InputRequired
from tests.by_hand.processes import stdio
from tests.by_hand.shop import ELICITS, FORM
from tests.wire.asgi import AsgiClient
from tests.wire.messages import STATELESS, text_of


async def test_input_request_in_a_task_group_is_sent_over_http() -> None:
    server = Server("shop")

    @server.tool(requests_input=True)
    async def confirm(frame: Frame) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(frame.client.aelicit("Sure?", FORM))
        return "done"

    response = await AsgiClient(server, capabilities=ELICITS).tool("confirm")

    assert response.result["resultType"] == "input_required"


async def test_input_request_in_a_task_group_is_sent_over_stdio() -> None:
    async with stdio() as server:
        answer = await server.ask(
            1,
            "tools/call",
            {"name": "confirm_in_a_group", "arguments": {}},
            version=STATELESS,
            **ELICITS,
        )

    assert answer["result"]["resultType"] == "input_required"


NAMES = ("first", "second", "third")


async def request_three(frame: Frame) -> list[str]:
    """Request three inputs at once, one of them in a group within the group."""

    async def request_in_a_group() -> str:
        async with asyncio.TaskGroup() as group:
            only = group.create_task(frame.client.aelicit("third", FORM, key="third"))
        return only.result().action

    async with asyncio.TaskGroup() as group:
        started = [group.create_task(frame.client.aelicit(n, FORM, key=n)) for n in NAMES[:2]]
        last = group.create_task(request_in_a_group())
    return [*(task.result().action for task in started), last.result()]


def request_three_in_a_thread(frame: Frame) -> list[str]:
    return async_to_sync(request_three)(frame)


@pytest.mark.parametrize("handler", [request_three, request_three_in_a_thread])
@pytest.mark.parametrize("declared", [True, False])
async def test_input_requests_of_a_task_group_are_sent_in_one_round(
    handler: Any, declared: bool
) -> None:
    server = Server("shop")
    server.register_tool("confirm", handler, requests_input=declared)
    peer = AsgiClient(server, capabilities=ELICITS)

    first = (await peer.tool("confirm")).result
    accepted = {"action": "accept", "content": {"sure": True}}
    given = dict.fromkeys(first["inputRequests"], accepted)
    second = await peer.tool(
        "confirm", params={"inputResponses": given, "requestState": first["requestState"]}
    )

    assert sorted(first["inputRequests"]) == sorted(NAMES)
    assert second.result["structuredContent"] == ["accept"] * 3


async def test_tool_error_in_a_task_group_is_answered_as_such() -> None:
    server = Server("shop")

    @server.tool
    async def sell() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(10))
            group.create_task(refuse())
        return "done"

    async def refuse() -> None:
        raise ToolError("Nothing is left")

    assert text_of((await AsgiClient(server).tool("sell")).result) == "Nothing is left"


async def test_task_group_with_several_errors_is_a_failed_handler() -> None:
    server = Server("shop")

    @server.tool
    async def sell(frame: Frame) -> str:
        raise BaseExceptionGroup("both", [ToolError("no"), InputRequired({}, {}), ValueError()])

    assert "unexpectedly" in text_of((await AsgiClient(server).tool("sell")).result)


async def test_input_request_passes_a_middleware_with_a_task_group() -> None:
    async def middleware(frame: Frame, call_next: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call_next(frame))
        return calling.result()

    server = Server("shop", middleware=[middleware])

    @server.tool(requests_input=True)
    async def confirm(frame: Frame) -> str:
        return (await frame.client.aelicit("Sure?", FORM)).action

    response = await AsgiClient(server, capabilities=ELICITS).tool("confirm")

    assert response.result["resultType"] == "input_required"
