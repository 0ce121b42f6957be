"""The test client: its responses to input requests, its validation, and its errors."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Frame, McpError, Server, ToolError, registry
from django_mcp.core.components.base import UnserializableResult
from django_mcp.core.protocol.revisions import Revision
from django_mcp.core.server.components import ComponentCollection
from django_mcp.testing import Client, ErrorResponse, SyncClient, accept, asgi, cancel, decline
from django_mcp.testing.plugin import ClientFor
from tests import spec_schemas
from tests.http_errors import error_of
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.spec_schemas import SchemaMismatch
from tests.waiting import SECONDS

__all__ = ["configure"]

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ROOTS = [{"uri": "file:///home", "name": "Home"}]
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Yes"}, "model": "m"}


def curious() -> Server:
    """A server that sends each kind of input request."""
    server = Server("curious")

    @server.tool
    async def name(frame: Frame) -> str:
        answer = await frame.client.aelicit("Your name?", NAME)
        return f"{answer.action} {answer.content}"

    @server.tool
    def sample(frame: Frame) -> str:
        return frame.client.create_message("Are you there?", 10).text

    @server.tool
    async def roots(frame: Frame) -> str:
        return ", ".join(root.uri for root in await frame.client.alist_roots())

    return server


def small(**options: Any) -> Server:
    """A server with one tool."""
    server = Server("small", **options)
    server.tool(name="nothing")(lambda: None)
    return server


# Responses to input requests.


async def test_wrong_answer_of_a_test_is_named() -> None:
    async with Client(curious(), version="2026-07-28", elicitation=accept(name=7)) as client:
        with pytest.raises(AssertionError, match="after 10 attempts\nthe answer.name: .*string"):
            await client.call_tool("name")


async def test_input_requests_are_answered_with_the_given_values(
    client_for: ClientFor, mcp_version: str
) -> None:
    answers: dict[str, Any] = {"sampling": SAMPLED, "roots": ROOTS}
    if mcp_version >= "2025-06-18":
        answers["elicitation"] = accept(name="Ada")

    async with client_for(curious(), **answers) as client:
        assert (await client.call_tool("sample")).text == "Yes"
        assert (await client.call_tool("roots")).text == "file:///home"
        if "elicitation" in answers:
            assert (await client.call_tool("name")).text == "accept {'name': 'Ada'}"


@pytest.mark.parametrize("mcp_version", ["2025-11-25", "2026-07-28"])
async def test_elicitation_answer_can_be_a_function(client_for: ClientFor) -> None:
    received: list[str] = []

    async def answer(params: dict[str, Any]) -> Any:
        received.append(params["message"])
        return accept(name="Ada") if len(received) == 1 else decline()

    async with client_for(curious(), elicitation=answer) as client:
        first = (await client.call_tool("name")).text
        second = (await client.call_tool("name")).text

    assert (first, second) == ("accept {'name': 'Ada'}", "decline None")
    assert received == ["Your name?", "Your name?"]


@pytest.mark.parametrize("mcp_version", ["2025-11-25", "2026-07-28"])
async def test_elicitation_can_be_cancelled(client_for: ClientFor) -> None:
    async with client_for(curious(), elicitation=lambda params: cancel()) as client:
        assert (await client.call_tool("name")).text == "cancel None"


async def test_capability_without_a_given_answer_is_not_declared(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(curious(), roots=ROOTS) as client:
        if mcp_version == "2026-07-28":
            error = await error_of(client.call_tool("sample"))
            assert error.data == {"requiredCapabilities": {"sampling": {}}}
        else:  # In a session, the model reads it.
            result = await client.call_tool("sample")
            assert result.is_error
            assert "sampling" in result.text
        assert (await client.call_tool("roots")).text == "file:///home"


@pytest.mark.parametrize("mcp_version", ["2025-11-25"])
async def test_input_request_without_a_given_answer_is_a_tool_error(client_for: ClientFor) -> None:
    async with client_for(curious(), capabilities={"sampling": {}}) as client:
        result = await client.call_tool("sample")

    assert result["isError"] is True


async def test_endless_input_requests_fail_the_test() -> None:
    server = Server("curious")
    count = iter(range(100))

    @server.tool
    def ask(frame: Frame) -> str:
        frame.client.elicit("Another?", NAME, key=f"question-{next(count)}")
        return "never"

    async with Client(server, elicitation=accept(name="Ada")) as client:
        with pytest.raises(AssertionError, match="still requires input after 10 attempts"):
            await client.call_tool("ask")


# Validation and notifications.

with_schemas = pytest.mark.skipif(
    spec_schemas.FOLDER not in os.environ, reason="the official schemas are not available"
)


@spec("RPC-07", "RPC-18")
@with_schemas
async def test_result_that_violates_the_official_schema_fails_the_test(
    client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_for(small()) as client:
        monkeypatch.setattr(Revision, "serialize_result", lambda *_, **__: {"tools": "none"})
        monkeypatch.setattr(ComponentCollection, "encoded_list", lambda *_: b'"none"')
        with pytest.raises(SchemaMismatch, match="tools"):
            await client.list_tools()


@spec("2026/JR-10")
@with_schemas
async def test_notification_that_violates_the_official_schema_fails_the_test(
    client_for: ClientFor,
) -> None:
    server = Server("odd")

    @server.tool
    def report(frame: Frame) -> None:
        frame.client.notify("notifications/progress", {"progress": "half"})

    async with client_for(server) as client:
        with pytest.raises(SchemaMismatch, match="ProgressNotification"):
            await client.call_tool("report")


async def test_results_are_not_validated_without_the_official_schemas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DJANGO_MCP_SPEC_SCHEMAS", raising=False)

    async with Client(small()) as client:
        monkeypatch.setattr(ComponentCollection, "encoded_list", lambda *_: b'["anything"]')
        listed: list[Any] = await client.list_tools()

    assert listed == ["anything"]


async def test_notifications_are_received_while_the_client_listens(client_for: ClientFor) -> None:
    server = Server("desk")
    server.tool(name="nothing")(lambda: None)
    server.resource("desk://tickets", name="tickets")(lambda: "")
    server.resource("desk://others", name="others")(lambda: "")

    async with client_for(server) as client:
        async with client.listen("desk://tickets"):
            await server.anotify_tools_list_changed()
            await client.wait_for("notifications/tools/list_changed")
            await server.anotify_resource_updated("desk://others")
            await server.anotify_resource_updated("desk://tickets")
            first = await client.wait_for("notifications/resources/updated")
            await server.anotify_resource_updated("desk://tickets")
            second = await client.wait_for("notifications/resources/updated")
        assert len(await client.list_tools()) == 1

    assert (first["uri"], second["uri"]) == ("desk://tickets", "desk://tickets")


async def test_wait_for_a_missing_notification_times_out(client_for: ClientFor) -> None:
    async with client_for(Server("desk"), timeout=0.2) as client, client.listen():
        with pytest.raises(TimeoutError):
            await client.wait_for("notifications/tools/list_changed")


# Errors.


async def test_error_response_is_raised_unchanged(
    client_for: ClientFor, mcp_transport: str
) -> None:
    async with client_for(small()) as client:
        with pytest.raises(McpError) as caught:
            await client.call_tool("anything")

    error = caught.value
    assert isinstance(error, ErrorResponse)
    assert str(error) == "-32602: Unknown tool: anything"
    assert (error.status is None) == (mcp_transport != "http")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_http_error_is_raised_with_its_status(version: str) -> None:
    server = Server(
        "closed", authenticators=["django_mcp.auth.django_session.DjangoSessionAuthentication"]
    )
    client = Client(server, version=version, transport="http")

    error = await error_of(client.list_tools())

    assert error.status == 401


async def test_call_without_a_response_times_out(client_for: ClientFor) -> None:
    server = Server("slow")

    @server.tool
    async def sleep() -> None:
        await asyncio.Event().wait()

    async with client_for(server, timeout=0.2) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("sleep")


async def test_response_over_http_is_awaited_as_long_as_the_client_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("slow")

    @server.tool
    async def sleep() -> str:
        await asyncio.sleep(0.3)
        return "awake"

    monkeypatch.setattr(asgi, "TIMEOUT", 0.1)
    client = Client(server, transport="http", user=User(pk=1), timeout=SECONDS)
    assert (await client.call_tool("sleep")).text == "awake"


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_query_selects_components(transport: Any) -> None:
    server = Server("shop")
    server.tool(name="stock", group="counter")(lambda: 3)
    server.tool(name="audit")(lambda: "fine")
    async with Client(
        server, transport=transport, query="groups=counter", user=User(pk=1)
    ) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["stock"]


def test_query_is_refused_where_it_selects_nothing() -> None:
    with pytest.raises(ValueError, match="write groups"):
        Client(small(), query="group=counter")
    for facts in (
        {"query": "groups=counter"},
        {"headers": {"x-name": "bob"}},
        {"session": object()},
    ):
        with pytest.raises(ValueError, match="stdio does not have"):
            Client(small(), transport="stdio", **facts)


@pytest.mark.parametrize(
    ("status", "media_type", "body"),
    [
        (200, "text/html", b"<h1>Welcome</h1>"),
        (500, "text/plain", b""),
        (202, "application/json", b""),
        (200, "text/event-stream", b'data: {"method":"notifications/message"}\n\n'),
    ],
)
async def test_invalid_http_response_fails_the_test(
    status: int, media_type: str, body: bytes
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", media_type.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    client = Client(Server("odd"), transport="http")
    client.connection._application = application  # type: ignore[attr-defined]

    with pytest.raises((ConnectionError, SchemaMismatch)):
        await client.list_tools()
    if status != 202:
        with pytest.raises(ConnectionError):
            await client.notify("notifications/cancelled")


@pytest.mark.parametrize("mcp_version", ["2024-11-05", "2025-11-25"])
async def test_blocking_client_method_in_an_async_handler_is_a_tool_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("odd")

    @server.tool
    async def ask(frame: Frame) -> str:
        return frame.client.create_message("Are you there?", 10).text

    async with client_for(server, sampling=SAMPLED) as client:
        assert (await client.call_tool("ask"))["isError"] is True

    assert "await the method whose name begins with 'a'" in caplog.text


@pytest.mark.parametrize("mcp_version", ["2024-11-05", "2025-11-25"])
async def test_ping_of_the_server_is_answered(client_for: ClientFor) -> None:
    server = Server("odd")

    @server.tool
    async def ping(frame: Frame) -> str:
        await frame.client.aping()
        return "there"

    async with client_for(server) as client:
        assert (await client.call_tool("ping")).text == "there"


# Opening and closing.


async def test_first_call_opens_the_client(client_for: ClientFor) -> None:
    client = client_for(small())

    assert len(await client.list_tools()) == 1
    await client.close()
    await client.close()


async def test_server_can_be_given_by_name() -> None:
    async with Client() as one, Client("mcp") as other:
        assert one.server is other.server

    with pytest.raises(LookupError, match="There is no MCP server 'nobody'"):
        Client("nobody")


@pytest.mark.parametrize("mcp_version", ["2025-11-25"])
@pytest.mark.parametrize("mcp_transport", ["http"])
async def test_stream_closed_by_the_server_is_resumed(client_for: ClientFor) -> None:
    server = Server("slow")

    @server.tool
    async def work(frame: Frame) -> str:
        frame.client.progress(1)
        await frame.client.aclose_stream(retry=0)
        frame.client.progress(2)
        return "done"

    async with client_for(server) as client:
        assert (await client.call_tool("work")).text == "done"
        assert [each["progress"] for each in client.progress] == [1, 2]


def test_stdio_transport_is_rejected_by_the_sync_client() -> None:
    with pytest.raises(ValueError, match="use Client in an async test"):
        SyncClient(Server("empty"), transport="stdio")


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_sync_client_supports_the_methods_of_the_async_client(
    transport: str, version: str, configure: Configure
) -> None:
    server = curious()

    @server.tool
    def count(frame: Frame) -> tuple[str, Frame]:
        number = frame.assigns.get("number", 0) + 1
        frame.client.progress(number)
        frame.client.log("info", "counted")
        return str(number), frame.assign("number", number)

    server.prompt(name="greet", complete={"name": lambda value: ["Ada"]})(_greet)
    server.resource("curious://{name}", name="names")(_greet)
    server.resource("curious://all", name="all")(lambda: "all")

    with SyncClient(server, transport=transport, version=version, sampling=SAMPLED) as client:
        numbers = [client.call_tool("count").text for _ in range(2)]
        assert client.call_tool("sample").text == "Yes"
        assert len(client.list_tools()) == 4
        assert len(client.list_prompts()) == 1
        assert len(client.list_resources()) == len(client.list_resource_templates()) == 1
        assert client.get_prompt("greet", {"name": "Ada"})["messages"]
        assert client.read_resource("curious://Ada").text == "Ada"
        assert client.complete("greet", "name")["values"] == ["Ada"]
        answer = client.send({"jsonrpc": "2.0", "id": 1})
        assert answer is not None
        assert answer["error"]["code"] == -32600
        client.notify("notifications/cancelled", {"requestId": 99})

    assert numbers == (["1", "1"] if version == "2026-07-28" else ["1", "2"])
    assert len(client.progress) == len(client.logs) == 2
    assert len(client.notifications) == 4


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_event_loops_of_sync_calls_are_released(
    transport: str, version: str, configure: Configure
) -> None:
    server = Server("shop")
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    @server.tool
    async def note() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))

    with SyncClient(server, transport=transport, version=version) as client:
        for _ in range(10):
            client.call_tool("note")
    gc.collect()

    assert len(loops) == 10
    assert sum(loop() is not None for loop in loops) <= 1


def _greet(name: str) -> str:
    return name


class TestRaiseExceptions:
    @pytest.fixture
    def server(self) -> Server:
        server = Server("desk", notify_lists_on_initialize=False)

        @server.tool
        def broken() -> str:
            raise LookupError("inside")

        @server.tool
        def faulty() -> object:
            return object()

        @server.resource("desk://broken")
        async def read() -> str:
            raise LookupError("inside")

        @server.prompt(complete={"topic": lambda value: 1 / 0})
        def prompt(topic: str = "") -> str:
            raise LookupError("inside")

        @server.tool
        def expected() -> str:
            raise ToolError("Try again")

        return server

    @pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
    @pytest.mark.parametrize("transport", ["memory", "http"])
    @pytest.mark.django_db(transaction=True)
    async def test_unexpected_exception_is_raised_in_the_test(
        self, server: Server, version: str, transport: Any
    ) -> None:
        options: Any = {"version": version, "transport": transport, "user": User(pk=1)}
        async with Client(server, **options, raise_exceptions=True) as client:
            for call in (
                client.call_tool("broken"),
                client.read_resource("desk://broken"),
                client.get_prompt("prompt"),
            ):
                with pytest.raises(LookupError, match="inside"):
                    await call
            with pytest.raises(UnserializableResult, match="not JSON serializable"):
                await client.call_tool("faulty")
            with pytest.raises(ZeroDivisionError):
                await client.complete("prompt", "topic", "a")
            assert (await client.call_tool("expected"))["isError"]

    async def test_client_may_receive_the_error_instead(self, server: Server) -> None:
        async with Client(server, raise_exceptions=False) as client:
            assert (await client.call_tool("broken"))["isError"]
            with pytest.raises(ErrorResponse, match="could not be read"):
                await client.read_resource("desk://broken")

    @pytest.mark.parametrize("transport", ["memory", "http", "stdio"])
    @pytest.mark.django_db(transaction=True)
    async def test_exception_of_another_client_is_not_raised(
        self, server: Server, transport: Any
    ) -> None:
        options: Any = {"transport": transport, "user": User(pk=1), "raise_exceptions": True}
        async with Client(server, **options) as one, Client(server, **options) as other:
            with pytest.raises(LookupError, match="inside"):
                await one.call_tool("broken")
            assert (await other.call_tool("expected"))["isError"]

    async def test_exception_of_a_message_sent_by_hand_is_not_raised_later(
        self, server: Server
    ) -> None:
        async with Client(server, raise_exceptions=True) as client:
            message = client.message("tools/call", {"name": "broken"})
            await client.send({**message, "id": message["id"] + 1})
            assert (await client.call_tool("expected"))["isError"]

    async def test_exception_of_another_server_is_not_raised(self, server: Server) -> None:
        other = Server("other")

        @other.tool
        async def call() -> str:
            result = await server.acall_tool("broken")
            return str(result["isError"])

        async with Client(other, raise_exceptions=True) as client:
            assert (await client.call_tool("call")).text == "True"


def test_client_raises_what_mount_raises_for_a_broken_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = registry.Broken("shop.mcp", SyntaxError("invalid syntax"))
    monkeypatch.setattr(registry.registered, "broken", [broken])
    for client in (Client, SyncClient):
        with pytest.raises(ImproperlyConfigured, match="shop.mcp cannot be imported: SyntaxError"):
            client()
