"""A stdio connection: input requests, subscriptions, notifications and batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.pubsub import announcements, bus
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.connection import connection
from django_mcp.transports.connection.request import SESSION
from tests.spec import spec
from tests.transports.http.session.streams import ACCEPT_RESULT, INITIAL_NOTIFICATIONS
from tests.transports.sample_server import Desk
from tests.waiting import SECONDS, until
from tests.wire.messages import NEWEST_SESSION, SESSIONS, STATELESS
from tests.wire.stdio import StdioClient

ID = "io.modelcontextprotocol/subscriptionId"


async def begin(pipe: StdioClient, version: str, **capabilities: Any) -> None:
    """Open the session, and receive what it begins with."""
    pipe.version, pipe.capabilities = version, capabilities
    await pipe.initialize()
    assert [(await pipe.message())["method"] for _ in range(3)] == INITIAL_NOTIFICATIONS


async def assert_no_output(pipe: StdioClient) -> None:
    """Assert that there are no more lines."""
    ping = pipe.send(pipe.request("ping"))
    assert (await pipe.message())["id"] == ping


@asynccontextmanager
async def connected(desk: Desk, version: str = STATELESS) -> AsyncIterator[StdioClient]:
    pipe = StdioClient(desk.server, version)
    async with pipe.served():
        yield pipe
        desk.proceed.set()


@spec("T-CUST-01", "T-CUST-02")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("tool", ["ask", "ask_in_a_thread"])
async def test_input_request_is_answered_over_stdio(desk: Desk, version: str, tool: str) -> None:
    async with connected(desk) as pipe:
        await begin(pipe, version, elicitation={})
        call = pipe.send(pipe.call(tool))
        request = await pipe.message()
        assert request["method"] == "elicitation/create"
        pipe.send({"jsonrpc": "2.0", "id": request["id"], "result": ACCEPT_RESULT})
        answer = await pipe.message()
        assert answer["id"] == call
        assert answer["result"]["content"][0]["text"] == "accept: {'name': 'Ann'}"


async def test_cancelled_call_cancels_its_input_request_and_gets_no_response(desk: Desk) -> None:
    async with connected(desk) as pipe:
        await begin(pipe, "2025-11-25", elicitation={})
        call = pipe.send(pipe.call("ask_in_a_thread"))
        request = await pipe.message()
        pipe.notify("notifications/cancelled", requestId=call)
        withdrawn = await pipe.message()
        assert withdrawn["params"]["requestId"] == request["id"]
        assert await asyncio.to_thread(desk.thread.wait, TIMEOUT)
        assert desk.ended == ["ConnectionError"]
        pipe.send({"jsonrpc": "2.0", "id": request["id"], "result": ACCEPT_RESULT})
        await assert_no_output(pipe)


@spec("2026/CAN-04")
async def test_cancellation_before_its_request_is_ignored(desk: Desk) -> None:
    async with connected(desk) as pipe:
        await begin(pipe, "2025-11-25")
        pipe.notify("notifications/cancelled", requestId="early")
        pipe.send(pipe.call("work_silently", id="early"))
        await asyncio.wait_for(desk.started.wait(), TIMEOUT)


@spec("TOOL-03")
@pytest.mark.parametrize("version", SESSIONS)
async def test_list_changes_are_sent_to_the_session(desk: Desk, version: str) -> None:
    async with connected(desk) as pipe:
        await begin(pipe, version)
        await desk.server.anotify_prompts_list_changed()
        assert (await pipe.message())["method"] == INITIAL_NOTIFICATIONS[2]
        pipe.notify("notifications/initialized")
        await assert_no_output(pipe)


async def test_subscription_whose_request_was_cancelled_can_be_made_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client cancels it while the connection subscribes to the updates of the server."""
    subscribing = asyncio.Event()

    async def hang(*_: Any) -> None:
        subscribing.set()
        await asyncio.Event().wait()

    uri = "desk://news"
    async with connected(desk) as pipe:
        await begin(pipe, NEWEST_SESSION)
        with monkeypatch.context() as hanging:
            hanging.setattr(announcements.Announcements, "subscribe", hang)
            cancelled = pipe.send(pipe.request("resources/subscribe", {"uri": uri}))
            async with asyncio.timeout(TIMEOUT):
                await subscribing.wait()
            pipe.notify("notifications/cancelled", requestId=cancelled)
            await assert_no_output(pipe)
        pipe.send(pipe.request("resources/subscribe", {"uri": uri}))
        assert (await pipe.message())["result"] == {}
        await desk.server.anotify_resource_updated(uri)
        assert (await pipe.message())["params"] == {"uri": uri}


