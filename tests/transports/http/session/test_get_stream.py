"""GET in a session, and interrupted streams: bytes, ids, replay, and the active stream."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from django_mcp import Server, stores
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.protocol.sse import EventId, Parser
from django_mcp.pubsub import bus, session_messages
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.transports.http import open_streams
from django_mcp.transports.http.session import standalone_stream
from django_mcp.transports.http.session import stream as session_stream
from tests.constants import SetConstants
from tests.spec import spec
from tests.transports.http.session.streams import (
    INITIAL_NOTIFICATIONS,
    NameHeaderAuthentication,
    has_no_output,
)
from tests.transports.sample_server import Desk
from tests.waiting import SECONDS, until
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, SESSIONS, STATELESS

BEFORE_CHECK = 20.0
"""Seconds until open streams are not checked yet, which loads their sessions again."""


async def ready(desk: Desk, version: str = NEWEST_SESSION, **options: Any) -> AsgiClient:
    peer = AsgiClient(desk.server, version, **options)
    await peer.initialize()
    return peer


async def read_initial_notifications(peer: AsgiClient) -> None:
    """Wait until the pending notifications of the session are sent."""
    async with peer.stream() as stream:
        await stream.methods(3)


def has_receivers(peer: AsgiClient) -> bool:
    """Whether the client's session has a subscriber, such as a running call."""
    assert peer.session is not None
    return bus.here().has_subscribers(session_messages.of_session(address(peer.session)))


# Requests and headers.


