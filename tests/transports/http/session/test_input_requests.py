"""Input requests in a session: sent on the call's stream, answered by another POST."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import stores
from django_mcp.testing.asgi import TIMEOUT
from tests.constants import SetConstants
from tests.spec import spec
from tests.transports.http.session.streams import ACCEPT_RESULT, NameHeaderAuthentication
from tests.transports.sample_server import Desk
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

CAPABILITIES: dict[str, Any] = {"elicitation": {}}


async def ready(desk: Desk, version: str = NEWEST_SESSION, **options: Any) -> AsgiClient:
    peer = AsgiClient(desk.server, version, capabilities=CAPABILITIES, **options)
    await peer.initialize()
    return peer


def response(request: dict[str, Any], result: Any = ACCEPT_RESULT) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


@spec("T-HTTP-14", "T-HTTP-23")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("tool", ["ask", "ask_in_a_thread"])
async def test_input_request_is_sent_on_the_stream_of_its_call(
    desk: Desk, version: str, tool: str
) -> None:
    peer = await ready(desk, version=version)
    async with peer.stream() as standalone, peer.open_post(peer.call(tool)) as call:
        request = await call.message()
        assert request["method"] == "elicitation/create"
        reply = await peer.post(response(request))
        assert (reply.status, reply.body) == (202, b"")
        assert text_of(await call.message()) == "accept: {'name': 'Ann'}"
        assert await call.event() is None
        assert b"elicitation" not in await _read_pending(standalone)


async def _read_pending(stream: Any) -> bytes:
    """The methods on the stream so far."""
    pieces = []
    while not stream._outgoing.empty():
        pieces.append(await stream.read() or b"")
    return b"".join(pieces)


async def test_input_request_for_a_json_only_call_is_sent_on_the_get_stream(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as standalone:
        for _ in range(3):
            await standalone.message()
        call = peer.post(peer.call("ask"), {"accept": "application/json"})
        answering = asyncio.ensure_future(call)
        request = await standalone.message()
        await peer.post(response(request))
        assert text_of((await answering).json()) == "accept: {'name': 'Ann'}"


async def test_client_error_response_is_raised_in_the_handler(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        request = await call.message()
        error = {"code": -1, "message": "The user rejected it"}
        await peer.post({"jsonrpc": "2.0", "id": request["id"], "error": error})
        assert text_of(await call.message()) == "error -1: The user rejected it"


async def test_invalid_client_response_repeats_the_input_request(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        first = await call.message()
        await peer.post(response(first, {"action": "accept", "content": {"name": 7}}))
        second = await call.message()
        assert second["id"] != first["id"]
        await peer.post(response(second))
        assert text_of(await call.message()) == "accept: {'name': 'Ann'}"


@spec("T-HTTP-15", "T-HTTP-16")
async def test_response_with_an_unknown_id_is_rejected(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        request = await call.message()
        for made_up in (request["id"] + "x", "question-1", 1, ""):
            reply = await peer.post({"jsonrpc": "2.0", "id": made_up, "result": ACCEPT_RESULT})
            assert reply.status == 400
        await peer.post(response(request))
        assert text_of(await call.message()) == "accept: {'name': 'Ann'}"


@spec("ELIC-22")
async def test_response_from_another_session_is_rejected(desk: Desk) -> None:
    mine, other = await ready(desk), await ready(desk)
    async with mine.open_post(mine.call("ask")) as call:
        request = await call.message()
        assert (await other.post(response(request))).status == 400
        assert (await mine.post(response(request))).status == 202
        assert text_of(await call.message()) == "accept: {'name': 'Ann'}"


@spec("ELIC-22", "ELIC-23", "ELIC-24", "SEC-06")
async def test_response_from_another_principal_is_not_found(desk: Desk) -> None:
    desk.server.authenticators = [NameHeaderAuthentication()]
    ann = await ready(desk, headers={"x-name": "ann"})
    async with ann.open_post(ann.call("ask")) as call:
        request = await call.message()
        bob = AsgiClient(
            desk.server, NEWEST_SESSION, session=ann.session, headers={"x-name": "bob"}
        )
        assert (await bob.post(response(request))).status == 404
        assert (await ann.post(response(request))).status == 202
        assert text_of(await call.message()) == "accept: {'name': 'Ann'}"


@spec("LIFE-23", "LIFE-28", "CANC-01", "CANC-08", "CANC-09", "CANC-12")
async def test_response_after_the_timeout_is_ignored(
    desk: Desk, set_constants: SetConstants
) -> None:
    set_constants(RESPONSE_TIMEOUT=0.05)
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        request = await call.message()
        withdrawn = await call.message()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == request["id"]
        assert (await call.message())["result"]["isError"] is True
        assert (await peer.post(response(request))).status == 202


@spec("CANC-08")
async def test_response_that_is_repeated_is_stored_once(
    desk: Desk, set_constants: SetConstants
) -> None:
    set_constants(RESPONSE_TIMEOUT=0.05)
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        request = await call.message()
        await call.message()
        assert (await call.message())["result"]["isError"] is True
    appended: list[str] = []
    store = stores.events()
    append = store.append

    async def noted(session: str, stream: str, data: Any, **more: Any) -> Any:
        appended.append(stream)
        return await append(session, stream, data, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "append", noted)
        # As if the call that waits for it were in another process.
        patch.setattr(store, "is_shared", True)
        for _ in range(3):
            assert (await peer.post(response(request))).status == 202
    assert len([stream for stream in appended if stream.startswith("response.")]) == 1


@spec("CANC-01", "CANC-06")
@pytest.mark.parametrize("tool", ["ask", "ask_in_a_thread"])
async def test_cancelled_call_cancels_its_input_request(desk: Desk, tool: str) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call(tool, id="mine")) as call:
        request = await call.message()
        await peer.notify("notifications/cancelled", requestId="mine")
        withdrawn = await call.message()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == request["id"]
    if tool == "ask_in_a_thread":
        assert await asyncio.to_thread(desk.thread.wait, TIMEOUT)
        assert desk.ended == ["ConnectionError"]


async def test_deleted_session_cancels_its_input_requests(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        await call.message()
        await peer.delete()
        received = [await call.message(), await call.message()]
        assert [each["error"]["code"] for each in received if "error" in each] == [-32603]


async def test_input_request_is_replayed_after_a_disconnect(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("ask")) as call:
        primed = await call.event()
        assert primed is not None
    async with peer.stream(last=primed.id) as stream:
        request = await stream.message()
        await peer.post(response(request))
        assert text_of(await stream.message()) == "accept: {'name': 'Ann'}"


async def test_handler_can_ping_the_client(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("ping_client")) as call:
        ping = await call.message()
        assert (ping["method"], ping["params"]) == ("ping", {})
        await peer.post(response(ping, {}))
        assert text_of(await call.message()) == "there"


@spec("T-HTTP-42", "PING-02", "PING-05")
async def test_server_can_ping_a_session_by_its_id(desk: Desk) -> None:
    peer = await ready(desk)
    assert peer.session is not None
    async with peer.stream() as stream:
        for _ in range(3):
            await stream.message()
        pinging = asyncio.ensure_future(desk.server.aping(peer.session))
        await peer.post(response(await stream.message(), {}))
        await pinging
        pinging = asyncio.ensure_future(asyncio.to_thread(desk.server.ping, peer.session))
        await peer.post(response(await stream.message(), {}))
        await pinging
        with pytest.raises(TimeoutError):
            await desk.server.aping(peer.session, timeout=0.02)
    with pytest.raises(LookupError):
        await desk.server.aping("unknown")


# Cancellation.


@spec("T-HTTP-29")
async def test_cancelled_call_is_stopped_and_answered_with_an_error(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("work_silently", id=5)) as call:
        await desk.wait_started()
        reply = await peer.notify("notifications/cancelled", requestId=5, reason="enough")
        assert reply.status == 202
        assert await call.status() == 200
        answer = await call.body()
    assert b'"id":5,"error":{"code":-32603,"message":"Cancelled"}' in answer
    assert desk.ended == ["cancelled"]


@spec("CANC-09")
@pytest.mark.parametrize("wrong", ["5", 6, True, 5.0, None, [5]])
async def test_cancellation_with_an_unknown_request_id_is_ignored(desk: Desk, wrong: Any) -> None:
    peer, other = await ready(desk), await ready(desk)
    async with peer.open_post(peer.call("work_silently", id=5)) as call:
        await desk.wait_started()
        assert (await peer.notify("notifications/cancelled", requestId=wrong)).status == 202
        assert (await other.notify("notifications/cancelled", requestId=5)).status == 202
        desk.proceed.set()
        assert b'"result"' in await call.body()


@spec("CANC-09")
async def test_cancellation_before_its_request_is_ignored(desk: Desk) -> None:
    peer = await ready(desk)
    await peer.notify("notifications/cancelled", requestId="early")
    desk.proceed.set()
    reply = await peer.post(peer.call("work_silently", id="early"))
    assert "result" in reply.json()


async def test_request_with_an_id_in_flight_is_rejected(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("work_silently", id=1)) as call:
        await desk.wait_started()
        reply = await peer.post(peer.request("ping", id=1))
        assert (reply.status, reply.json()["error"]["code"]) == (200, -32600)
        assert (await peer.post(peer.request("ping", id="1"))).json()["result"] == {}
        desk.proceed.set()
        assert b'"result"' in await call.body()
    assert (await peer.post(peer.request("ping", id=1))).json()["result"] == {}


@spec("TOOL-32")
async def test_request_beyond_the_in_flight_limit_is_rejected(desk: Desk, configure: Any) -> None:
    configure(MAX_IN_FLIGHT=1)
    peer, other = await ready(desk), await ready(desk)
    async with peer.open_post(peer.call("work_silently")) as call:
        await desk.wait_started()
        reply = await peer.post(peer.request("ping"))
        assert reply.json()["error"]["code"] == -32600
        reply = await other.post(other.request("ping"))  # Another session of the same caller.
        assert (reply.status, reply.json()["error"]["code"]) == (429, -32600)
        assert reply.headers["retry-after"] == "1"
        desk.proceed.set()
        await call.body()
    assert (await peer.post(peer.request("ping"))).json()["result"] == {}
