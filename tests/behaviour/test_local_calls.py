"""Calling a server from the site's own code: no client, no transport, no session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import TransactionTestCase

from django_mcp import Frame, InvalidParams, McpError, ResourceNotFound, Response, Server, ToolError
from django_mcp.protocol.errors import ClientCapabilityMissing
from django_mcp.testing import Client, accept
from django_mcp.testing.plugin import ClientFor
from tests.behaviour.conftest import Configure

LATEST = "2025-11-25"


def shop() -> Server:
    server = Server("shop", version="1.2", page_size=2)

    @server.tool
    def add(a: int, b: int = 1) -> dict[str, int]:
        return {"sum": a + b}

    @server.tool
    async def double(a: int) -> int:
        return 2 * a

    @server.tool
    def fail() -> str:
        raise ToolError("Out of paper")

    @server.tool
    def refuse() -> McpError:
        return McpError("Closed", code=1001)

    @server.tool(permission="auth.add_group")
    def add_group(name: str, frame: Frame) -> str:
        return f"{frame.user.get_username()} adds {name}"

    @server.tool(scopes=["write"])
    def write() -> str:
        return "Written"

    @server.resource("shop://hours")
    def hours() -> str:
        return "always"

    @server.resource("shop://{day}/hours", name="hours_of", complete={"day": lambda typed: ["mon"]})
    def hours_of(day: str) -> str:
        return day

    @server.prompt(complete={"name": lambda typed, chosen: [typed + "na", *chosen.values()]})
    def greet(name: str, tone: str = "kind") -> Response:
        return Response.prompt("A greeting").user(f"Greet {name}, {tone}")

    return server


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


class TestFromSynchronousCode:
    def test_a_tool_is_called(self) -> None:
        result = shop().call_tool("add", {"a": 1, "b": 2})

        assert result["structuredContent"] == {"sum": 3}
        assert not result.get("isError")

    def test_an_async_tool_is_called_too(self) -> None:
        assert text(shop().call_tool("double", {"a": 2})) == "4"

    def test_missing_arguments_are_none_at_all(self) -> None:
        result = shop().call_tool("add")

        assert result["isError"] is True
        assert "a" in text(result)

    def test_a_tool_which_fails_says_so_in_its_result(self) -> None:
        assert shop().call_tool("fail") == {
            "content": [{"type": "text", "text": "Out of paper"}],
            "isError": True,
        }

    def test_an_error_which_a_handler_returns_is_raised(self) -> None:
        with pytest.raises(McpError, match="Closed") as caught:
            shop().call_tool("refuse")
        assert caught.value.code == 1001

    def test_what_does_not_exist_is_an_error(self) -> None:
        server = shop()
        with pytest.raises(InvalidParams):
            server.call_tool("nothing")
        with pytest.raises(InvalidParams):
            server.get_prompt("nothing")
        with pytest.raises(ResourceNotFound):
            server.read_resource("shop://nothing")

    def test_resources_are_read(self) -> None:
        server = shop()
        (contents,) = server.read_resource("shop://mon/hours")["contents"]

        assert (contents["uri"], contents["text"]) == ("shop://mon/hours", "mon")
        assert server.read_resource("shop://hours")["contents"][0]["text"] == "always"

    def test_prompts_are_got(self) -> None:
        result = shop().get_prompt("greet", {"name": "Ada"})

        assert result["description"] == "A greeting"
        assert result["messages"][0]["content"]["text"] == "Greet Ada, kind"

    def test_arguments_are_completed(self) -> None:
        server = shop()
        found = server.complete("greet", "name", "Ho", context={"tone": "rude"})

        assert found["values"] == ["Hona", "rude"]
        assert server.complete("shop://{day}/hours", "day")["values"] == ["mon"]

    def test_lists_are_complete_whatever_a_page_holds(self) -> None:
        server = shop()

        assert [tool["name"] for tool in server.list_tools()] == ["add", "double", "fail", "refuse"]
        assert [each["uri"] for each in server.list_resources()] == ["shop://hours"]
        assert [each["name"] for each in server.list_resource_templates()] == ["hours_of"]
        assert [each["name"] for each in server.list_prompts()] == ["greet"]

    def test_nobody_is_told_and_nobody_can_be_asked(self) -> None:
        server = Server("chatty")

        @server.tool
        def chat(frame: Frame) -> str:
            frame.client.log("error", "Hello?")
            frame.client.progress(1, 2)
            assert frame.get_mcp_session_id() is None
            assert frame.transport is None
            return frame.client.create_message("Hello?", max_tokens=5).text

        with pytest.raises(ClientCapabilityMissing):
            server.call_tool("chat")

    def test_a_handler_which_calls_from_its_own_thread_waits_there(self) -> None:
        server = shop()

        @server.tool
        def twice(frame: Frame) -> str:
            first = frame.server.call_tool("add", {"a": 1}, frame=frame)
            return str(frame.server.call_tool("add", {"a": first["structuredContent"]["sum"]}))

        assert "3" in text(server.call_tool("twice"))


class TestFromAsyncCode:
    async def test_everything_has_its_twin(self) -> None:
        server = shop()

        assert (await server.acall_tool("add", {"a": 1}))["structuredContent"] == {"sum": 2}
        assert (await server.aread_resource("shop://hours"))["contents"][0]["text"] == "always"
        assert (await server.aget_prompt("greet", {"name": "Ada"}))["messages"]
        assert (await server.acomplete("greet", "name"))["values"] == ["na"]
        assert len(await server.alist_tools()) == 4
        assert len(await server.alist_resources()) == 1
        assert len(await server.alist_resource_templates()) == 1
        assert len(await server.alist_prompts()) == 1

    async def test_the_synchronous_ones_would_block_the_loop_and_say_so(self) -> None:
        with pytest.raises(RuntimeError):
            shop().call_tool("double", {"a": 1})

    async def test_calls_run_at_once(self) -> None:
        server, there = Server("slow"), asyncio.Event()

        @server.tool
        async def wait() -> str:
            await there.wait()
            return "waited"

        @server.tool
        async def go() -> str:
            there.set()
            return "went"

        waited, went = await asyncio.gather(server.acall_tool("wait"), server.acall_tool("go"))
        assert (text(waited), text(went)) == ("waited", "went")


class TestWhoCalls:
    @pytest.mark.django_db
    def test_a_user_sees_and_may_what_she_always_may(self) -> None:
        ada = User.objects.create_user("ada")
        ada.user_permissions.add(Permission.objects.get(codename="add_group"))
        server = shop()

        assert text(server.call_tool("add_group", {"name": "staff"}, user=ada)) == "ada adds staff"
        assert "add_group" in [tool["name"] for tool in server.list_tools(user=ada)]
        with pytest.raises(InvalidParams):
            server.call_tool("add_group", {"name": "staff"})

    def test_scopes_are_those_which_are_given(self) -> None:
        server = shop()

        assert text(server.call_tool("write", scopes=["write"])) == "Written"
        with pytest.raises(InvalidParams):
            server.call_tool("write", scopes=["read"])

    def test_frame_processors_bring_what_they_bring(self, configure: Configure) -> None:
        configure(FRAME_PROCESSORS=["tests.behaviour.test_local_calls.tenant"])
        server = Server("tenants")

        @server.tool
        def whose(frame: Frame) -> str:
            return str(frame.assigns["tenant"])

        assert text(server.call_tool("whose")) == "acme"


def tenant(frame: Frame) -> dict[str, str]:
    """A frame processor."""
    return {"tenant": "acme"}


class TestWithinACall:
    async def test_the_inner_call_has_the_caller_the_assigns_and_the_client_of_the_outer_one(
        self, client_for: ClientFor
    ) -> None:
        server = Server("nested")

        @server.tool
        def inner(frame: Frame) -> Any:
            frame.client.log("info", "from within")
            name = frame.client.elicit("Name?", NAME, key="name").content["name"]
            return f"{name}, {frame.assigns['tenant']}", frame.assign(tenant="changed within")

        @server.tool(asks=True)
        def outer(frame: Frame) -> Any:
            frame = frame.assign(tenant="acme")
            result = frame.server.call_tool("inner", frame=frame)
            return f"{text(result)}, {frame.assigns['tenant']}"

        async with client_for(server, elicitation=accept(name="Ada")) as client:
            if client.revision.questions >= {"elicitation/create"}:
                assert text(await client.call_tool("outer")) == "Ada, acme, acme"
                assert "from within" in [log["data"] for log in client.logs]

    async def test_an_async_handler_calls_within_its_call(self, client_for: ClientFor) -> None:
        server = shop()

        @server.tool
        async def outer(frame: Frame) -> str:
            result = await frame.server.acall_tool("double", {"a": 4}, frame=frame)
            return text(result)

        async with client_for(server) as client:
            assert text(await client.call_tool("outer")) == "8"

    async def test_handlers_which_call_each_other_do_not_run_out_of_threads(
        self, configure: Configure
    ) -> None:
        configure(SYNC_THREADS=1)
        server = shop()

        @server.tool
        def outer(frame: Frame) -> str:
            return str(frame.server.call_tool("add", {"a": 4}, frame=frame)["structuredContent"])

        async with Client(server, sync_handlers="threads") as client:
            assert "5" in text(await client.call_tool("outer"))


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class TestMessages:
    def test_a_message_is_answered_as_it_would_travel(self) -> None:
        answer = shop().handle(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fail"}}
        )

        assert answer == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"content": [{"type": "text", "text": "Out of paper"}], "isError": True},
        }

    def test_a_session_may_be_greeted_although_none_is_opened(self) -> None:
        server = shop()
        params = {
            "protocolVersion": LATEST,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        hello = {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params}
        greeted = server.handle(hello)
        listed = server.handle({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})

        assert greeted is not None
        assert greeted["result"]["serverInfo"] == {"name": "shop", "version": "1.2"}
        assert listed is not None
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["add", "double"]

    def test_a_message_may_bring_its_own_metadata(self) -> None:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        answer = shop().handle(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        )

        assert answer is not None
        assert answer["result"]["resultType"] == "complete"

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            ({"jsonrpc": "2.0", "id": 1, "method": "nothing/at/all"}, -32601),
            ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, -32602),
            ({"id": 1, "method": "ping"}, -32600),
            (
                {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "a:b"}},
                -32002,
            ),
        ],
    )
    def test_an_error_is_an_answer(self, message: dict[str, Any], code: int) -> None:
        answer = shop().handle(message)

        assert answer is not None
        assert (answer["id"], answer["error"]["code"]) == (1, code)

    @pytest.mark.parametrize(
        "message",
        [
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        ],
    )
    def test_what_needs_no_answer_has_none(self, message: dict[str, Any]) -> None:
        assert shop().handle(message) is None

    async def test_async_code_has_its_twin(self) -> None:
        assert await shop().ahandle({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {},
        }


class TestAClientWhichIsOnlyKnown:
    def test_handle_initialize_notes_it_and_nothing_else(self) -> None:
        server = Server("custom")
        called: list[str] = []

        @server.hook
        def on_initialize(client_info: Any, capabilities: Any, frame: Frame) -> None:
            called.append("on_initialize")

        @server.tool
        def who(frame: Frame) -> str:
            return str((frame.get_client_info() or {})["name"])

        frame = server.handle_initialize({"name": "wired", "version": "1"}, {"roots": {}})

        assert frame.get_client_capabilities() == {"roots": {}}
        assert frame.initialized is True
        assert text(server.call_tool("who", frame=frame)) == "wired"
        assert called == []


class CalledInATransaction(TransactionTestCase):
    """A synchronous call shares the transaction of whoever calls."""

    def test_what_is_rolled_back_takes_what_the_handler_wrote_with_it(self) -> None:
        from django.db import transaction

        server = Server("writer")

        @server.tool
        def write(name: str) -> str:
            Group.objects.create(name=name)
            return "Written"

        with transaction.atomic():
            server.call_tool("write", {"name": "gone"})
            self.assertEqual(Group.objects.count(), 1)
            transaction.set_rollback(True)

        self.assertEqual(Group.objects.count(), 0)


def test_nothing_can_be_called_before_django_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "local", None)

    with pytest.raises(RuntimeError, match=r"django\.setup"):
        shop().call_tool("add")