@spec("T-HTTP-01", "T-HTTP-41")
@pytest.mark.parametrize("version", SESSIONS)
async def test_get_opens_an_event_stream(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    async with peer.open_get() as stream:
        headers = await stream.headers()
        assert await stream.status() == 200
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"


@spec("T-HTTP-46")
async def test_get_stream_begins_with_a_priming_event(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        event = await stream.event()
        assert event is not None
        assert (event.data, event.retry) == ("", 1000)
        assert EventId.parse(event.id) is not None


@pytest.mark.parametrize("version", SESSIONS[:-1])
async def test_get_stream_of_older_revisions_has_no_priming_event(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    async with peer.stream() as stream:
        event = await stream.event()
        assert event is not None
        assert json.loads(event.data)["method"] == INITIAL_NOTIFICATIONS[0]


@spec("T-HTTP-40")
async def test_get_without_event_stream_in_accept_header_gets_406(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_get({"accept": "application/json"}) as stream:
        assert await stream.status() == 406


@spec("2026/HTTP-15")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_get_and_delete_in_the_stateless_revision_get_405(desk: Desk, method: str) -> None:
    peer = AsgiClient(desk.server, NEWEST_SESSION, headers={"mcp-protocol-version": STATELESS})
    if method == "DELETE":
        reply = await peer.delete()
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
        return
    async with peer.open_get() as stream:
        assert await stream.status() == 405
        assert (await stream.headers())["allow"] == "POST"


async def test_session_keeps_its_revision_whatever_version_a_gateway_sends(desk: Desk) -> None:
    peer = await ready(desk)
    peer.headers = {"mcp-protocol-version": STATELESS}
    async with peer.open_get() as stream:
        assert await stream.status() == 200
    assert (await peer.delete()).status == 204


async def test_get_without_a_known_session_is_rejected(desk: Desk) -> None:
    async with AsgiClient(desk.server, NEWEST_SESSION).open_get() as stream:
        assert await stream.status() == 400
    async with AsgiClient(desk.server, NEWEST_SESSION, session="made-up").open_get() as stream:
        assert await stream.status() == 404


@spec("SEC-02")
async def test_get_in_the_session_of_another_principal_is_not_found(
    desk: Desk, configure: Any
) -> None:
    configure(AUTHENTICATORS=["tests.transports.http.session.streams.NameHeaderAuthentication"])
    desk.server.authenticators = [NameHeaderAuthentication()]
    peer = AsgiClient(desk.server, NEWEST_SESSION, headers={"x-name": "ann"})
    await peer.initialize()
    thief = AsgiClient(desk.server, NEWEST_SESSION, session=peer.session, headers={"x-name": "bob"})
    async with thief.open_get() as stream:
        assert await stream.status() == 404


async def test_get_stream_beyond_the_limit_is_rejected(
    desk: Desk, set_constants: SetConstants
) -> None:
    set_constants(STREAMS_PER_SESSION=2)
    peer = await ready(desk)
    calls = [peer.open_post(peer.call("work", id=number)) for number in range(2)]
    async with calls[0], calls[1]:
        for call in calls:
            await call.message()
        async with peer.open_get() as stream:
            assert await stream.status() == 429
            assert (await stream.headers())["retry-after"] == "2"
        desk.proceed.set()
        for call in calls:
            assert [event async for event in call.events()]
    async with peer.stream() as older, peer.stream():
        # The newer one ends it, so that there is always room for one more.
        while await older.event() is not None:
            pass


# Notifications after initialization.


@spec("T-HTTP-42", "PROMPT-03")
@pytest.mark.parametrize("version", SESSIONS)
async def test_initial_list_changed_notifications_are_sent_once_per_session(
    desk: Desk, version: str
) -> None:
    peer = await ready(desk, version=version)
    async with peer.stream() as stream:
        assert await stream.methods(3) == INITIAL_NOTIFICATIONS
        assert await has_no_output(stream)
    async with peer.stream() as stream:
        await desk.server.asend_notification("notifications/message", {"level": "info"})
        assert await stream.methods(1) == ["notifications/message"]


@spec("LIFE-10")
async def test_nothing_is_sent_before_the_initialized_notification(desk: Desk) -> None:
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize(ready=False)
    async with peer.stream() as stream:
        await desk.server.anotify_tools_list_changed()
        await stream.event()
        assert await has_no_output(stream)
        await peer.notify("notifications/initialized")
        assert await stream.methods(3) == INITIAL_NOTIFICATIONS
        assert await has_no_output(stream)


async def test_stream_whose_client_is_initialized_elsewhere_sends_although_the_hint_is_lost(
    desk: Desk,
) -> None:
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize(ready=False)
    async with peer.stream() as stream:
        await stream.event()
        assert peer.session is not None
        change = Change("initialized", "set", value=True)
        await stores.sessions().update(peer.session, [change])
        await desk.server.asend_notification("x/1", session_id=peer.session)
        async with asyncio.timeout(BEFORE_CHECK):
            assert await stream.methods(4) == [*INITIAL_NOTIFICATIONS, "x/1"]


async def test_stream_before_initialization_ends_when_its_session_is_gone(desk: Desk) -> None:
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize(ready=False)
    async with peer.stream() as stream:
        await stream.event()
        await stores.sessions().delete(str(peer.session))
        await desk.server.asend_notification("x/1")
        async with asyncio.timeout(BEFORE_CHECK):
            while await stream.event() is not None:
                pass


@spec("LIFE-20")
async def test_initial_list_changed_is_sent_only_for_lists_with_components() -> None:
    server = Server("empty", notify_lists_on_initialize=True)
    server.tool(name="hello")(lambda: "hello")
    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as stream:
        assert await stream.methods(1) == INITIAL_NOTIFICATIONS[:1]
        assert await has_no_output(stream)


async def test_initial_notifications_can_be_disabled() -> None:
    desk = Desk(notify_lists_on_initialize=False)
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.event()
        await desk.server.anotify_prompts_list_changed()
        assert await stream.methods(1) == INITIAL_NOTIFICATIONS[2:]


# One stream per message.


@spec("T-HTTP-50", "T-HTTP-51", "T-HTTP-52")
async def test_notification_is_sent_only_on_the_newest_stream(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as older:
        await older.methods(3)
        async with peer.stream() as newer:
            await newer.event()
            await desk.server.anotify_tools_list_changed()
            assert await newer.methods(1) == INITIAL_NOTIFICATIONS[:1]
            assert [event.data async for event in older.events() if event.data] == []
        await desk.server.anotify_prompts_list_changed()
    async with peer.stream() as next_one:
        assert await next_one.methods(1) == INITIAL_NOTIFICATIONS[2:]
        assert await has_no_output(next_one)


async def test_notification_for_one_session_is_not_sent_to_another(desk: Desk) -> None:
    mine, other = await ready(desk), await ready(desk)
    async with mine.stream() as stream, other.stream() as elsewhere:
        await stream.methods(3)
        await elsewhere.methods(3)
        await desk.server.asend_notification("x/y", {"a": 1}, session_id=mine.session)
        assert await stream.message() == {"jsonrpc": "2.0", "method": "x/y", "params": {"a": 1}}
        assert await has_no_output(elsewhere)


async def test_notifications_without_an_open_stream_are_sent_on_the_next_one(desk: Desk) -> None:
    peer = await ready(desk)
    await read_initial_notifications(peer)
    for _ in range(3):
        await desk.server.anotify_tools_list_changed()
    await desk.server.asend_notification("x/y", session_id=peer.session)
    async with peer.stream() as stream:
        assert await stream.methods(2) == [INITIAL_NOTIFICATIONS[0], "x/y"]
        assert await has_no_output(stream)


@spec("T-HTTP-54")
async def test_event_ids_are_unique_across_streams(desk: Desk) -> None:
    peer = await ready(desk)
    seen = []
    for _ in range(2):
        async with peer.stream() as stream:
            for number in range(3):
                await desk.server.anotify_tools_list_changed()
                await desk.server.asend_notification(f"x/{number}", session_id=peer.session)
            seen += [(await stream.data_event()).id for _ in range(4)]
    assert len(set(seen)) >= len(seen) - 2  # The first notifications share one event id.


# Resumption of a standalone stream.


@spec("T-HTTP-30", "T-HTTP-56", "T-HTTP-58")
async def test_get_stream_resumes_after_the_last_event_id(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        for number in range(3):
            await desk.server.asend_notification(f"x/{number}", session_id=peer.session)
        first = await stream.data_event()
        await stream.methods(2)
    await desk.server.asend_notification("x/3", session_id=peer.session)
    await desk.server.anotify_tools_list_changed()
    async with peer.stream(last=first.id) as stream:
        received = await stream.methods(4)
        assert sorted(received) == sorted(["x/1", "x/2", "x/3", INITIAL_NOTIFICATIONS[0]])
        assert await has_no_output(stream)


@spec("T-HTTP-59")
async def test_replayed_events_are_not_replayed_again(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/1", session_id=peer.session)
        first = await stream.data_event()
        await desk.server.asend_notification("x/2", session_id=peer.session)
        await stream.data_event()
    async with peer.stream(last=first.id) as stream:
        second = await stream.data_event()
        assert json.loads(second.data)["method"] == "x/2"
    async with peer.stream(last=second.id) as stream:
        # Its position where it resumes, and then its own.
        priming = [await stream.event(), await stream.event()]
        assert [event and event.data for event in priming] == ["", ""]
        assert await has_no_output(stream)


async def resumed_unread(peer: AsgiClient, last: str) -> None:
    """Resume a stream over a connection that breaks before its client has read anything."""
    async with peer.open_get(last=last) as broken:
        await until(lambda: broken.sent_body)
        await has_no_output()


@spec("T-HTTP-56")
@pytest.mark.parametrize("version", SESSIONS)
@pytest.mark.parametrize("times", [1, 3])
async def test_message_on_a_resumed_stream_that_broke_unread_is_sent_on_the_next_one(
    desk: Desk, version: str, times: int
) -> None:
    peer = await ready(desk, version=version)
    async with peer.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/0", session_id=peer.session)
        first = await stream.data_event()
    wanted = []
    for number in range(1, times + 1):
        wanted.append(f"x/{number}")
        await desk.server.asend_notification(wanted[-1], session_id=peer.session)
        await resumed_unread(peer, first.id)
    async with asyncio.timeout(BEFORE_CHECK), peer.stream(last=first.id) as stream:
        assert await stream.methods(times) == wanted
        assert await has_no_output(stream)
        await desk.server.asend_notification("x/last", session_id=peer.session)
        last = await stream.data_event()
        assert json.loads(last.data)["method"] == "x/last"
    async with peer.stream(last=last.id) as stream:
        await desk.server.asend_notification("x/new", session_id=peer.session)
        assert await stream.methods(1) == ["x/new"]
        assert await has_no_output(stream)


async def test_stream_that_is_resumed_again_loses_nothing_of_its_silent_continuation(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a priming event, the client has no id of the second stream for as long."""
    peer = await ready(desk, version="2025-06-18")
    async with peer.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/0", session_id=peer.session)
        first = await stream.data_event()
    async with peer.open_get(last=first.id) as broken:
        await until(lambda: broken.sent_body)
        start = time.time()
        for minutes in range(0, 30, 4):
            now = start + 60 * minutes
            for store in (stores.sessions(), stores.events()):
                monkeypatch.setattr(store, "now", lambda now=now: now)
            (held,) = open_streams.here().streams
            await held.check()
            await has_no_output()
        await desk.server.asend_notification("x/1", session_id=peer.session)
        await has_no_output()
    async with asyncio.timeout(BEFORE_CHECK), peer.stream(last=first.id) as stream:
        assert await stream.methods(1) == ["x/1"]


@pytest.mark.parametrize("version", SESSIONS)
async def test_broadcast_on_an_open_resumed_stream_is_sent_when_the_first_one_is_resumed_again(
    desk: Desk, version: str
) -> None:
    """The second connection is half open: what is written to it reaches nobody."""
    peer = await ready(desk, version=version)
    async with peer.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/0", session_id=peer.session)
        first = await stream.data_event()
    async with peer.open_get(last=first.id) as broken:
        await until(lambda: broken.sent_body)
        await has_no_output()
        await desk.server.asend_notification("all/1")
        await until(lambda: b"all/1" in broken.sent_body)
        async with asyncio.timeout(BEFORE_CHECK), peer.stream(last=first.id) as stream:
            assert await stream.methods(1) == ["all/1"]
            assert await has_no_output(stream)


async def test_client_that_has_read_the_first_event_alone_is_sent_what_it_missed() -> None:
    """The first event has no position in the log of the server yet."""
    server = Server("shop", notify_lists_on_initialize=False)
    server.tool(name="order")(lambda: "ordered")
    peer = AsgiClient(server, NEWEST_SESSION)
    await server.asend_notification("x/0")
    await peer.initialize()
    async with peer.stream() as stream:
        first = await stream.event()
        assert first is not None
        assert await has_no_output(stream)
    await server.asend_notification("x/1")
    async with asyncio.timeout(BEFORE_CHECK), peer.stream(last=first.id) as stream:
        assert await stream.methods(1) == ["x/1"]


@spec("T-HTTP-57")
async def test_resumed_stream_replays_nothing_of_one_that_did_not_continue_it(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/0", session_id=peer.session)
        first = await stream.data_event()
    await desk.server.asend_notification("x/1", session_id=peer.session)
    async with peer.stream() as unrelated:
        assert await unrelated.methods(1) == ["x/1"]
        await desk.server.asend_notification("all/1")
        assert await unrelated.methods(1) == ["all/1"]
        async with peer.stream(last=first.id) as stream:
            await desk.server.asend_notification("x/2", session_id=peer.session)
            assert await stream.methods(1) == ["x/2"]
            assert await has_no_output(stream)


@pytest.mark.parametrize(
    "last", ["nonsense", "g.1", "gmadeup~3.7", "pmadeup.1", "", "gx~99999999999999.1", "-1", "é"]
)
async def test_unknown_last_event_id_opens_a_new_stream(desk: Desk, last: str) -> None:
    peer = await ready(desk)
    await read_initial_notifications(peer)
    async with peer.stream(last=last) as stream:
        await desk.server.anotify_tools_list_changed()
        assert await stream.methods(1) == INITIAL_NOTIFICATIONS[:1]


@spec("T-HTTP-57", "SEC-06")
async def test_event_id_of_another_session_replays_nothing(desk: Desk) -> None:
    mine, other = await ready(desk), await ready(desk)
    await read_initial_notifications(other)
    async with mine.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/1", session_id=mine.session)
        first = await stream.data_event()
        await desk.server.asend_notification("x/2", session_id=mine.session)
        await stream.data_event()
    async with other.stream(last=first.id) as stream:
        await desk.server.anotify_prompts_list_changed()
        assert await stream.methods(1) == INITIAL_NOTIFICATIONS[2:]


# The end of the server's log.

AWAY = 11 * 60.0
"""Seconds that are longer than the life of an event, and shorter than that of a session."""


def pass_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time() + AWAY
    for store in (stores.sessions(), stores.events()):
        monkeypatch.setattr(store, "now", lambda: now)


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("later", [[], ["x/1"]])
async def test_client_that_was_away_for_longer_than_the_log_is_told_that_lists_have_changed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_empty: bool, later: list[str]
) -> None:
    if not is_empty:
        await desk.server.asend_notification("x/0")
    peer = await ready(desk)
    await read_initial_notifications(peer)
    await desk.server.anotify_tools_list_changed()
    pass_time(monkeypatch)
    for method in later:
        await desk.server.asend_notification(method)
    async with peer.stream() as stream:
        assert await stream.methods(3 + len(later)) == [*INITIAL_NOTIFICATIONS, *later]
        await desk.server.asend_notification("x/2")
        assert await stream.methods(1) == ["x/2"]
        assert await has_no_output(stream)


async def test_client_behind_the_beginning_of_the_log_is_told_that_lists_have_changed(
    desk: Desk, set_constants: SetConstants
) -> None:
    set_constants(EVENTS_PER_STREAM=2)
    peer = await ready(desk)
    await read_initial_notifications(peer)
    await desk.server.anotify_tools_list_changed()
    for number in range(3):
        await desk.server.asend_notification(f"x/{number}")
    async with peer.stream() as stream:
        assert await stream.methods(5) == [*INITIAL_NOTIFICATIONS, "x/1", "x/2"]
        assert await has_no_output(stream)


async def test_client_that_was_away_without_changes_is_told_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        await desk.server.asend_notification("x/1")
        await stream.methods(1)
    pass_time(monkeypatch)
    async with peer.stream() as stream:
        await stream.event()
        assert await has_no_output(stream)


# The stream of a POST.


@spec("T-HTTP-18", "T-HTTP-53")
async def test_post_stream_begins_with_a_priming_event(desk: Desk) -> None:
    peer = await ready(desk)
    desk.proceed.set()
    async with peer.open_post(peer.call("work")) as stream:
        events = [event async for event in stream.events()]
    assert [event.data for event in events][0] == ""
    ids = [event.id for event in events]
    assert len(set(ids)) == 4
    assert len({EventId.parse(each).stream for each in ids}) == 1  # type: ignore[union-attr]
    assert json.loads(events[-1].data)["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_post_stream_of_older_revisions_has_no_event_ids(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    desk.proceed.set()
    async with peer.open_post(peer.call("work")) as stream:
        events = [event async for event in stream.events()]
    assert [event.id for event in events] == ["", "", ""]


async def test_call_without_notifications_is_answered_as_json(desk: Desk) -> None:
    peer = await ready(desk)
    desk.proceed.set()
    reply = await peer.post(peer.call("work_silently"))
    assert reply.media_type == "application/json"
    assert reply.json()["result"]["content"][0]["text"] == "done"


@spec("T-HTTP-28", "T-HTTP-58")
async def test_disconnect_neither_cancels_the_call_nor_loses_the_response(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("work", id=7)) as stream:
        started = await stream.data_event()
    assert desk.ended == []
    async with peer.stream(last=started.id) as stream:
        desk.proceed.set()
        assert (await stream.message())["params"]["data"] == "going on"
        answer = await stream.message()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, "done")
        assert await stream.event() is None


@spec("T-HTTP-30")
async def test_completed_response_can_be_replayed(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("work")) as stream:
        primed = await stream.event()
        assert primed is not None
    desk.proceed.set()
    async with peer.stream(last=primed.id) as stream:
        received = [json.loads(event.data) async for event in stream.events()]
    assert [each.get("method") for each in received] == ["notifications/message"] * 2 + [None]
    async with peer.stream(last=primed.id) as stream:
        again = [json.loads(event.data) async for event in stream.events()]
    assert again == received


@spec("T-HTTP-52")
async def test_resumed_stream_closes_the_previous_connection(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("work")) as stream:
        started = await stream.data_event()
        await until(lambda: has_receivers(peer))
        async with peer.stream(last=started.id) as second:
            assert await stream.event() is None
            async with peer.stream(last=started.id) as third:
                assert await second.event() is None
                desk.proceed.set()
                assert (await third.message())["params"]["data"] == "going on"
                assert "result" in await third.message()


@spec("T-HTTP-19", "T-HTTP-20", "T-HTTP-58")
async def test_stream_closed_by_the_handler_can_be_resumed(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.open_post(peer.call("let_go")) as stream:
        body = await stream.body()
        await stream.wait_closed()
    (primed,) = Parser().feed(body)
    assert body.endswith(b"retry: 250\n\n")
    assert desk.ended == []
    async with peer.stream(last=primed.id) as stream:
        desk.proceed.set()
        assert "result" in await stream.message()
        assert await stream.event() is None


@spec("T-HTTP-25")
@pytest.mark.parametrize("version", ["2025-06-18", STATELESS])
async def test_close_stream_is_ignored_where_streams_cannot_be_resumed(
    desk: Desk, version: str
) -> None:
    peer = AsgiClient(desk.server, version)
    if version != STATELESS:
        await peer.initialize()
    desk.proceed.set()
    reply = await peer.post(peer.call("let_go"))
    assert reply.media_type == "application/json"
    assert "result" in reply.json()


# The end of a session.


@spec("LIFE-31", "T-HTTP-68")
async def test_delete_closes_streams_and_cancels_calls(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream, peer.open_post(peer.call("work")) as call:
        await stream.methods(3)
        await call.message()
        assert (await peer.delete()).status == 204
        rest = [event async for event in stream.events()]
        assert [event.data for event in rest if event.data] == []
        answer = await call.message()
        assert answer["error"] == {"code": -32603, "message": "The session has ended"}
    assert desk.ended == ["cancelled"]
    async with peer.open_get() as stream:
        assert await stream.status() == 404


@spec("T-HTTP-26", "T-HTTP-45")
async def test_get_stream_is_closed_when_its_session_is_deleted(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        (held,) = open_streams.here().streams
        await held.check()
        assert await has_no_output(stream)
        assert peer.session is not None
        await stores.sessions().delete(peer.session)
        await held.check()
        assert await stream.event() is None


async def test_get_stream_is_closed_soon_when_a_store_returns_without_its_session(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_stream, "RELOAD_AGAIN", 0.02)
    load, loaded = standalone_stream.StandaloneStream._load, list[str]()

    async def fail_twice(stream: standalone_stream.StandaloneStream) -> Session | None:
        loaded.append(stream._session.id)
        if len(loaded) < 3:
            raise StoreUnavailable
        return await load(stream)

    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        assert peer.session is not None
        await stores.sessions().delete(peer.session)
        monkeypatch.setattr(standalone_stream.StandaloneStream, "_load", fail_twice)
        (held,) = open_streams.here().streams
        await held.check()
        async with asyncio.timeout(SECONDS):
            assert await stream.event() is None
    assert loaded == [peer.session] * 3


async def test_open_stream_keeps_its_session_from_expiring(desk: Desk, configure: Any) -> None:
    configure(SESSION_IDLE_TIMEOUT=0.15, SSE_PING_INTERVAL=None)
    peer, forgotten = await ready(desk), await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        opened = stores.sessions().now()
        await until(lambda: stores.sessions().now() > opened + 0.5)
        assert (await peer.post(peer.request("ping"))).status == 200
        assert (await forgotten.post(forgotten.request("ping"))).status == 404


async def test_get_stream_is_closed_when_the_principal_changes(desk: Desk) -> None:
    desk.server.authenticators = [NameHeaderAuthentication()]
    peer = await ready(desk, headers={"x-name": "ann"})
    async with peer.stream() as stream:
        await stream.methods(3)
        (held,) = open_streams.here().streams
        stream._scope["headers"] = [
            (name, b"bob" if name == b"x-name" else value)
            for name, value in stream._scope["headers"]
        ]
        await held.check()
        assert await stream.event() is None


@spec("PING-03", "PING-04")
async def test_open_streams_send_keepalive_comments(desk: Desk, configure: Any) -> None:
    configure(SSE_PING_INTERVAL=0.02)
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        assert await stream.read() == b":\n\n"
    async with peer.open_post(peer.call("work_silently")) as call:
        await desk.wait_started()
        primed = await call.event()
        assert primed is not None
        assert primed.data == ""


async def test_repeated_list_changes_are_merged_for_a_slow_client(desk: Desk) -> None:
    peer = await ready(desk)
    async with peer.stream() as stream:
        await stream.methods(3)
        stream.stop_reading()
        for _ in range(50):
            await desk.server.anotify_tools_list_changed()
            await asyncio.sleep(0)
        await desk.server.asend_notification("x/y")
        stream.resume_reading()
        received = []
        while "x/y" not in received:
            received += await stream.methods(1)
        assert 0 < len(received) < 10


async def test_error_raised_by_send_closes_the_get_stream(desk: Desk) -> None:
    peer = await ready(desk)
    scope = peer.scope(method="GET")
    sent: list[Any] = []
    disconnected = asyncio.Event()

    async def receive() -> Any:
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > 2:
            raise BrokenPipeError

    serving = asyncio.ensure_future(peer.application(scope, receive, send))
    while len(sent) < 2:
        await asyncio.sleep(0)
    for _ in range(3):
        await desk.server.anotify_tools_list_changed()
        await asyncio.sleep(0)
    disconnected.set()
    await serving
    assert len(sent) == 3


async def test_events_are_sent_even_if_the_event_store_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("no store")

    peer = await ready(desk)
    desk.proceed.set()
    monkeypatch.setattr(stores.events(), "append", broken)
    monkeypatch.setattr(stores.events(), "close", broken)
    async with peer.open_post(peer.call("work")) as call:
        received = [event async for event in call.events() if event.data]
    assert len(received) == 3
    assert "cannot be stored, and so not be resumed" in caplog.text


# Batches.


@spec("LIFE-16", "RPC-B1", "RPC-B5", "RPC-B6", "T-HTTP-13")
async def test_batch_is_answered_by_an_array(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    desk.proceed.set()
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


async def test_batch_with_notifications_is_answered_by_a_stream(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    desk.proceed.set()
    async with peer.open_post([peer.call("work", id=1), peer.request("ping", id=2)]) as stream:
        messages = [json.loads(event.data) async for event in stream.events()]
    assert sorted(each["id"] for each in messages if "id" in each) == [1, 2]
    assert len(messages) == 4


async def test_batch_continues_after_a_disconnect(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    async with peer.open_post(
        [peer.call("work", id=1), peer.call("work_silently", id=2)]
    ) as stream:
        await stream.message()
        await until(lambda: has_receivers(peer))  # From now on, calls search for their client.
        stream.disconnect()
        await until(stream._incoming.empty)
    assert desk.ended == []
    desk.proceed.set()


async def test_duplicate_id_in_a_batch_is_rejected(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    desk.proceed.set()
    calls = [peer.call("work_silently", id=1), peer.call("work_silently", id=1)]
    answers = (await peer.post(calls)).json()
    assert sorted("error" in each for each in answers) == [False, True]


async def test_batched_call_can_send_a_request_to_the_client(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    async with peer.open_post(
        [peer.call("ping_client", id=1), peer.request("ping", id=2)]
    ) as stream:
        ping = await stream.message()
        await peer.post([{"jsonrpc": "2.0", "id": ping["id"], "result": {}}])
        assert sorted([(await stream.message())["id"] for _ in range(2)]) == [1, 2]


@spec("RPC-B5")
async def test_batch_of_notifications_is_accepted(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    reply = await peer.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", NEWEST_SESSION])
async def test_batch_is_rejected_by_revisions_without_batches(desk: Desk, version: str) -> None:
    peer = await ready(desk, version=version)
    reply = await peer.post([peer.request("ping")])
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32600)


@spec("RPC-B3", "RPC-B4", "T-HTTP-13")
async def test_invalid_batch_is_rejected_as_a_whole(desk: Desk) -> None:
    peer = await ready(desk, version="2025-03-26")
    for batch in ([], [peer.request("ping"), {"jsonrpc": "2.0", "id": 1, "result": {}}]):
        reply = await peer.post(batch)
        assert reply.json()["error"]["code"] == -32600


async def test_stream_that_breaks_before_it_replays_loses_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if two workers die, of which the second has not replayed what the first one had."""
    peer = await ready(desk)
    async with peer.stream() as stream:
        first = await stream.event()
        assert first is not None
        position = EventId.parse(first.id)
        assert position is not None
        assert peer.session is not None
        text = '{"jsonrpc":"2.0","method":"notifications/x"}'
        name = position.stream.partition("~")[0]
        await stores.events().append(address(peer.session), name, [text])
    with monkeypatch.context() as patched:
        patched.setattr(standalone_stream.StandaloneStream, "_may_send", False)
        async with peer.stream(last=first.id) as stream:
            second = await stream.event()
            assert second is not None
    async with peer.stream(last=second.id) as stream:
        assert (await stream.message())["method"] == "notifications/x"
