"""In-process calls from the site's own code: without client, transport or session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import TransactionTestCase

from django_mcp import (
    AuthenticationRequired,
    Frame,
    InsufficientScope,
    InvalidParams,
    McpError,
    ResourceNotFound,
    Response,
    Server,
    ToolError,
)
from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import MissingClientCapability
from django_mcp.core.server import in_process
from django_mcp.testing import Client, accept
from django_mcp.testing.plugin import ClientFor
from tests.memory_stores import Configure

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


SHOWN = ("add", "double", "fail", "refuse", "write")
"""The tools which an anonymous caller sees."""


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


class TestSyncCalls:
    def test_sync_call_returns_the_tool_result(self) -> None:
        result = shop().call_tool("add", {"a": 1, "b": 2})

        assert result["structuredContent"] == {"sum": 3}
        assert not result.get("isError")

    def test_sync_call_runs_an_async_tool(self) -> None:
        assert text(shop().call_tool("double", {"a": 2})) == "4"

    def test_call_without_required_arguments_returns_an_error_result(self) -> None:
        result = shop().call_tool("add")

        assert result["isError"] is True
        assert "a" in text(result)

    def test_tool_error_is_returned_as_an_error_result(self) -> None:
        assert shop().call_tool("fail") == {
            "content": [{"type": "text", "text": "Out of paper"}],
            "isError": True,
        }

    def test_mcp_error_returned_by_a_handler_is_raised(self) -> None:
        with pytest.raises(McpError, match="Closed") as caught:
            shop().call_tool("refuse")
        assert caught.value.code == 1001

    def test_unknown_component_raises_an_error(self) -> None:
        server = shop()
        with pytest.raises(InvalidParams):
            server.call_tool("nothing")
        with pytest.raises(InvalidParams):
            server.get_prompt("nothing")
        with pytest.raises(ResourceNotFound):
            server.read_resource("shop://nothing")

    def test_read_resource_returns_contents_of_resource_and_template(self) -> None:
        server = shop()
        (contents,) = server.read_resource("shop://mon/hours")["contents"]

        assert (contents["uri"], contents["text"]) == ("shop://mon/hours", "mon")
        assert server.read_resource("shop://hours")["contents"][0]["text"] == "always"

    def test_get_prompt_returns_its_messages(self) -> None:
        result = shop().get_prompt("greet", {"name": "Ada"})

        assert result["description"] == "A greeting"
        assert result["messages"][0]["content"]["text"] == "Greet Ada, kind"

    def test_complete_returns_values_for_prompt_and_template(self) -> None:
        server = shop()
        found = server.complete("greet", "name", "Ho", context={"tone": "rude"})

        assert found["values"] == ["Hona", "rude"]
        assert server.complete("shop://{day}/hours", "day")["values"] == ["mon"]

    def test_local_lists_ignore_the_page_size(self) -> None:
        server = shop()

        assert [tool["name"] for tool in server.list_tools()] == [*SHOWN]
        assert [each["uri"] for each in server.list_resources()] == ["shop://hours"]
        assert [each["name"] for each in server.list_resource_templates()] == ["hours_of"]
        assert [each["name"] for each in server.list_prompts()] == ["greet"]

    def test_local_call_drops_notifications_and_rejects_input_requests(self) -> None:
        server = Server("chatty")

        @server.tool
        def chat(frame: Frame) -> str:
            frame.client.log("error", "Hello?")
            frame.client.progress(1, 2)
            assert frame.get_mcp_session_id() is None
            assert frame.transport is None
            return frame.client.create_message("Hello?", max_tokens=5).text

        with pytest.raises(MissingClientCapability):
            server.call_tool("chat")

    def test_sync_handler_can_make_nested_sync_calls(self) -> None:
        server = shop()

        @server.tool
        def twice(frame: Frame) -> str:
            first = server.call_tool("add", {"a": 1}, frame=frame)
            return str(server.call_tool("add", {"a": first["structuredContent"]["sum"]}))

        assert "3" in text(server.call_tool("twice"))


class TestAsyncCalls:
    async def test_every_local_call_has_an_async_variant(self) -> None:
        server = shop()

        assert (await server.acall_tool("add", {"a": 1}))["structuredContent"] == {"sum": 2}
        assert (await server.aread_resource("shop://hours"))["contents"][0]["text"] == "always"
        assert (await server.aget_prompt("greet", {"name": "Ada"}))["messages"]
        assert (await server.acomplete("greet", "name"))["values"] == ["na"]
        assert len(await server.alist_tools()) == len(SHOWN)
        assert len(await server.alist_resources()) == 1
        assert len(await server.alist_resource_templates()) == 1
        assert len(await server.alist_prompts()) == 1

    async def test_sync_call_in_an_event_loop_raises_runtime_error(self) -> None:
        with pytest.raises(RuntimeError):
            shop().call_tool("double", {"a": 1})

    async def test_async_calls_run_concurrently(self) -> None:
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


class TestCallerIdentity:
    @pytest.mark.django_db
    def test_local_call_applies_the_permissions_of_the_given_user(self) -> None:
        ada = User.objects.create_user("ada")
        ada.user_permissions.add(Permission.objects.get(codename="add_group"))
        server = shop()

        assert text(server.call_tool("add_group", {"name": "staff"}, user=ada)) == "ada adds staff"
        assert "add_group" in [tool["name"] for tool in server.list_tools(user=ada)]
        with pytest.raises(InvalidParams):
            server.call_tool("add_group", {"name": "staff"})

    def test_local_call_applies_the_given_scopes(self) -> None:
        server = shop()

        assert text(server.call_tool("write", scopes=["write"])) == "Written"
        with pytest.raises(InsufficientScope) as lacking:
            server.call_tool("write", scopes=["read"])
        with pytest.raises(AuthenticationRequired) as anonymous:
            server.call_tool("write")
        assert lacking.value.scopes == anonymous.value.scopes == {"write"}

    def test_frame_processors_run_for_local_calls(self, configure: Configure) -> None:
        configure(FRAME_PROCESSORS=["tests.core.server.test_in_process.tenant"])
        server = Server("tenants")

        @server.tool
        def whose(frame: Frame) -> str:
            return str(frame.assigns["tenant"])

        assert text(server.call_tool("whose")) == "acme"


def tenant(frame: Frame) -> dict[str, str]:
    """A frame processor."""
    return {"tenant": "acme"}


class TestNestedCalls:
    async def test_nested_call_inherits_assigns_and_client_of_the_outer_call(
        self, client_for: ClientFor
    ) -> None:
        server = Server("nested")

        @server.tool
        def inner(frame: Frame) -> Any:
            frame.client.log("info", "from within")
            name = frame.client.elicit("Name?", NAME, key="name").content["name"]
            return f"{name}, {frame.assigns['tenant']}", frame.assign(tenant="changed within")

        @server.tool(requests_input=True)
        def outer(frame: Frame) -> Any:
            frame = frame.assign(tenant="acme")
            result = server.call_tool("inner", frame=frame)
            return f"{text(result)}, {frame.assigns['tenant']}"

        async with client_for(server, elicitation=accept(name="Ada")) as client:
            if client.revision.server_requests >= {"elicitation/create"}:
                assert (await client.call_tool("outer")).text == "Ada, acme, acme"
                assert "from within" in [log["data"] for log in client.logs]

    async def test_async_handler_can_make_nested_async_calls(self, client_for: ClientFor) -> None:
        server = shop()

        @server.tool
        async def outer(frame: Frame) -> str:
            result = await server.acall_tool("double", {"a": 4}, frame=frame)
            return text(result)

        async with client_for(server) as client:
            assert (await client.call_tool("outer")).text == "8"

    async def test_nested_sync_calls_do_not_exhaust_the_thread_pool(
        self, configure: Configure
    ) -> None:
        configure(SYNC_THREAD_POOL_SIZE=1)
        server = shop()

        @server.tool
        def outer(frame: Frame) -> str:
            return str(server.call_tool("add", {"a": 4}, frame=frame)["structuredContent"])

        async with Client(server, sync_execution="threads") as client:
            assert "5" in (await client.call_tool("outer")).text


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class TestHandle:
    def test_handle_returns_the_jsonrpc_response(self) -> None:
        answer = shop().handle(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fail"}}
        )

        assert answer == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"content": [{"type": "text", "text": "Out of paper"}], "isError": True},
        }

    def test_handle_answers_initialize_without_opening_a_session(self) -> None:
        server = shop()
        params = {
            "protocolVersion": LATEST,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        initialize_request = {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params}
        initialize_response = server.handle(initialize_request)
        listed = server.handle({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})

        assert initialize_response is not None
        assert initialize_response["result"]["serverInfo"] == {"name": "shop", "version": "1.2"}
        assert listed is not None
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["add", "double"]

    def test_handle_accepts_stateless_request_meta(self) -> None:
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
    def test_handle_returns_errors_as_jsonrpc_responses(
        self, message: dict[str, Any], code: int
    ) -> None:
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
    def test_handle_returns_none_for_notifications_and_responses(
        self, message: dict[str, Any]
    ) -> None:
        assert shop().handle(message) is None

    async def test_ahandle_returns_the_jsonrpc_response(self) -> None:
        assert await shop().ahandle({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {},
        }


class TestHandleInitialize:
    def test_handle_initialize_records_the_client_without_calling_hooks(self) -> None:
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


class LocalCallTransactionTests(TransactionTestCase):
    """A synchronous call shares the transaction of its caller."""

    def test_rollback_of_the_caller_also_rolls_back_handler_writes(self) -> None:
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


def test_local_call_before_django_setup_raises_runtime_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_process, "CALLER", Port("calls a Server in process"))

    with pytest.raises(RuntimeError, match=r"django\.setup"):
        shop().call_tool("add")
