"""GET in a session, and streams that are interrupted: bytes, ids, replay, and who may speak."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp import Server, announce, hub, stores
from django_mcp.auth.base import Principal
from django_mcp.protocol.sse import EventId, Parser
from django_mcp.session import address
from django_mcp.transports import open_stream
from tests.site.test_hub import until
from tests.transports.desk import Desk
from tests.transports.driving import (
    MODERN,
    PRIMED,
    Peer,
    event_of,
    message_of,
    methods_of,
)

FIRST = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
]
HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


async def ready(desk: Desk, **options: Any) -> Peer:
    peer = Peer(desk.server, **options)
    await peer.initialize()
    return peer


async def quiet(peer: Peer) -> None:
    """Let the session be told what it is told first."""
    async with peer.stream() as stream:
        await methods_of(stream, 3)


def hears_of(peer: Peer) -> bool:
    """Whether something of the client's session listens, such as a call that takes long."""
    assert peer.session is not None
    return hub.here().hears(announce.of_session(address(peer.session)))


async def silent(*streams: Any) -> bool:
    """Whether nothing is on these streams, after everything had its chance."""
    for _ in range(20):
        await asyncio.sleep(0)
    return all(stream._outgoing.empty() for stream in streams)


# Opening.


@pytest.mark.parametrize("version", HANDSHAKES)
async def test_a_get_opens_a_stream(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    async with peer.getting() as stream:
        headers = await stream.headers()
        assert await stream.status() == 200
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"


async def test_it_begins_with_an_id_to_come_back_to(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        event = await stream.event()
        assert event is not None
        assert (event.data, event.retry) == ("", 1000)
        assert EventId.parse(event.id) is not None


@pytest.mark.parametrize("version", HANDSHAKES[:-1])
async def test_older_clients_get_no_empty_event(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    async with peer.stream() as stream:
        event = await stream.event()
        assert event is not None
        assert json.loads(event.data)["method"] == FIRST[0]


async def test_who_cannot_take_a_stream_is_refused(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.getting(accept="application/json") as stream:
        assert await stream.status() == 406


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_stateless_era_has_nothing_to_get(desk: Desk, method: str) -> None:
    peer = await ready(desk)
    peer.headers = {"mcp-protocol-version": MODERN}
    if method == "DELETE":
        reply = await peer.delete()
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
        return
    async with peer.getting() as stream:
        assert await stream.status() == 405
        assert (await stream.headers())["allow"] == "POST"


async def test_a_stream_needs_a_session(desk: Desk) -> None:
    async with Peer(desk.server).getting() as stream:
        assert await stream.status() == 400
    async with Peer(desk.server, session="made-up").getting() as stream:
        assert await stream.status() == 404


async def test_somebody_elses_session_is_unknown(desk: Desk, configure: Any) -> None:
    configure(AUTHENTICATORS=["tests.transports.test_streams.Named"])
    desk.server.auth = [Named()]
    peer = Peer(desk.server, headers={"x-name": "ann"})
    await peer.initialize()
    thief = Peer(desk.server, session=peer.session, headers={"x-name": "bob"})
    async with thief.getting() as stream:
        assert await stream.status() == 404


class Named:
    """Believes what the caller says."""

    async def authenticate(self, scope: Any, /) -> Any:
        name = dict(scope["headers"])[b"x-name"].decode()
        return Principal(scheme="named", subject=name)


async def test_a_session_has_a_bounded_number_of_streams(desk: Desk, configure: Any) -> None:
    configure(MAX_STREAMS_PER_SESSION=2)
    peer = await ready(desk)
    async with peer.stream(), peer.stream(), peer.getting() as third:
        assert await third.status() == 429
    async with peer.stream():
        pass


# What is told first.


@pytest.mark.parametrize("version", HANDSHAKES)
async def test_a_session_is_told_once_to_read_the_lists(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    async with peer.stream() as stream:
        assert await methods_of(stream, 3) == FIRST
        assert await silent(stream)
    async with peer.stream() as stream:
        await desk.server.asend_notification("notifications/message", {"level": "info"})
        assert await methods_of(stream, 1) == ["notifications/message"]


async def test_it_is_told_nothing_before_it_is_ready(desk: Desk) -> None:
    peer = Peer(desk.server)
    await peer.initialize(ready=False)
    async with peer.stream() as stream:
        await desk.server.anotify_tools_list_changed()
        await stream.event()
        assert await silent(stream)
        await peer.notify("notifications/initialized")
        assert await methods_of(stream, 3) == FIRST
        assert await silent(stream)


async def test_only_what_is_offered_is_told() -> None:
    server = Server("empty", announce_on_start=True)
    server.tool(name="hello")(lambda: "hello")
    peer = Peer(server)
    await peer.initialize()
    async with peer.stream() as stream:
        assert await methods_of(stream, 1) == FIRST[:1]
        assert await silent(stream)


async def test_a_server_may_tell_nothing_first() -> None:
    desk = Desk(announce_on_start=False)
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.event()
        await desk.server.anotify_prompts_list_changed()
        assert await methods_of(stream, 1) == FIRST[2:]


async def test_what_does_not_fit_the_protocol_is_not_announced_in_strict_mode(
    desk: Desk, configure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    configure(VALIDATION="strict")
    peer = await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        await desk.server.asend_notification("notifications/resources/updated", {"url": "a:b"})
        await desk.server.asend_notification("example/any", {"url": "a:b"})
        assert await methods_of(stream, 1) == ["example/any"]
    assert "uri is missing" in caplog.text


# One stream for each message.


async def test_a_message_goes_to_the_newest_stream_alone(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as older:
        await methods_of(older, 3)
        async with peer.stream() as newer:
            await newer.event()
            await desk.server.anotify_tools_list_changed()
            assert await methods_of(newer, 1) == FIRST[:1]
            assert await silent(older)
        await desk.server.anotify_prompts_list_changed()
        assert await methods_of(older, 1) == FIRST[2:]
        assert await silent(older)


async def test_messages_of_one_session_reach_no_other(desk: Desk) -> None:
    mine, other = await ready(desk), await ready(desk)
    async with mine.stream() as stream, other.stream() as elsewhere:
        await methods_of(stream, 3)
        await methods_of(elsewhere, 3)
        await desk.server.asend_notification("x/y", {"a": 1}, session_id=mine.session)
        assert await message_of(stream) == {"jsonrpc": "2.0", "method": "x/y", "params": {"a": 1}}
        assert await silent(elsewhere)


async def test_what_is_said_while_no_stream_is_open_waits_for_the_next(desk: Desk) -> None:
    peer = await ready(desk)
    await quiet(peer)
    for _ in range(3):
        await desk.server.anotify_tools_list_changed()
    await desk.server.asend_notification("x/y", session_id=peer.session)
    async with peer.stream() as stream:
        assert await methods_of(stream, 2) == [FIRST[0], "x/y"]
        assert await silent(stream)


async def test_ids_are_unique_over_all_streams(desk: Desk) -> None:
    peer = await ready(desk)
    seen = []
    for _ in range(2):
        async with peer.stream() as stream:
            for number in range(3):
                await desk.server.anotify_tools_list_changed()
                await desk.server.asend_notification(f"x/{number}", session_id=peer.session)
            seen += [(await event_of(stream)).id for _ in range(4)]
    assert len(set(seen)) >= len(seen) - 2  # Those told first have one id together.


# Coming back to a standalone stream.


async def test_it_goes_on_where_it_was_interrupted(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        for number in range(3):
            await desk.server.asend_notification(f"x/{number}", session_id=peer.session)
        first = await event_of(stream)
        await methods_of(stream, 2)
    await desk.server.asend_notification("x/3", session_id=peer.session)
    await desk.server.anotify_tools_list_changed()
    async with peer.stream(last=first.id) as stream:
        heard = await methods_of(stream, 4)
        assert sorted(heard) == sorted(["x/1", "x/2", "x/3", FIRST[0]])
        assert await silent(stream)


async def test_what_was_replayed_is_not_replayed_again(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        await desk.server.asend_notification("x/1", session_id=peer.session)
        first = await event_of(stream)
        await desk.server.asend_notification("x/2", session_id=peer.session)
        await event_of(stream)
    async with peer.stream(last=first.id) as stream:
        second = await event_of(stream)
        assert json.loads(second.data)["method"] == "x/2"
    async with peer.stream(last=second.id) as stream:
        await stream.event()
        assert await silent(stream)


@pytest.mark.parametrize(
    "last", ["nonsense", "g.1", "gmadeup~3.7", "pmadeup.1", "", "gx~99999999999999.1", "-1", "é"]
)
async def test_an_id_which_was_never_given_opens_a_new_stream(desk: Desk, last: str) -> None:
    peer = await ready(desk)
    await quiet(peer)
    async with peer.stream(last=last) as stream:
        await desk.server.anotify_tools_list_changed()
        assert await methods_of(stream, 1) == FIRST[:1]


async def test_an_id_of_another_session_replays_nothing(desk: Desk) -> None:
    mine, other = await ready(desk), await ready(desk)
    await quiet(other)
    async with mine.stream() as stream:
        await methods_of(stream, 3)
        await desk.server.asend_notification("x/1", session_id=mine.session)
        first = await event_of(stream)
        await desk.server.asend_notification("x/2", session_id=mine.session)
        await event_of(stream)
    async with other.stream(last=first.id) as stream:
        await desk.server.anotify_prompts_list_changed()
        assert await methods_of(stream, 1) == FIRST[2:]


# The stream of a POST.


async def test_a_streamed_answer_begins_with_an_id(desk: Desk) -> None:
    peer = await ready(desk)
    desk.go_on.set()
    async with peer.posting(peer.call("work")) as stream:
        events = [event async for event in stream.events()]
    assert [event.data for event in events][0] == ""
    ids = [event.id for event in events]
    assert len(set(ids)) == 4
    assert len({EventId.parse(each).stream for each in ids}) == 1  # type: ignore[union-attr]
    assert json.loads(events[-1].data)["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_older_revisions_have_no_ids_there(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    desk.go_on.set()
    async with peer.posting(peer.call("work")) as stream:
        events = [event async for event in stream.events()]
    assert [event.id for event in events] == ["", "", ""]


async def test_an_answer_which_is_all_is_plain(desk: Desk) -> None:
    peer = await ready(desk)
    desk.go_on.set()
    reply = await peer.post(peer.call("work_silently"))
    assert reply.media_type == "application/json"
    assert reply.json()["result"]["content"][0]["text"] == "done"


async def test_a_lost_connection_stops_no_work_and_loses_no_answer(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.posting(peer.call("work", id=7)) as stream:
        begun = await event_of(stream)
    assert desk.ended == []
    async with peer.stream(last=begun.id) as stream:
        desk.go_on.set()
        assert (await message_of(stream))["params"]["data"] == "going on"
        answer = await message_of(stream)
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, "done")
        assert await stream.event() is None


async def test_an_answer_can_be_fetched_after_it_was_given(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.posting(peer.call("work")) as stream:
        primed = await stream.event()
        assert primed is not None
    desk.go_on.set()
    async with peer.stream(last=primed.id) as stream:
        heard = [json.loads(event.data) async for event in stream.events()]
    assert [each.get("method") for each in heard] == ["notifications/message"] * 2 + [None]
    async with peer.stream(last=primed.id) as stream:
        again = [json.loads(event.data) async for event in stream.events()]
    assert again == heard


async def test_a_stream_is_read_in_one_place_alone(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.posting(peer.call("work")) as stream:
        begun = await event_of(stream)
        await until(lambda: hears_of(peer))
        async with peer.stream(last=begun.id) as second:
            assert await stream.event() is None
            async with peer.stream(last=begun.id) as third:
                assert await second.event() is None
                desk.go_on.set()
                assert (await message_of(third))["params"]["data"] == "going on"
                assert "result" in await message_of(third)


async def test_a_handler_may_let_go_of_its_stream(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.posting(peer.call("let_go")) as stream:
        body = await stream.body()
        await stream.ended()
    (primed,) = Parser().feed(body)
    assert body.endswith(b"retry: 250\n\n")
    assert desk.ended == []
    async with peer.stream(last=primed.id) as stream:
        desk.go_on.set()
        assert "result" in await message_of(stream)
        assert await stream.event() is None


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
async def test_where_nobody_can_come_back_it_keeps_its_stream(desk: Desk, version: str) -> None:
    peer = Peer(desk.server, version=version)
    if version != MODERN:
        await peer.initialize()
    desk.go_on.set()
    reply = await peer.post(peer.call("let_go"))
    assert reply.media_type == "application/json"
    assert "result" in reply.json()


# The end of a session.


async def test_delete_ends_streams_and_calls(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream, peer.posting(peer.call("work")) as call:
        await methods_of(stream, 3)
        await message_of(call)
        assert (await peer.delete()).status == 204
        rest = [event async for event in stream.events()]
        assert [event.data for event in rest if event.data] == []
        answer = await message_of(call)
        assert answer["error"] == {"code": -32603, "message": "Cancelled"}
    assert desk.ended == ["cancelled"]
    async with peer.getting() as stream:
        assert await stream.status() == 404


async def test_a_stream_ends_when_its_session_is_gone(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        (held,) = open_stream._streams_here()._streams
        await held.check()
        assert await silent(stream)
        assert peer.session is not None
        await stores.sessions().delete(peer.session)
        await held.check()
        assert await stream.event() is None


async def test_an_open_stream_keeps_its_session(desk: Desk, configure: Any) -> None:
    configure(SESSION_IDLE_TIMEOUT=0.15, KEEPALIVE_INTERVAL=None)
    peer, forgotten = await ready(desk), await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        opened = stores.sessions().now()
        await until(lambda: stores.sessions().now() > opened + 0.5)
        assert (await peer.post(peer.request("ping"))).status == 200
        assert (await forgotten.post(forgotten.request("ping"))).status == 404


async def test_a_stream_ends_when_its_caller_loses_her_rights(desk: Desk) -> None:
    desk.server.auth = [Named()]
    peer = await ready(desk, headers={"x-name": "ann"})
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        (held,) = open_stream._streams_here()._streams
        stream._scope["headers"] = [
            (name, b"bob" if name == b"x-name" else value)
            for name, value in stream._scope["headers"]
        ]
        await held.check()
        assert await stream.event() is None


async def test_streams_give_signs_of_life(desk: Desk, configure: Any) -> None:
    configure(KEEPALIVE_INTERVAL=0.02)
    peer = await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        assert await stream.read() == b":\n\n"
    async with peer.posting(peer.call("work_silently")) as call:
        await desk.until_begun()
        primed = await call.event()
        assert primed is not None
        assert primed.data == ""


async def test_who_reads_slowly_is_told_the_same_thing_once(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await methods_of(stream, 3)
        stream.stop_reading()
        for _ in range(50):
            await desk.server.anotify_tools_list_changed()
            await asyncio.sleep(0)
        await desk.server.asend_notification("x/y")
        stream.go_on_reading()
        heard = []
        while "x/y" not in heard:
            heard += await methods_of(stream, 1)
        assert 0 < len(heard) < 10


async def test_a_server_that_says_so_when_its_client_has_gone_is_believed(desk: Desk) -> None:
    peer = await ready(desk)
    scope = peer._scope("GET", None, {"accept": "text/event-stream"})
    sent: list[Any] = []
    gone = asyncio.Event()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > 2:
            raise BrokenPipeError

    serving = asyncio.ensure_future(peer._application(scope, receive, send))
    while len(sent) < 2:
        await asyncio.sleep(0)
    for _ in range(3):
        await desk.server.anotify_tools_list_changed()
        await asyncio.sleep(0)
    gone.set()
    await serving
    assert len(sent) == 3


async def test_what_cannot_be_kept_is_said_nevertheless(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("no store")

    peer = await ready(desk)
    desk.go_on.set()
    monkeypatch.setattr(stores.events(), "append", broken)
    monkeypatch.setattr(stores.events(), "close", broken)
    async with peer.posting(peer.call("work")) as call:
        heard = [event async for event in call.events() if event.data]
    assert len(heard) == 3
    assert "cannot be kept, and so not be resumed" in caplog.text


# Batches.


async def test_a_batch_is_answered_by_an_array(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    desk.go_on.set()
    batch = [
        peer.request("ping", id="a"),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        peer.call("work_silently", id=2),
        17,
        peer.request("initialize", id=3),
    ]
    reply = await peer.post(batch)
    found = {each.get("id"): each for each in reply.json()}
    assert reply.status == 200
    assert found["a"]["result"] == {}
    assert found[2]["result"]["content"][0]["text"] == "done"
    assert {each["error"]["code"] for each in (found[None], found[3])} == {-32600}
    assert len(reply.json()) == 4


async def test_a_batch_in_which_something_is_said_is_a_stream(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    desk.go_on.set()
    async with peer.posting([peer.call("work", id=1), peer.request("ping", id=2)]) as stream:
        messages = [json.loads(event.data) async for event in stream.events()]
    assert sorted(each["id"] for each in messages if "id" in each) == [1, 2]
    assert len(messages) == 4


async def test_a_batch_outlives_its_connection(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    async with peer.posting([peer.call("work", id=1), peer.call("work_silently", id=2)]) as stream:
        await message_of(stream)
        await until(lambda: hears_of(peer))  # From then on, the calls look for their client.
        stream.disconnect()
        await until(stream._incoming.empty)
    assert desk.ended == []
    desk.go_on.set()


async def test_an_id_is_used_once_in_a_batch(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    desk.go_on.set()
    calls = [peer.call("work_silently", id=1), peer.call("work_silently", id=1)]
    answers = (await peer.post(calls)).json()
    assert sorted("error" in each for each in answers) == [False, True]


async def test_in_a_batch_one_may_ask(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    async with peer.posting([peer.call("ping_client", id=1), peer.request("ping", id=2)]) as stream:
        ping = await message_of(stream)
        await peer.post([{"jsonrpc": "2.0", "id": ping["id"], "result": {}}])
        assert sorted([(await message_of(stream))["id"] for _ in range(2)]) == [1, 2]


async def test_a_batch_of_notifications_is_accepted(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    reply = await peer.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", PRIMED])
async def test_other_revisions_have_no_batches(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    reply = await peer.post([peer.request("ping")])
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32600)


async def test_what_is_wrong_as_a_whole_is_refused_as_a_whole(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    for batch in ([], [peer.request("ping"), {"jsonrpc": "2.0", "id": 1, "result": {}}]):
        reply = await peer.post(batch)
        assert reply.json()["error"]["code"] == -32600