@spec("RES-07")
@pytest.mark.parametrize("version", SESSIONS)
async def test_resource_updates_are_sent_only_while_subscribed(desk: Desk, version: str) -> None:
    async with connected(desk) as pipe:
        await begin(pipe, version)
        await desk.server.anotify_resource_updated("desk://news")
        pipe.send(pipe.request("resources/subscribe", {"uri": "desk://news"}))
        assert (await pipe.message())["result"] == {}
        await desk.server.anotify_resource_updated("desk://news")
        assert (await pipe.message())["params"] == {"uri": "desk://news"}
        pipe.send(pipe.request("resources/unsubscribe", {"uri": "desk://news"}))
        assert (await pipe.message())["result"] == {}
        await desk.server.anotify_resource_updated("desk://news")
        pipe.send(pipe.request("resources/subscribe", {"uri": "desk://secret"}))
        assert (await pipe.message())["error"]["code"] == -32002


async def test_notification_by_session_id_is_sent_to_that_connection_only(desk: Desk) -> None:
    @desk.server.tool
    async def remember(frame: Frame) -> str:
        """Sends a notification to the calling session, as a task that outlives the call would."""
        await desk.server.asend_notification("x/y", session_id=frame.get_mcp_session_id())
        return "told"

    async with connected(desk) as pipe, connected(desk) as other:
        for each in (pipe, other):
            await begin(each, "2025-11-25")
        call = pipe.send(pipe.call("remember"))
        assert (await pipe.message())["method"] == "x/y"
        assert (await pipe.message())["id"] == call
        await assert_no_output(other)


@spec("2026/TR-02", "2026/CAN-05")
async def test_listen_request_receives_notifications_and_is_answered_on_close(desk: Desk) -> None:
    pipe = StdioClient(desk.server)
    serving = pipe.serve()
    pipe.send(
        pipe.listen(id=0, toolsListChanged=True, resourceSubscriptions=["desk://news", "desk://x"])
    )
    pipe.send(pipe.listen(id="0", promptsListChanged=True))
    acknowledged = [(await pipe.message())["params"] for _ in range(2)]
    assert {each["_meta"][ID]: each["notifications"] for each in acknowledged} == {
        0: {"toolsListChanged": True, "resourceSubscriptions": ["desk://news"]},
        "0": {"promptsListChanged": True},
    }
    await desk.server.anotify_tools_list_changed()
    await desk.server.anotify_prompts_list_changed()
    await desk.server.anotify_resource_updated("desk://news")
    received = [await pipe.message() for _ in range(3)]
    assert [each["params"]["_meta"][ID] for each in received] == [0, "0", 0]
    pipe.notify("notifications/cancelled", requestId="0")
    await until(lambda: len(pipe.connection._in_flight.of(SESSION)) == 1)
    await desk.server.anotify_prompts_list_changed()
    pipe.close()
    answer, cancelled = await pipe.message(), await pipe.message()
    assert (answer["id"], answer["result"]["_meta"][ID]) == (0, 0)
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == 0
    async with asyncio.timeout(TIMEOUT):
        await serving
    assert not pipe.has_message
    assert bus.here()._receivers == {}


