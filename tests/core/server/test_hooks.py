"""The hooks of a server: process start, session start, unknown methods and notifications."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from django_mcp import (
    ConfigurationError,
    Frame,
    McpError,
    ResourceNotFound,
    Response,
    Server,
    ToolError,
)
from django_mcp.runtime import lifespan
from django_mcp.testing import Client, ErrorResponse
from django_mcp.testing.client import Transport
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec
from tests.waiting import SECONDS

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in listed]


class TestHookRegistration:
    def test_hook_as_a_method_of_a_subclass_is_rejected_with_the_remedy(self) -> None:
        with pytest.raises(ConfigurationError, match="Shop overrides handle_tool_call: decorate"):

            class Shop(Server):
                def handle_tool_call(self, name: str, arguments: Any, frame: Frame) -> str:
                    return name

    @pytest.mark.parametrize(
        ("name", "wrong", "parameters"),
        [
            ("start", lambda server: None, r"\(\)"),
            ("stop", lambda server: None, r"\(\)"),
            ("on_initialize", lambda frame: None, r"\(client_info, capabilities, frame\)"),
            ("init", lambda frame: None, r"\(client_info, frame\)"),
            ("around_call", nullcontext(), r"\(frame\)"),
            ("around_call", lambda: nullcontext(), r"\(frame\)"),
            ("around_call", type("ChangeLog", (), {}), r"\(frame\)"),
            ("handle_tool_call", lambda name, arguments: None, r"\(name, arguments, frame\)"),
            ("handle_resource_read", lambda uri: None, r"\(uri, frame\)"),
            ("handle_completion", lambda ref, argument: None, r"\(ref, argument, frame\)"),
            ("handle_notification", lambda method, frame: None, r"\(method, params, frame\)"),
            ("handle_error", lambda error: None, r"\(message, error\)"),
        ],
    )
    def test_hook_with_other_parameters_is_rejected_with_those_of_its_call(
        self, name: str, wrong: Any, parameters: str
    ) -> None:
        wrong.__name__ = name
        server = Server("shop")
        with pytest.raises(ConfigurationError, match=f"The hook {name} .*be {parameters}"):
            server.hook(wrong)
        assert not server.has_hook(name)

    async def test_hook_is_defined_by_decorator(self) -> None:
        server = Server("shop")

        @server.hook
        async def handle_tool_call(name: str, arguments: Any, frame: Frame) -> str:
            return name

        server.register_tool("anything")
        assert text(await server.acall_tool("anything")) == "anything"

    def test_unknown_hook_is_rejected_with_the_names_of_valid_hooks(self) -> None:
        def handle_everything() -> None:
            """Too much."""

        with pytest.raises(ConfigurationError, match="handle_tool_call"):
            Server("shop").hook(handle_everything)

    @pytest.mark.parametrize("nameless", [partial(print, "started"), "start", None])
    def test_hook_without_a_name_is_rejected_with_the_remedy(self, nameless: Any) -> None:
        with pytest.raises(ConfigurationError, match="has no name: give a function with the name"):
            Server("shop").hook(nameless)

    def test_unknown_server_option_is_rejected(self) -> None:
        with pytest.raises(TypeError, match="unexpected keyword argument 'titel'"):
            Server("shop", titel="Shop")  # type: ignore[call-arg]

    def test_has_hook_reports_defined_hooks(self) -> None:
        server = Server("shop")

        @server.hook
        def init(client_info: Any, frame: Frame) -> Frame:
            return frame

        assert server.has_hook("init")
        assert not server.has_hook("start")


class TestInit:
    @in_sessions
    async def test_init_is_called_once_after_initialized_with_client_info(
        self, client_for: ClientFor
    ) -> None:
        called: list[Any] = []
        server = Server("shop")

        @server.hook
        def init(client_info: Any, frame: Frame) -> None:
            assert frame.request is not None
            called.append((client_info["name"], frame.initialized, frame.request.method))

        async with client_for(server) as client:
            await client.notify("notifications/initialized")
            await client.request("ping")
            await client.notify("notifications/initialized")
            await client.request("ping")

        assert called == [("django-mcp-test-client", True, "notifications/initialized")]

    @in_sessions
    async def test_frame_returned_by_init_is_stored_in_the_session(
        self, client_for: ClientFor
    ) -> None:
        server = Server("shop")

        @server.hook
        async def init(client_info: Any, frame: Frame) -> Frame:
            return frame.assign(greeted=client_info["name"]).put_pagination_limit(1)

        @server.tool
        def who(frame: Frame) -> str:
            return str(frame.assigns["greeted"])

        server.tool(name="another")(who)
        async with client_for(server) as client:
            assert (await client.call_tool("who")).text == "django-mcp-test-client"
            assert len((await client.request("tools/list"))["tools"]) == 1

    @in_sessions
    async def test_components_registered_by_init_are_listed_and_callable(
        self, client_for: ClientFor
    ) -> None:
        server = Server("empty")

        @server.hook
        def init(client_info: Any, frame: Frame) -> Frame:
            return (
                frame.register_tool("own", handler="tests.core.server.test_hooks.own_tool")
                .register_prompt("own", handler=own_prompt)
                .register_resource("own://a", handler=own_resource)
            )

        async with client_for(server) as client:
            assert {"tools", "prompts", "resources"} <= client.initialize_result[
                "capabilities"
            ].keys()
            assert names(await client.list_tools()) == ["own"]
            assert names(await client.list_prompts()) == ["own"]
            assert [each["uri"] for each in await client.list_resources()] == ["own://a"]
            assert (await client.call_tool("own")).text == "The session's own"

    @in_sessions
    @pytest.mark.parametrize("mcp_transport", ["memory", "http"])
    async def test_init_receives_request_headers(self, client_for: ClientFor) -> None:
        seen: list[str | None] = []
        server = Server("shop")

        @server.hook
        def init(client_info: Any, frame: Frame) -> None:
            seen.append(frame.get_req_header("x-tenant"))

        async with client_for(server, headers={"x-tenant": "acme"}) as client:
            await client.request("ping")

        assert seen == ["acme"]

    @in_sessions
    async def test_exception_in_init_closes_the_session_and_calls_handle_error(
        self, client_for: ClientFor, caplog: pytest.LogCaptureFixture
    ) -> None:
        reported: list[str] = []
        server = Server("shop")

        @server.hook
        def handle_error(message: str, error: BaseException | None) -> None:
            reported.append(message)

        @server.hook
        def init(client_info: Any, frame: Frame) -> None:
            raise LookupError("no such tenant")

        client = client_for(server, log_level=None)
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await client.open()
            with pytest.raises(ErrorResponse):
                await client.request("tools/list")
        await client.close()

        assert reported == ["The init hook failed; its session is ended"]
        assert "no such tenant" in caplog.text

    async def test_init_is_not_called_for_stateless_requests(self) -> None:
        called: list[int] = []
        server = Server("shop")

        @server.hook
        def init(client_info: Any, frame: Frame) -> None:
            called.append(1)

        async with Client(server) as client:
            await client.list_tools()

        assert called == []


def own_tool() -> str:
    """A handler that every worker can import."""
    return "The session's own"


def own_prompt() -> str:
    """A handler that every worker can import."""
    return "The session's own"


def own_resource() -> str:
    """A handler that every worker can import."""
    return "The session's own"


class TestOnInitialize:
    @in_sessions
    async def test_on_initialize_receives_client_info_and_its_assigns_are_stored(
        self, client_for: ClientFor
    ) -> None:
        server = Server("shop")

        @server.hook
        def on_initialize(client_info: Any, capabilities: Any, frame: Frame) -> Frame:
            return frame.assign(name=client_info["name"], may_sample="sampling" in capabilities)

        @server.tool
        def who(frame: Frame) -> str:
            return f"{frame.assigns['name']} {frame.assigns['may_sample']}"

        async with client_for(server, sampling={}) as client:
            assert (await client.call_tool("who")).text == "django-mcp-test-client True"

    @in_sessions
    async def test_on_initialize_can_reject_a_client(self, client_for: ClientFor) -> None:
        server = Server("shop")

        @server.hook
        async def on_initialize(client_info: Any, capabilities: Any, frame: Frame) -> None:
            raise McpError("Not you", code=1001)

        client = client_for(server)
        error = await error_of(client.open())
        await client.close()

        assert (error.code, error.message) == (1001, "Not you")


class TestFallbackHooks:
    def server(self) -> Server:
        server = Server("library")

        @server.hook
        def handle_tool_call(name: str, arguments: Any, frame: Frame) -> Any:
            if name == "fail":
                raise ToolError("Not today")
            return {"name": name, "got": dict(arguments)}, frame.assign(last=name)

        @server.hook
        async def handle_resource_read(uri: str, frame: Frame) -> str:
            if uri.endswith("nothing"):
                raise ResourceNotFound
            return f"Contents of {uri}"

        @server.hook
        def handle_prompt_get(name: str, arguments: Any, frame: Frame) -> Response:
            return Response.prompt(name).user(f"{name} {arguments['topic']}")

        @server.hook
        def handle_completion(ref: Any, argument: Any, frame: Frame) -> list[str]:
            return [f"{ref['type']} {argument['name']} {argument['value']}"]

        @server.tool
        def register(frame: Frame) -> Frame:
            schema = {
                "type": "object",
                "properties": {"n": {"type": "integer", "default": 5}},
                "additionalProperties": False,
            }
            return (
                frame.register_tool("count", input_schema=schema)
                .register_tool("fail")
                .register_resource("book://one")
                .register_resource_template("book://{shelf}/{title}", name="books")
                .register_prompt("about", arguments=[{"name": "topic", "required": True}])
            )

        @server.tool
        def last(frame: Frame) -> str:
            return str(frame.assigns["last"])

        return server

    @in_sessions
    async def test_handle_tool_call_receives_validated_arguments(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(self.server()) as client:
            await client.call_tool("register")
            result = await client.call_tool("count")
            wrong = await client.call_tool("count", {"n": "many"})
            failed = await client.call_tool("fail")
            remembered = await client.call_tool("last")

        assert result.text == '{"name":"count","got":{"n":5}}'
        assert wrong["isError"] is True
        assert (failed["isError"], failed.text) == (True, "Not today")
        assert remembered.text == "count"

    @in_sessions
    async def test_handle_resource_read_reads_resources_without_handler(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(self.server()) as client:
            await client.call_tool("register")
            one = await client.read_resource("book://one")
            some = await client.read_resource("book://a/b")
            error = await error_of(client.read_resource("book://a/nothing"))

        assert one.text == "Contents of book://one"
        assert some.text == "Contents of book://a/b"
        assert error.code == -32002

    @in_sessions
    async def test_handle_prompt_get_returns_prompts_without_handler(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(self.server()) as client:
            await client.call_tool("register")
            result = await client.get_prompt("about", {"topic": "whales"})

        assert result.text == "about whales"

    @in_sessions
    async def test_handle_completion_completes_arguments_without_completer(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(self.server()) as client:
            await client.call_tool("register")
            proposed = await client.complete("about", "topic", "wh")
            if supports(client, "completions"):
                assert "completions" in client.initialize_result["capabilities"]

        assert proposed["values"] == ["ref/prompt topic wh"]

    @in_sessions
    async def test_missing_handler_and_hook_returns_error_and_logs_the_hook_name(
        self, client_for: ClientFor, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = Server("forgetful")
        server.register_tool("nobody")
        server.register_prompt("nobody")
        server.register_resource("nobody://here")

        async with client_for(server) as client:
            with caplog.at_level(logging.ERROR, "django_mcp"):
                called = await client.call_tool("nobody")
                got = await error_of(client.get_prompt("nobody"))
                read = await error_of(client.read_resource("nobody://here"))

        assert called["isError"] is True
        assert (got.code, read.code) == (-32603, -32603)
        for hook in ("handle_tool_call", "handle_prompt_get", "handle_resource_read"):
            assert hook in caplog.text

    async def test_component_registered_in_a_stateless_call_is_not_listed_afterwards(
        self,
    ) -> None:
        async with Client(self.server()) as client:
            await client.call_tool("register")
            listed = names(await client.list_tools())

        assert listed == ["last", "register"]


def supports(client: Client, capability: str) -> bool:
    return capability in client.revision.capabilities


class TestHandleNotification:
    @spec("ROOT-03")
    @in_sessions
    async def test_handle_notification_receives_unhandled_notifications(
        self, client_for: ClientFor
    ) -> None:
        received, reported = asyncio.Event(), []
        server = Server("shop")

        @server.hook
        def handle_notification(method: str, params: Any, frame: Frame) -> Frame:
            reported.append((method, params, frame.user.is_anonymous))
            received.set()
            return frame.assign(received=method)

        @server.tool
        def last(frame: Frame) -> str:
            return str(frame.assigns.get("received"))

        async with client_for(server, sync_execution="thread_sensitive") as client:
            await client.notify("notifications/roots/list_changed")
            async with asyncio.timeout(SECONDS):
                await received.wait()
                while (await client.call_tool("last")).text == "None":
                    await asyncio.sleep(0)
            remembered = (await client.call_tool("last")).text

        assert reported == [("notifications/roots/list_changed", {}, True)]
        assert remembered == "notifications/roots/list_changed"

    @in_sessions
    async def test_exception_in_handle_notification_calls_handle_error(
        self, client_for: ClientFor
    ) -> None:
        reported = asyncio.Event()
        server = Server("shop")

        @server.hook
        def handle_error(message: str, error: BaseException | None) -> None:
            reported.set()

        @server.hook
        def handle_notification(method: str, params: Any, frame: Frame) -> None:
            raise LookupError

        async with client_for(server) as client:
            await client.notify("notifications/progress", {"progressToken": 1, "progress": 1})
            async with asyncio.timeout(SECONDS):
                await reported.wait()
            assert await client.request("ping") == {}


class TestHandleError:
    async def test_exception_in_handle_error_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = Server("shop")

        @server.hook
        def handle_error(message: str, error: BaseException | None) -> None:
            raise ZeroDivisionError

        with caplog.at_level(logging.ERROR, "django_mcp"):
            server.report("Something failed", ValueError("inside"))

        assert "Something failed" in caplog.text
        assert "inside" in caplog.text
        assert "handle_error failed" in caplog.text

    async def test_handle_error_is_called_for_exception_in_middleware(
        self, client_for: ClientFor
    ) -> None:
        reported: list[BaseException | None] = []

        async def broken(frame: Frame, call_next: Any) -> Any:
            raise LookupError("inside")

        server = Server("shop", middleware=[broken])

        @server.hook
        def handle_error(message: str, error: BaseException | None) -> None:
            reported.append(error)

        client = client_for(server, log_level=None)
        error = await error_of(client.request("tools/list"))
        await client.close()

        assert error.code == -32603
        assert "inside" not in error.message
        assert isinstance(reported[0], LookupError)


EXIT_SCRIPT = """
import django
django.setup()
from django_mcp import Server

