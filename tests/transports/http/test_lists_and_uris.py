"""Requests over HTTP, lists, and URIs, as clients send and read them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import ConfigurationError, Server, routing
from tests.by_hand.catalog import cancelled, in_session, shop
from tests.memory_stores import Configure
from tests.rows import rows
from tests.wire.asgi import AsgiClient
from tests.wire.messages import META, NEWEST_SESSION, SESSIONS, encoded


@pytest.mark.parametrize(
    "accepts",
    [
        ["APPLICATION/JSON, TEXT/EVENT-STREAM"],
        ["application/json", "text/event-stream"],
        ["text/event-stream", "application/json"],
    ],
)
async def test_accept_header_is_read_as_a_list_without_regard_to_case(accepts: list[str]) -> None:
    peer = AsgiClient(shop())
    message = peer.call("count", params={"_meta": {META + "logLevel": "debug"}})

    response = await peer.post(
        message, {"accept": None}, extra=[("accept", value) for value in accepts]
    )

    assert response.status == 200
    assert response.headers.get("content-type") == "text/event-stream"


@pytest.mark.parametrize(
    "accepts", [["TEXT/EVENT-STREAM"], ["text/event-stream", "application/json"]]
)
async def test_accept_header_of_a_stream_is_read_as_a_list_without_regard_to_case(
    accepts: list[str],
) -> None:
    peer = await in_session()
    pairs = [("accept", value) for value in accepts]
    async with peer.open_get({"accept": None}, extra=pairs) as stream:
        assert await stream.status() == 200


@pytest.mark.parametrize("accept", ["application/json;q=0, text/event-stream;q=0", "*/*;q=0"])
async def test_what_is_not_accepted_at_all_is_answered_406(accept: str) -> None:
    peer = AsgiClient(shop())

    response = await peer.post(peer.call("add"), {"accept": accept})

    assert response.status == 406


async def test_stream_of_quality_zero_is_not_sent() -> None:
    peer = AsgiClient(shop())
    message = peer.call("count", params={"_meta": {META + "logLevel": "debug"}})
    accept = "application/json, text/event-stream;q=0"

    response = await peer.post(message, {"accept": accept})

    assert response.headers.get("content-type") == "application/json"


async def test_get_stream_of_quality_zero_is_answered_406() -> None:
    peer = await in_session()
    pairs = [("accept", "text/event-stream;q=0")]
    async with peer.open_get({"accept": None}, extra=pairs) as stream:
        assert await stream.status() == 406


@pytest.mark.parametrize("endpoint", ["", "sse", "messages"])
async def test_unknown_http_method_is_answered_405_with_allow(
    endpoint: str, configure: Configure
) -> None:
    configure(HTTP_SSE=True)
    found = routing.endpoints(shop())
    path = f"/shop/{endpoint}".rstrip("/")
    peer = AsgiClient(shop(), NEWEST_SESSION, application=found[path], path=path)

    response = await peer.perform("PROPFIND")

    assert response.status == 405
    assert response.headers.get("allow")


@pytest.mark.parametrize("version", ["2099-01-01", "garbage", "", "2025-11-25, 2025-06-18"])
async def test_unknown_version_in_a_session_is_answered_in_terms_of_the_session(
    version: str,
) -> None:
    peer = await in_session()

    response = await peer.post(peer.request("ping", id=5), {"mcp-protocol-version": version})

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
    result = (await peer.post(peer.request("prompts/list"))).result

    has_titles = version >= "2025-06-18"
    assert ("title" in result["prompts"][0]["arguments"][0]) == has_titles


@pytest.mark.parametrize("version", SESSIONS)
async def test_boolean_property_schemas_are_listed_as_objects(version: str) -> None:
    server = Server("shop")

    @server.tool(input_schema={"type": "object", "properties": {"a": True, "b": False}})
    def take(arguments: Any) -> str:
        return ""

    peer = await in_session(server, version)
    listed = (await peer.post(peer.request("tools/list"))).result["tools"][0]

    assert listed["inputSchema"]["properties"] == {"a": {}, "b": {"not": {}}}


@rows("uri", ["1bad scheme://x", "://x", "git://a b", "ä:x", "shop://ä"])
def test_resource_uri_that_is_none_is_rejected_where_it_is_registered(uri: str) -> None:
    server = Server("shop")

    def read() -> str:
        return ""

    with pytest.raises(ConfigurationError):
        server.resource(uri)(read)


async def test_cancelled_request_whose_stream_is_open_ends_without_an_answer() -> None:
    peer = await in_session()
    async with peer.open_post(peer.call("wait", id=5)) as exchange:
        assert (await exchange.message())["method"] == "notifications/message"
        await peer.post(cancelled(5))
        response = await exchange.reply()

    assert [message for message in response.messages if "id" in message] == []


async def test_request_that_takes_too_long_is_answered_on_its_open_stream(
    configure: Configure,
) -> None:
    configure(HANDLER_TIMEOUT=0.2)
    peer = await in_session()

    async with peer.open_post(peer.call("wait", id=5)) as exchange:
        response = await exchange.reply()

    assert response.error["code"] == -32603


async def test_cancelled_request_of_a_batch_is_left_out_of_its_answer() -> None:
    peer = await in_session(version="2025-03-26")
    body = encoded([peer.call("wait", id=5), peer.request("ping", id=6)])
    async with peer.open_post(body, {"accept": "application/json"}) as batch:
        await asyncio.sleep(0.2)
        await peer.post(cancelled(5))
        response = await batch.reply()

    assert [message["id"] for message in response.messages] == [6]


async def test_150_pings_in_a_batch_are_answered() -> None:
    peer = await in_session(version="2025-03-26")
    pings = [peer.request("ping", id=number) for number in range(150)]

    response = await peer.post(encoded(pings))

    assert sum("result" in message for message in response.messages) == 150