async def test_cancelled_connection_answers_its_listen_requests(desk: Desk) -> None:
    pipe = StdioClient(desk.server)
    serving = pipe.serve()
    pipe.send(pipe.listen(id=1, toolsListChanged=True))
    await pipe.message()
    serving.cancel()
    assert (await pipe.message())["id"] == 1
    assert (await pipe.message())["method"] == "notifications/cancelled"
    with pytest.raises(asyncio.CancelledError):
        await serving


@spec("RPC-B1", "T-STDIO-07")
async def test_batch_is_answered_by_an_array(desk: Desk) -> None:
    desk.proceed.set()
    async with connected(desk) as pipe:
        await begin(pipe, "2025-03-26")
        ping = {"jsonrpc": "2.0", "method": "ping"}
        pipe.send(
            [
                {**ping, "id": "a"},
                {**ping, "id": "b"},
                {**ping, "id": "b"},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                17,
            ]
        )
        answers = await pipe.message()
        assert sorted(str(each.get("id")) for each in answers) == ["None", "a", "b", "b"]
        assert [each["error"]["code"] for each in answers if "error" in each] == [-32600, -32600]
        pipe.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        await assert_no_output(pipe)
        pipe.send([])
        assert (await pipe.message())["error"]["code"] == -32600


async def test_requests_of_a_long_batch_are_answered_some_at_a_time(
    desk: Desk, configure: Any
) -> None:
    configure(MAX_IN_FLIGHT=3)
    async with connected(desk) as pipe:
        await begin(pipe, "2025-03-26")
        ping = {"jsonrpc": "2.0", "method": "ping"}
        pipe.send([{**ping, "id": number} for number in range(500)])
        answers = await pipe.message()
        assert sorted(each["id"] for each in answers) == [*range(500)]
        assert all("result" in each for each in answers)


async def test_batch_of_a_client_that_has_gone_is_not_begun_further(configure: Any) -> None:
    configure(MAX_IN_FLIGHT=2)
    begun: list[int] = []
    server = Server("shop")

    @server.tool
    async def wait(number: int) -> str:
        begun.append(number)
        await asyncio.sleep(SECONDS)
        return ""

    pipe = StdioClient(server)
    async with pipe.served():
        pipe.version = "2025-03-26"
        await pipe.initialize()
        calls = [pipe.call("wait", number=number) for number in range(9)]
        pipe.send(calls)
        await until(lambda: len(begun) == 2)
        await pipe.connection.close(grace=0)
    await asyncio.sleep(0.05)
    assert len(begun) == 2


async def test_client_that_goes_while_init_runs_leaves_no_subscription() -> None:
    begun = asyncio.Event()
    proceed = asyncio.Event()
    server = Server("shop")

    @server.hook
    async def init(client_info: Any, frame: Frame) -> None:
        begun.set()
        await proceed.wait()

    pipe = StdioClient(server)
    async with pipe.served():
        pipe.version = NEWEST_SESSION
        await pipe.initialize()
        await begun.wait()
        await pipe.connection.close(grace=0)
    initializing = pipe.connection._initializing
    assert initializing is not None
    proceed.set()
    await initializing
    assert pipe.connection._announced == {}


async def test_batch_of_more_than_500_messages_is_one_error(desk: Desk) -> None:
    async with connected(desk) as pipe:
        await begin(pipe, "2025-03-26")
        pipe.send([{"jsonrpc": "2.0", "method": "ping", "id": number} for number in range(501)])
        assert (await pipe.message())["error"]["message"] == "A batch has at most 500 messages"


@spec("RPC-B7", "RPC-B8", "T-STDIO-08")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_batch_is_rejected_by_revisions_without_batches(desk: Desk, version: str) -> None:
    async with connected(desk) as pipe:
        pipe.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        assert (await pipe.message())["error"]["code"] == -32600
        await begin(pipe, version)
        pipe.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        assert (await pipe.message())["error"]["code"] == -32600


