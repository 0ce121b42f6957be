"""Plans of tools: made at the first call, and dropped when something in them changes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.dispatch.methods import tools
from django_mcp.core.frame.exchange import Exchange
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST
from django_mcp.testing import Client, ErrorResponse
from tests.wire.asgi import AsgiClient
from tests.wire.messages import STATELESS

INFO = "io.modelcontextprotocol/serverInfo"


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def stock(item: str) -> dict[str, str]:
        return {"item": item}

    return server


async def test_plan_is_made_once_for_each_revision() -> None:
    server = shop()
    made: list[list[int]] = []
    async with Client(server) as newest, Client(server, version="2025-11-25") as older:
        for client in (newest, older, newest, older):
            await client.call_tool("stock", {"item": "tea"})
            made.append([id(plan) for key, plan in server.plans.items() if key[0] == "tool"])

    assert len(made[1]) == 2
    assert made[1] == made[2] == made[3]


async def test_plans_of_resources_and_prompts_are_made_once() -> None:
    server = Server("shop")

    @server.resource("stock://all")
    async def stock() -> str:
        return "tea"

    @server.resource("stock://items/{item}")
    async def of_item(item: str) -> str:
        return item

    @server.prompt
    async def order(item: str) -> str:
        return f"Order {item}"

    made: list[dict[Any, int]] = []
    async with Client(server) as client:
        for item in ("tea", "ink"):
            assert (await client.read_resource("stock://all")).text == "tea"
            assert (await client.read_resource(f"stock://items/{item}")).text == item
            prompt = await client.get_prompt("order", {"item": item})
            assert prompt["messages"][0]["content"]["text"] == f"Order {item}"
            made.append({key: id(plan) for key, plan in server.plans.items()})

    plans = {key[:2] for key in made[0] if len(key) == 3}
    assert plans == {
        ("resource", "stock://all"),
        ("resource_template", "stock://items/{item}"),
        ("prompt", "order"),
    }
    assert made[0] == made[1]


async def test_middleware_that_is_added_later_is_called() -> None:
    server = shop()
    seen: list[str] = []

    async def watch(frame: Frame, call_next: Any) -> Any:
        seen.append(frame.message.method)
        return await call_next(frame)

    async with Client(server) as client:
        await client.call_tool("stock", {"item": "tea"})
        server.middleware += (watch,)
        await client.call_tool("stock", {"item": "tea"})

    assert seen == ["tools/call"]


async def test_first_step_is_kept_for_methods_and_not_for_names_that_clients_invent() -> None:
    server = shop()

    async def passing(frame: Frame, call_next: Any) -> Any:
        return await call_next(frame)

    server.middleware += (passing,)
    async with Client(server, version="2025-11-25") as client:
        await client.call_tool("stock", {"item": "tea"})
        with pytest.raises(ErrorResponse, match="Method not found"):
            await client.request("tools/invented", {})

    methods = {key[0] for key in server.plans if len(key) == 2}
    assert "tools/call" in methods
    assert "tools/invented" not in methods


async def test_replaced_tool_is_called_at_once() -> None:
    server = shop()
    async with Client(server) as client:
        await client.call_tool("stock", {"item": "tea"})

        async def sold_out(item: str) -> str:
            return f"no {item}"

        server.register_tool("stock", sold_out)
        replaced = await client.call_tool("stock", {"item": "tea"})
        server.unregister_tool("stock")
        with pytest.raises(ErrorResponse, match="Unknown tool: stock"):
            await client.call_tool("stock", {"item": "tea"})

    assert replaced.text == "no tea"


async def test_hook_that_is_added_later_is_called() -> None:
    server = Server("shop")
    server.register_tool("anything")
    async with Client(server, raise_exceptions=False) as client:
        before = await client.call_tool("anything")

        @server.hook
        async def handle_tool_call(name: str, arguments: Any, frame: Frame) -> str:
            return f"called {name}"

        after = await client.call_tool("anything")

    assert before.is_error
    assert after.text == "called anything"


async def test_results_have_the_server_information_as_it_is_now() -> None:
    server = shop()
    peer = AsgiClient(server, STATELESS)
    before = await peer.post(peer.call("stock", item="tea"))
    server.describe(title="The shop")
    after = await peer.post(peer.call("stock", item="tea"))

    assert before.json()["result"]["_meta"][INFO].get("title") is None
    assert after.json()["result"]["_meta"][INFO]["title"] == "The shop"


async def test_guarded_tool_is_refused_when_the_permission_is_gone() -> None:
    allowed = [True]
    server = Server("shop")

    @server.tool(permission=lambda frame: allowed[0])
    async def secret() -> str:
        return "told"

    async with Client(server) as client:
        assert (await client.call_tool("secret")).text == "told"
        allowed[0] = False
        with pytest.raises(ErrorResponse, match="Unknown tool: secret"):
            await client.call_tool("secret")


@pytest.mark.parametrize(("version", "steps"), [("2025-11-25", ["start_task"]), ("2026-07-28", [])])
def test_public_tool_has_only_the_steps_of_its_revision(version: str, steps: list[str]) -> None:
    server = shop()
    tool: Any = server.components.find("tool", "stock")

    plan = tools.make_plan(server, tool, BY_VERSION[version])

    assert [step.__name__ for step in plan.before_arguments] == steps
    assert plan.before_handler == ()


async def test_call_is_freed_at_its_end_without_a_collection() -> None:
    server = Server("shop")
    kept: list[weakref.ref[Any]] = []

    @server.tool
    async def look(frame: Frame) -> str:
        kept.extend([weakref.ref(frame.exchange), weakref.ref(frame.client)])
        return "seen"

    peer = AsgiClient(server, NEWEST.version)
    await peer.post(peer.call("look"))
    gc.collect()
    gc.disable()
    try:
        kept.clear()
        await peer.post(peer.call("look"))
        await asyncio.sleep(0)
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


def test_client_of_a_frame_is_made_when_it_is_read_and_once() -> None:
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name

    values: dict[str, Any] = {
        "assigns": {},
        "request": None,
        "private": {},
        "changes": (),
        "exchange": Exchange(),
        "client_facts": (make, "client"),
    }
    frame = Frame.of_values(values)

    assert made == []
    clients: list[Any] = [frame.client, frame.client]
    assert clients == ["client", "client"]
    assert made == ["client"]
    assert not hasattr(frame, "nothing")