one = Server("one")
other = Server("other")

@one.hook
def start():
    print("started")

@one.hook
def stop():
    print("stopped")

@other.hook
async def stop():
    print("astopped")

one.register_tool("call", lambda: print("called"))
one.call_tool("call")
other.list_tools()
"""


class TestStartAndStop:
    async def test_start_is_called_once_before_the_first_request(
        self, client_for: ClientFor
    ) -> None:
        happened: list[str] = []
        server = Server("shop")

        @server.hook
        def start() -> None:
            happened.append("start")

        @server.tool
        def work() -> str:
            happened.append("work")
            return "done"

        ran = [server.is_running]
        async with client_for(server) as client:
            await client.call_tool("work")
            await client.call_tool("work")
            ran.append(server.is_running)

        assert ran == [False, True]
        assert happened == ["start", "work", "work"]
        await lifespan.stop(server)

    async def test_concurrent_first_calls_start_the_server_once(self) -> None:
        started, may_start = [], asyncio.Event()
        server = Server("shop")

        @server.hook
        async def start() -> None:
            started.append(1)
            await may_start.wait()

        server.tool(own_tool)
        calls = [asyncio.ensure_future(server.acall_tool("own_tool")) for _ in range(5)]
        await asyncio.sleep(0)
        may_start.set()
        await asyncio.gather(*calls)

        assert started == [1]
        await lifespan.stop(server)

    async def test_failed_start_is_retried_by_the_next_request(
        self, mcp_transport: Transport
    ) -> None:
        attempts = iter([LookupError("not yet"), LookupError("nor now")])
        server = Server("shop", capabilities={"tools": {}})

        @server.hook
        def start() -> None:
            for error in attempts:
                raise error

        async with Client(server, transport=mcp_transport) as client:
            first = await error_of(client.request("tools/list"))
            second = await error_of(client.request("tools/list"))
            third = await client.request("tools/list")

        assert (first.code, second.code, third["tools"]) == (-32603, -32603, [])
        await lifespan.stop(server)

    async def test_stop_is_called_once_and_the_server_can_be_restarted(self) -> None:
        happened: list[str] = []
        server = Server("shop")

        @server.hook
        def start() -> None:
            happened.append("start")

        @server.hook
        def stop() -> None:
            happened.append("stop")

        await lifespan.start(server)
        await lifespan.stop(server)
        await lifespan.stop(server)
        await lifespan.start(server)
        await lifespan.stop_all()

        assert happened == ["start", "stop", "start", "stop"]
        assert server.is_running is False

    def test_running_servers_are_stopped_when_the_interpreter_exits(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", EXIT_SCRIPT],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "example_site.settings"},
            capture_output=True,
            text=True,
            check=True,
        )

        assert done.stdout.split() == ["started", "called", "astopped", "stopped"]

    async def test_exception_in_stop_does_not_prevent_other_servers_from_stopping(self) -> None:
        happened: list[str] = []

        first, second, third = servers = [Server("a"), Server("b"), Server("c")]

        @first.hook
        @third.hook
        async def stop() -> None:
            happened.append("stop")

        def fail() -> None:
            raise LookupError

        fail.__name__ = "stop"
        second.hook(fail)
        for server in servers:
            await lifespan.start(server)
        await lifespan.stop_all()

        assert happened == ["stop", "stop"]