async def test_call_that_times_out_is_answered_with_an_error(desk: Desk, configure: Any) -> None:
    configure(HANDLER_TIMEOUT=0.05)
    async with connected(desk) as pipe:
        pipe.send(pipe.listen(id="still there", toolsListChanged=True))
        await pipe.message()
        await begin(pipe, "2025-11-25")
        call = pipe.send(pipe.call("work_silently"))
        answer = await pipe.message()
        assert (answer["id"], answer["error"]["message"]) == (call, "The call took too long")
        assert desk.ended == ["cancelled"]
        await desk.server.anotify_tools_list_changed()
        assert {(await pipe.message())["method"] for _ in range(2)} == {INITIAL_NOTIFICATIONS[0]}
        pipe.notify("notifications/cancelled", requestId="still there")


@pytest.mark.parametrize("version", SESSIONS)
async def test_first_messages_may_come_at_once(desk: Desk, version: str) -> None:
    async with connected(desk, version) as pipe:
        hello = pipe.send(pipe.initialize_request())
        pipe.notify("notifications/initialized")
        call = pipe.send(pipe.call("work_silently"))
        await asyncio.wait_for(desk.started.wait(), TIMEOUT)
        desk.proceed.set()
        opened = await pipe.message()
        announced = [(await pipe.message())["method"] for _ in range(3)]
        answer = await pipe.message()
    assert (opened["id"], opened["result"]["protocolVersion"]) == (hello, version)
    assert announced == INITIAL_NOTIFICATIONS
    assert answer["id"] == call
    assert "result" in answer


async def test_messages_at_once_are_answered_although_the_input_has_ended(desk: Desk) -> None:
    async with connected(desk, NEWEST_SESSION) as pipe:
        desk.proceed.set()
        hello = pipe.send(pipe.initialize_request())
        call = pipe.send(pipe.call("work_silently"))
        ping = pipe.send(pipe.request("ping"))
        pipe.close()
        answers = [await pipe.message() for _ in range(3)]
    assert answers[0]["id"] == hello
    assert {answer["id"] for answer in answers[1:]} == {call, ping}
    assert all("result" in answer for answer in answers)


async def test_messages_after_a_refused_initialize_are_answered(desk: Desk) -> None:
    async with connected(desk, NEWEST_SESSION) as pipe:
        refused = pipe.send(pipe.request("initialize", {}))
        early = pipe.send(pipe.call("work_silently"))
        ping = pipe.send(pipe.request("ping"))
        hello = pipe.send(pipe.initialize_request())
        late = pipe.send(pipe.request("tools/list"))
        answers = {}
        for _ in range(5):
            answer = await pipe.message()
            answers[answer["id"]] = answer
    assert "error" in answers[refused]
    assert "initialize first" in answers[early]["error"]["message"]
    assert all("result" in answers[each] for each in (ping, hello, late))


async def test_too_many_messages_before_the_session_is_open_are_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HELD", 1)
    async with connected(desk, NEWEST_SESSION) as pipe:
        hello = pipe.send(pipe.initialize_request())
        held = pipe.send(pipe.request("ping"))
        refused = pipe.send(pipe.request("ping"))
        answers = {answer["id"]: answer for answer in [await pipe.message() for _ in range(3)]}
    assert "wait for its response" in answers[refused]["error"]["message"]
    assert all("result" in answers[each] for each in (hello, held))


async def test_handler_that_awaits_a_task_which_ended_with_generator_exit_is_answered(
    desk: Desk,
) -> None:
    async def ended() -> None:
        raise GeneratorExit

    async def await_ended() -> str:
        await asyncio.ensure_future(ended())
        return "never"

    desk.server.tool(await_ended)
    async with connected(desk) as pipe:
        await begin(pipe, "2025-11-25")
        call = pipe.send(pipe.call("await_ended"))
        answer = await pipe.message()
        assert answer["id"] == call
        assert answer["error"]["code"] == -32603
        await assert_no_output(pipe)
