"""The format of messages and responses, seen from outside."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from django_mcp import ConfigurationError, Frame, Server, registry, routing
from tests.memory_stores import Configure
from tests.robustness.peer import (
    META,
    NEWEST_SESSION,
    STATELESS,
    Message,
    Peer,
    encoded,
    text_of,
)
from tests.robustness.processes import call, request, stdio
from tests.spec import spec
from tests.waiting import happens

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def add(a: int = 0) -> int:
        """Adds."""
        return a

    @server.tool
    async def count(frame: Frame) -> str:
        """Counts."""
        frame.client.log("error", "counted")
        await asyncio.sleep(0.05)
        return "done"

    @server.tool
    async def wait(frame: Frame) -> str:
        """Waits."""
        await frame.client.alog("error", "waiting")
        await asyncio.Event().wait()
        return "never"

    return server


async def in_session(
    server: Server | None = None, version: str = NEWEST_SESSION, **facts: Any
) -> Peer:
    peer = Peer(server or shop(), version, **facts)
    await peer.initialize()
    return peer


# Row 23. Errors with the id of their request.


async def test_error_for_a_listen_request_without_stream_has_its_id() -> None:
    peer = Peer(shop())

    response = await peer.send(
        peer.listen(5, toolsListChanged=True),
        without=["accept"],
        extra=[("accept", "application/json")],
    )

    assert response.status == 406
    assert response.answer.get("id") == 5


async def test_error_for_an_unknown_version_has_the_id_of_its_request() -> None:
    peer = Peer(shop(), NEWEST_SESSION)

    response = await peer.send(
        peer.request("tools/list", id=5), extra=[("mcp-protocol-version", "2099-01-01")]
    )

    assert response.status == 400
    assert response.answer.get("id") == 5


@pytest.mark.parametrize(("named", "status"), [(None, 400), ("unknown", 404)])
async def test_error_for_a_missing_session_has_the_id_of_its_request(
    named: str | None, status: int
) -> None:
    peer = Peer(shop(), NEWEST_SESSION, session=named)

    response = await peer.send(peer.request("ping", id=5))

    assert response.status == status
    assert response.answer.get("id") == 5


@pytest.mark.parametrize("version", ["2099-01-01", "garbage"])
async def test_error_for_a_wrong_version_in_a_session_has_the_id_of_its_request(
    version: str,
) -> None:
    peer = await in_session()

    response = await peer.send(
        peer.request("ping", id=5), extra=[("mcp-protocol-version", version)]
    )

    assert response.answer.get("id") == 5


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_error_for_a_wrong_accept_header_has_the_id_of_its_request(version: str) -> None:
    peer = Peer(shop(), version)
    if version != STATELESS:
        await peer.initialize()

    response = await peer.send(
        peer.request("tools/list", id=0), without=["accept"], extra=[("accept", "text/html")]
    )

    assert response.status == 406
    assert response.answer.get("id") == 0


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_error_for_a_wrong_content_type_has_the_id_of_its_request(version: str) -> None:
    peer = await in_session(version=version) if version != STATELESS else Peer(shop())

    response = await peer.send(
        peer.request("tools/list", id=5),
        without=["content-type"],
        extra=[("content-type", "text/plain")],
    )

    assert (response.status, response.answer.get("id")) == (415, 5)


async def test_error_for_an_unknown_connection_has_the_id_of_its_request(
    configure: Configure,
) -> None:
    configure(HTTP_SSE=True)
    found = routing.endpoints(shop())
    peer = Peer(shop(), "2024-11-05", application=found["/shop/messages"], path="/shop/messages")

    response = await peer.send(peer.request("ping", id=5))

    assert (response.status, response.answer.get("id")) == (400, 5)


@pytest.mark.parametrize(
    "message", [{"jsonrpc": "2.0", "method": "x"}, {"jsonrpc": "2.0", "id": 5, "result": {}}, 5]
)
async def test_error_for_what_is_no_request_has_no_id(message: Any) -> None:
    peer = Peer(shop(), NEWEST_SESSION)

    response = await peer.send(encoded(message))

    assert response.status == 400
    assert response.answer.get("id") is None


# Row 24. Blocks that a revision lacks.


def odd() -> Server:
    server = Server("odd")
    block = {"type": "tool_use", "id": "1", "name": "x", "input": {}}

    @server.prompt
    def odd_prompt() -> Any:
        return [{"role": "user", "content": block}]

    return server


async def test_prompt_with_an_unknown_block_is_an_error_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(9, "prompts/get", {"name": "odd"})

    assert answer["error"]["code"] == -32603


async def test_prompt_with_an_unknown_block_is_an_error_over_http() -> None:
    peer = Peer(odd())

    response = await peer.send(peer.request("prompts/get", {"name": "odd_prompt"}, id=9))

    assert response.error["code"] == -32603
    assert response.answer.get("id") == 9


async def test_prompt_with_an_unknown_block_is_an_error_over_http_sse(
    configure: Configure,
) -> None:
    configure(HTTP_SSE=True)
    found = routing.endpoints(odd())
    paths = {path.rpartition("/")[2]: path for path in found if path.count("/") == 2}
    reader = Peer(odd(), "2024-11-05", application=found[paths["sse"]], path=paths["sse"])
    writer = Peer(odd(), "2024-11-05", application=found[paths["messages"]], path=paths["messages"])
    async with reader.open(method="GET") as stream:
        assert await happens(lambda: b"data:" in stream.response.body)
        line = next(
            each for each in stream.response.body.decode().split("\n") if each.startswith("data:")
        )
        query = line.partition("?")[2].strip()

        async def post(message: Message) -> None:
            scope = writer.scope("POST", message)
            scope["query_string"] = query.encode()
            incoming: asyncio.Queue[Message] = asyncio.Queue()
            incoming.put_nowait(
                {"type": "http.request", "body": encoded(message), "more_body": False}
            )

            async def send(_: Message) -> None:
                """The response says only that it was accepted."""

            await writer.application(scope, incoming.get, send)

        hello = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        await post(writer.request("initialize", hello, id=1))
        await happens(lambda: b'"id":1' in stream.response.body)
        await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await post(writer.request("prompts/get", {"name": "odd_prompt"}, id=9))
        answered = await happens(lambda: b'"id":9' in stream.response.body, 1)
    # A task whose exception nobody retrieved is logged now, and not while pytest reads a file.
    await asyncio.sleep(0)
    gc.collect()

    assert answered, "There is no answer"


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *(("resource", version) for version in [*SESSIONS, STATELESS]),
        # The first two revisions have no links at all, which is noticed.
        *(("resource_link", version) for version in [*SESSIONS[2:], STATELESS]),
    ],
)
async def test_sampling_with_a_block_that_it_lacks_is_not_sent(version: str, kind: str) -> None:
    block = {
        "resource": {"type": "resource", "resource": {"uri": "shop://x", "text": "x"}},
        "resource_link": {"type": "resource_link", "uri": "shop://x", "name": "x"},
    }[kind]
    server = Server("shop")

    @server.tool(requests_input=True)
    async def sample(frame: Frame) -> str:
        await frame.client.acreate_message([{"role": "user", "content": block}], 50, timeout=0.5)
        return "done"

    peer = Peer(server, version, capabilities={"sampling": {}})
    if version != STATELESS:
        await peer.initialize()
    async with peer.open(peer.call("sample")) as exchange:
        await exchange.whole()
        found = str(exchange.response.messages)

    assert "sampling/createMessage" not in found


# Row 25. Cancellations that come before or after.


def cancelled(id: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


async def test_cancellation_before_initialize_does_not_swallow_it() -> None:
    async with stdio() as server:
        server.write(cancelled("hello"))
        await server.initialize()


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_cancellation_after_the_answer_swallows_no_request_over_stdio(version: str) -> None:
    meta = {"version": version} if version == STATELESS else {}
    async with stdio() as server:
        if version != STATELESS:
            await server.initialize()
        for _ in range(2):
            server.write(call(5, "add", {"a": 1, "b": 2}, **meta))
            answer = await server.until(id=5)
            server.write(cancelled(5))

    assert text_of(answer["result"]) == "3"


@spec("answers-10")
async def test_cancellation_after_the_answer_swallows_no_request_over_http() -> None:
    peer = await in_session()
    for _ in range(2):
        response = await peer.send(peer.call("add", {"a": 3}, id=5))
        await peer.send(cancelled(5))

    assert text_of(response.result) == "3"


async def test_cancellation_before_a_listen_request_does_not_swallow_it() -> None:
    async with stdio() as server:
        server.write(cancelled("news"))
        wanted = {"notifications": {"toolsListChanged": True}}
        server.write(request("news", "subscriptions/listen", wanted, version=STATELESS))
        await server.until(method="notifications/subscriptions/acknowledged")


# Row 26. HTTP, lists, and URIs.


@pytest.mark.parametrize(
    "accepts",
    [
        ["APPLICATION/JSON, TEXT/EVENT-STREAM"],
        ["application/json", "text/event-stream"],
        ["text/event-stream", "application/json"],
    ],
)
async def test_accept_header_is_read_as_a_list_without_regard_to_case(accepts: list[str]) -> None:
    peer = Peer(shop())
    message = peer.call("count", _meta={META + "logLevel": "debug"})

    response = await peer.send(
        message, without=["accept"], extra=[("accept", value) for value in accepts]
    )

    assert response.status == 200
    assert response.header("content-type") == "text/event-stream"


@pytest.mark.parametrize(
    "accepts", [["TEXT/EVENT-STREAM"], ["text/event-stream", "application/json"]]
)
async def test_accept_header_of_a_stream_is_read_as_a_list_without_regard_to_case(
    accepts: list[str],
) -> None:
    peer = await in_session()
    pairs = [("accept", value) for value in accepts]
    async with peer.open(method="GET", without=["accept"], extra=pairs) as stream:
        assert await stream.status() == 200


@pytest.mark.parametrize("accept", ["application/json;q=0, text/event-stream;q=0", "*/*;q=0"])
async def test_what_is_not_accepted_at_all_is_answered_406(accept: str) -> None:
    peer = Peer(shop())

    response = await peer.send(peer.call("add"), without=["accept"], extra=[("accept", accept)])

    assert response.status == 406


async def test_stream_of_quality_zero_is_not_sent() -> None:
    peer = Peer(shop())
    message = peer.call("count", _meta={META + "logLevel": "debug"})
    accept = "application/json, text/event-stream;q=0"

    response = await peer.send(message, without=["accept"], extra=[("accept", accept)])

    assert response.header("content-type") == "application/json"


async def test_get_stream_of_quality_zero_is_answered_406() -> None:
    peer = await in_session()
    pairs = [("accept", "text/event-stream;q=0")]
    async with peer.open(method="GET", without=["accept"], extra=pairs) as stream:
        assert await stream.status() == 406


@pytest.mark.parametrize("endpoint", ["", "sse", "messages"])
async def test_unknown_http_method_is_answered_405_with_allow(
    endpoint: str, configure: Configure
) -> None:
    configure(HTTP_SSE=True)
    found = routing.endpoints(shop())
    path = f"/shop/{endpoint}".rstrip("/")
    peer = Peer(shop(), NEWEST_SESSION, application=found[path], path=path)

    response = await peer.send(method="PROPFIND")

    assert response.raised is None
    assert response.status == 405
    assert response.header("allow")


@pytest.mark.parametrize("version", ["2099-01-01", "garbage", "", "2025-11-25, 2025-06-18"])
async def test_unknown_version_in_a_session_is_answered_in_terms_of_the_session(
    version: str,
) -> None:
    peer = await in_session()

    response = await peer.send(
        peer.request("ping", id=5), extra=[("mcp-protocol-version", version)]
    )

    assert response.status == 400
    assert response.error["code"] == -32600


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_titles_of_prompt_arguments_are_listed_where_the_revision_has_them(
    version: str,
) -> None:
    server = Server("shop")
    argument = {"name": "q", "title": "The title", "description": "Q", "required": True}

    @server.prompt(arguments=[argument])
    def ask(arguments: Any) -> str:
        return "x"

    peer = await in_session(server, version)
    result = (await peer.send(peer.request("prompts/list"))).result

    has_titles = version >= "2025-06-18"
    assert ("title" in result["prompts"][0]["arguments"][0]) == has_titles


@pytest.mark.parametrize("version", SESSIONS)
async def test_boolean_property_schemas_are_listed_as_objects(version: str) -> None:
    server = Server("shop")

    @server.tool(input_schema={"type": "object", "properties": {"a": True, "b": False}})
    def take(arguments: Any) -> str:
        return ""

    peer = await in_session(server, version)
    listed = (await peer.send(peer.request("tools/list"))).result["tools"][0]

    assert listed["inputSchema"]["properties"] == {"a": {}, "b": {"not": {}}}


@pytest.mark.parametrize("uri", ["1bad scheme://x", "://x", "git://a b", "ä:x", "shop://ä"])
def test_resource_uri_that_is_none_is_rejected_where_it_is_registered(uri: str) -> None:
    server = Server("shop")

    def read() -> str:
        return ""

    with pytest.raises(ConfigurationError):
        server.resource(uri)(read)


async def test_cancelled_request_whose_stream_is_open_ends_without_an_answer() -> None:
    peer = await in_session()
    async with peer.open(peer.call("wait", id=5)) as exchange:
        assert (await exchange.message())["method"] == "notifications/message"
        await peer.send(cancelled(5))
        response = await exchange.whole()

    assert [message for message in response.messages if "id" in message] == []


async def test_request_that_takes_too_long_is_answered_on_its_open_stream(
    configure: Configure,
) -> None:
    configure(HANDLER_TIMEOUT=0.2)
    peer = await in_session()

    async with peer.open(peer.call("wait", id=5)) as exchange:
        response = await exchange.whole()

    assert response.error["code"] == -32603


async def test_cancelled_request_of_a_batch_is_left_out_of_its_answer() -> None:
    peer = await in_session(version="2025-03-26")
    body = encoded([peer.call("wait", id=5), peer.request("ping", id=6)])
    async with peer.open(body, without=["accept"], extra=[("accept", "application/json")]) as batch:
        await asyncio.sleep(0.2)
        await peer.send(cancelled(5))
        response = await batch.whole()

    assert [message["id"] for message in response.messages] == [6]


async def test_150_pings_in_a_batch_are_answered() -> None:
    peer = await in_session(version="2025-03-26")
    pings = [peer.request("ping", id=number) for number in range(150)]

    response = await peer.send(encoded(pings))

    assert sum("result" in message for message in response.messages) == 150


# Row 27. Scenarios of the official suite.


def conformance() -> Server:
    return registry.get("conformance")


async def tools_of(server: Server) -> list[str]:
    peer = Peer(server)
    names: list[str] = []
    cursor: Message = {}
    while True:
        result = (await peer.send(peer.request("tools/list", cursor))).result
        names += [tool["name"] for tool in result["tools"]]
        if "nextCursor" not in result:
            return names
        cursor = {"cursor": result["nextCursor"]}


@pytest.mark.parametrize(
    "tool",
    [
        "test_tool_slow",
        "test_tool_fast",
        "test_elicitation_sep1036_url",
        "test_elicitation_sep1036_error",
        "test_elicitation_sep1036_complete",
        "sep_2106_array_output_tool",
        "sep_2106_primitive_output_tool",
        "test_legacy_extension_capabilities",
    ],
)
async def test_example_site_has_the_tool_of_the_official_suite(tool: str) -> None:
    assert tool in await tools_of(conformance())


async def test_slow_tool_of_the_official_suite_streams_at_once() -> None:
    peer = Peer(conformance())
    message = peer.call("test_tool_slow", {"durationMs": 10_000}, _meta={"progressToken": "p"})
    async with peer.open(message) as exchange:
        assert (await exchange.message(3)).get("method") is not None


async def test_structured_content_of_the_official_suite_is_not_wrapped() -> None:
    peer = Peer(conformance())
    array = (await peer.tool("sep_2106_array_output_tool")).result
    number = (await peer.tool("sep_2106_primitive_output_tool")).result

    assert isinstance(array["structuredContent"], list)
    assert isinstance(number["structuredContent"], int | float)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_session_serves_requests_with_another_supported_version(version: str) -> None:
    peer = await in_session()

    response = await peer.send(
        peer.call("add", {"a": 3}), extra=[("mcp-protocol-version", version)]
    )

    assert response.status == 200
    assert text_of(response.result) == "3"


async def test_extensions_are_negotiated_in_a_session() -> None:
    wanted = {"com.example/conformance": {"nested": {"enabled": False}, "values": ["a", 2, None]}}
    peer = Peer(conformance(), NEWEST_SESSION, capabilities={"extensions": wanted})
    opened = await peer.initialize()
    declared = opened.result["capabilities"].get("extensions", {})
    reported = await peer.tool("test_legacy_extension_capabilities")

    assert declared.get("com.example/conformance", {}).get("nested") == {
        "enabled": True,
        "limit": 3,
    }
    assert json.loads(text_of(reported.result))["extensions"] == wanted
