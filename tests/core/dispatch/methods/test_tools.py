"""tools/call: the input of a handler, and its result or exception."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from django_mcp import Frame, Header, McpError, ResourceNotFound, Response, Server, Tool, ToolError
from django_mcp.core.components.responses import ToolResponse
from django_mcp.core.protocol.errors import InvalidParams
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.spec import spec


class Item(BaseModel):
    name: str
    count: int = 1


# Input of a handler.


async def test_sync_function_is_called(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with client_for(server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result.text == "3"


async def test_async_function_is_awaited(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with client_for(server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result.text == "3"


async def test_list_request_that_names_a_tool_does_not_call_it(client_for: ClientFor) -> None:
    server, called = Server("shop"), []

    @server.tool
    async def pay() -> str:
        called.append("pay")
        return "Paid"

    async with client_for(server) as client:
        await client.call_tool("pay")
        result = await client.request("tools/list", {"name": "pay"})

    assert [tool["name"] for tool in result["tools"]] == called == ["pay"]


async def test_arguments_are_converted_to_their_annotated_types(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def order(item: Item, tags: set[str], at: Annotated[float, Field(gt=0)] = 0.5) -> str:
        return f"{type(item).__name__} {item.name} {item.count} {sorted(tags)} {at}"

    async with client_for(server) as client:
        result = await client.call_tool("order", {"item": {"name": "tea"}, "tags": ["b", "a", "a"]})

    assert result.text == "Item tea 1 ['a', 'b'] 0.5"


@spec("TOOL-37")
async def test_call_without_arguments_uses_defaults(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def greet(name: str = "you") -> str:
        return name

    async with client_for(server) as client:
        result = await client.request("tools/call", {"name": "greet"})

    assert result.text == "you"


async def test_tool_class_receives_an_instance_of_its_input_model(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    class Greet(Tool):
        """Greets."""

        class Input(BaseModel):
            name: str
            loud: bool = False

        def execute(self, params: Input, frame: Frame) -> str:
            return params.name.upper() if params.loud else params.name

    async with client_for(server) as client:
        result = await client.call_tool("greet", {"name": "ada", "loud": True})

    assert result.text == "ADA"


@spec("TOOL-30")
async def test_explicit_input_schema_is_enforced(client_for: ClientFor) -> None:
    server = Server("shop")
    schema = {
        "type": "object",
        "properties": {"size": {"enum": ["small", "large"]}, "count": {"type": "integer"}},
        "required": ["size"],
    }

    @server.tool(input_schema=schema)
    async def order(params: dict[str, Any]) -> str:
        return f"{params}"

    async with client_for(server) as client:
        fits = await client.call_tool("order", {"size": "large"})
        invalid = await client.call_tool("order", {"size": "huge", "count": "many"})

    assert fits.text == "{'size': 'large'}"
    assert invalid["isError"] is True
    assert "size" in invalid.text
    assert "count" in invalid.text


async def test_frame_parameter_is_injected_and_omitted_from_the_input_schema(
    client_for: ClientFor,
) -> None:
    server = Server("shop")

    @server.tool
    def who(frame: Frame) -> str:
        assert frame.request is not None
        return f"{frame.request.method} {frame.request.params['name']}"

    async with client_for(server) as client:
        assert (await client.call_tool("who")).text == "tools/call who"
        (tool,) = await client.list_tools()

    assert tool["inputSchema"]["properties"] == {}


# Results.


@spec("TOOL-18")
async def test_none_result_is_sent_as_empty_content(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def forget() -> None:
        pass

    async with client_for(server) as client:
        result = await client.call_tool("forget")

    assert result["content"] == []
    assert "isError" not in result


async def test_returned_frame_alone_is_sent_as_empty_content(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def remember(frame: Frame) -> Frame:
        return frame.assign("it", 1)

    async with client_for(server) as client:
        assert (await client.call_tool("remember"))["content"] == []


async def test_value_returned_with_a_frame_is_sent(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def remember(frame: Frame) -> tuple[str, Frame]:
        return "done", frame.assign("it", 1)

    async with client_for(server) as client:
        assert (await client.call_tool("remember")).text == "done"


async def test_tool_response_is_sent_with_its_blocks_and_meta(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def report() -> ToolResponse:
        return Response.tool().text("first").text("second").meta({"com.example/key": 1})

    async with client_for(server) as client:
        result = await client.call_tool("report")

    assert [block["text"] for block in result["content"]] == ["first", "second"]
    assert result["_meta"]["com.example/key"] == 1


# Exceptions.


@spec("TOOL-29", "2026/TOOL-10")
async def test_tool_error_is_returned_as_an_error_result(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def order() -> str:
        raise ToolError("Sold out: try tomorrow")

    async with client_for(server) as client:
        result = await client.call_tool("order")

    assert (result["isError"], result.text) == (True, "Sold out: try tomorrow")


async def test_error_response_is_returned_as_an_error_result(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def order() -> ToolResponse:
        return Response.tool().error("Sold out")

    async with client_for(server) as client:
        result = await client.call_tool("order")

    assert (result["isError"], result.text) == (True, "Sold out")


@pytest.mark.parametrize("raised", [True, False])
async def test_mcp_error_is_returned_as_a_jsonrpc_error(
    client_for: ClientFor, raised: bool
) -> None:
    server = Server("shop")

    @server.tool
    def order() -> McpError:
        error = McpError("Closed", code=1234, data={"opens": "tomorrow"})
        if raised:
            raise error
        return error

    async with client_for(server) as client:
        error = await error_of(client.call_tool("order"))

    assert (error.code, error.message, error.data) == (1234, "Closed", {"opens": "tomorrow"})


async def test_resource_not_found_has_the_error_code_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.tool
    def find() -> str:
        raise ResourceNotFound

    @server.tool
    def check() -> InvalidParams:
        return InvalidParams("No")

    async with client_for(server) as client:
        not_found = await error_of(client.call_tool("find"))
        invalid = await error_of(client.call_tool("check"))

    assert not_found.code == (-32602 if mcp_version == "2026-07-28" else -32002)
    assert invalid.code == -32602


@spec("TOOL-29", "TOOL-33", "LOG-09")
async def test_exception_is_logged_and_its_message_is_not_sent_to_the_client(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    @server.tool
    def order() -> str:
        raise RuntimeError("the password is xyzzy")

    async with client_for(server) as client:
        result = await client.call_tool("order")

    assert result["isError"] is True
    assert "failed unexpectedly" in result.text
    assert "xyzzy" not in result.text
    (record,) = [each for each in caplog.records if each.name == "django_mcp"]
    assert record.exc_info is not None
    assert "xyzzy" in str(record.exc_info[1])


async def test_exception_message_is_sent_to_the_client_under_debug(
    client_for: ClientFor, settings: Any, configure: Configure
) -> None:
    settings.DEBUG = True
    server = Server("shop")

    @server.tool
    async def order() -> str:
        raise RuntimeError("no such table")

    async with client_for(server) as client:
        result = await client.call_tool("order")

    assert "RuntimeError: no such table" in result.text


async def test_call_after_an_exception_succeeds(client_for: ClientFor) -> None:
    server = Server("shop")
    failures = iter([RuntimeError(), ToolError(), McpError(), None])

    @server.tool
    def order() -> str:
        failure = next(failures)
        if failure is not None:
            raise failure
        return "tea"

    async with client_for(server) as client:
        await client.call_tool("order")
        await client.call_tool("order")
        await error_of(client.call_tool("order"))
        assert (await client.call_tool("order")).text == "tea"


# Features of some revisions.


@spec("2026/XH-05")
@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
async def test_argument_sent_in_a_header_is_passed_to_the_handler(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def order(region: Annotated[str, Header("Region")], count: int = 1) -> str:
        return region

    async with client_for(server) as client:
        result = await client.call_tool("order", {"region": "Île-de-France"})

    assert result.text == "Île-de-France"
