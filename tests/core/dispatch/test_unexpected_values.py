"""Values that are valid JSON, and that nobody expects."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Frame, McpError, Server, ToolError, routing
from tests.by_hand.shop import ELICITS, FORM, peer_of, shop
from tests.memory_stores import Configure
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, STATELESS, text_of


async def test_request_state_means_nothing_in_a_session(configure: Configure) -> None:
    configure(REQUEST_STATE_SINGLE_USE=True)
    peer = await peer_of(shop())

    for state in (5, "text", "text"):
        response = await peer.tool("add", params={"requestState": state})
        assert text_of(response.result) == "0"


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
async def test_request_state_means_nothing_to_a_method_that_never_asks(method: str) -> None:
    peer = AsgiClient(shop())

    response = await peer.post(peer.request(method, {"requestState": "text"}))

    assert "result" in response.answer


async def test_progress_with_an_enormous_total_fails_no_handler() -> None:
    server = Server("shop")

    @server.tool
    async def count(frame: Frame) -> str:
        frame.client.progress(1, total=10**400)
        frame.client.progress(10**400)
        return "done"

    response = await AsgiClient(server).tool("count", params={"_meta": {"progressToken": "p"}})

    assert text_of(response.result) == "done"


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_capability_that_is_no_object_is_rejected_or_ignored(version: str) -> None:
    server = Server("shop")

    @server.tool(requests_input=True)
    async def ask(frame: Frame) -> str:
        answer = await frame.client.aelicit("Sure?", FORM)
        return str(answer.action)

    peer = AsgiClient(server, version, capabilities={**ELICITS, "sampling": 5})
    if version == STATELESS:
        answer = (await peer.tool("ask")).answer
        works = "input_required" in str(answer)
    else:
        answer = (await peer.initialize(ready=False)).answer
        works = "result" in answer
        if works:
            await peer.notify("notifications/initialized")
            async with peer.open_post(peer.call("ask")) as exchange:
                answer = await exchange.message()
                works = answer.get("method") == "elicitation/create"

    assert works or answer.get("error", {}).get("code") == -32602, answer


async def test_unexpected_error_of_the_old_transport_is_json(configure: Configure) -> None:
    class Broken:
        async def authenticate(self, scope: Any, /) -> Any:
            raise RuntimeError("The database is away")

    configure(HTTP_SSE=True)
    server = Server("shop", authenticators=[Broken()])
    path, application = next(
        item for item in routing.endpoints(server).items() if item[0].endswith("/sse")
    )
    peer = AsgiClient(server, "2024-11-05", application=application, path=path)

    response = await peer.perform("GET")

    assert response.status == 500
    assert response.headers.get("content-type") == "application/json"


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ToolError("No such file: caf\udce9.txt"), "os.fsdecode"),
        (McpError("No such file: caf\udce9.txt", code=1001), "os.fsdecode"),
        (McpError("No such file", code=1001, data={"path": object()}), "values that JSON has"),
    ],
    ids=["result", "message", "data"],
)
async def test_error_that_is_no_json_is_logged_with_the_tool_and_a_remedy(
    version: str, error: Exception, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    @server.tool
    def file_name() -> str:
        raise error

    peer = await peer_of(server) if version == NEWEST_SESSION else AsgiClient(server)
    response = await peer.tool("file_name")

    assert response.answer["error"]["code"] == -32603
    assert "The response to tools/call of 'file_name' cannot be sent as JSON" in caplog.text
    assert remedy in caplog.text


async def test_error_that_is_no_json_leaves_the_other_answers_of_its_batch() -> None:
    server = Server("shop")
    server.tool(name="add")(lambda: "done")

    @server.tool
    def file_name() -> str:
        raise McpError("No such file: caf\udce9.txt", code=1001)

    peer = AsgiClient(server, "2025-03-26")
    await peer.initialize()
    response = await peer.post([peer.call("add"), peer.call("file_name"), peer.call("add")])

    answers = sorted(response.json(), key=lambda answer: int(answer["id"]))
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32603, None]
