"""The lease of a call's stream: whoever resumes it is answered, whatever became of its worker."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from django_mcp import Frame, Server, stores
from django_mcp.core.frame.session import Session
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.sse import EventId
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores import base
from django_mcp.stores.base import StoreBusy
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.http.session import event_log, resumed_stream, standalone_stream
from django_mcp.transports.http.session.event_log import StreamLog
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

MESSAGE = jsonrpc.encode(jsonrpc.notification("notifications/message")).decode()
RESPONSE = jsonrpc.encode(jsonrpc.result(7, {"content": []})).decode()


@pytest.fixture(autouse=True)
def _short_leases(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(SSE_PING_INTERVAL=0.05)
    monkeypatch.setattr(event_log, "MIN_LEASE", 0.2)


class Slow:
    """A server whose tools go on when they are told to."""

    def __init__(self) -> None:
        self.server = Server("slow")
        self.proceed = asyncio.Event()

        @self.server.tool
        async def silent() -> str:
            await self.proceed.wait()
            return "done"

        @self.server.tool
        async def report(frame: Frame) -> str:
            frame.client.log("error", "started")
            await self.proceed.wait()
            return "done"


async def ready(server: Server | None = None) -> AsgiClient:
    peer = AsgiClient(server or Slow().server, NEWEST_SESSION)
    await peer.initialize()
    return peer


async def session_of(peer: AsgiClient) -> Session:
    session = await stores.sessions().load(str(peer.session))
    assert session is not None
    return session


async def stored(log: StreamLog) -> list[str]:
    """The events of a stream which the store has."""
    events = await stores.events().after(log._session.address, log.name, 0)
    return [event.data for event in events or ()]


async def answers(peer: AsgiClient, last: object) -> list[dict[str, Any]]:
    """What a client receives that resumes at an event, until the stream ends."""
    async with asyncio.timeout(TIMEOUT), peer.stream(last=str(last)) as resumed:
        return [jsonrpc.decode(event.data) async for event in resumed.events() if event.data]


def ended(request_id: Any) -> dict[str, Any]:
    """The error for a request whose worker has ended."""
    error = {"code": -32603, "message": event_log.WORKER_ENDED}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


# Streams whose writer lives.


async def test_stream_opened_by_a_keepalive_comment_can_be_resumed() -> None:
    slow = Slow()
    peer = await ready(slow.server)
    async with peer.open_post(peer.call("silent", id=7)) as stream:
        primed = await stream.event()
        assert primed is not None
    slow.proceed.set()
    (answer,) = await answers(peer, primed.id)
    assert answer["result"]["content"][0]["text"] == "done"


async def test_stream_is_created_if_its_lease_is_due_before() -> None:
    """The call monitor may look at it between its creation and the first step of its writer."""
    log = StreamLog(await session_of(await ready()), 7)
    log.append(MESSAGE)
    log._renewed_at -= event_log.renewal_interval()
    log.renew()
    await log.flush()
    assert await stored(log) == [MESSAGE]


async def test_stream_whose_call_is_silent_for_long_keeps_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine, this process may be suspended for longer than the lease of the others.
    monkeypatch.setattr(event_log, "MIN_LEASE", 1.0)
    slow = Slow()
    peer = await ready(slow.server)
    async with peer.open_post(peer.call("report", id=7)) as stream:
        last = await stream.data_event()
    async with peer.stream(last=last.id) as resumed:
        asyncio.get_running_loop().call_later(1.5, slow.proceed.set)
        message = await resumed.message()
    assert message["result"]["content"][0]["text"] == "done"


async def test_writer_that_has_lost_its_lease_appends_nothing_more() -> None:
    log = StreamLog(await session_of(await ready()), 7)
    log.append("1")
    await log.flush()
    assert await stores.events().close_abandoned(log._session.address, log.name, 0, "end")
    for text in "23":
        log.append(text)
        await log.flush()
    await log.close()
    events = await stored(log)
    assert events[:2] == ["1", "end"]
    assert "3" not in events


async def test_events_do_not_wait_for_long_for_a_store_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(event_log, "CREATION_TIMEOUT", 0.05)
    slow = Slow()
    peer = await ready(slow.server)
    with monkeypatch.context() as patched:
        patched.setattr(stores.events(), "append", hang)
        async with peer.open_post(peer.call("report", id=7)) as stream:
            assert (await stream.message())["method"] == "notifications/message"
            slow.proceed.set()
            assert (await stream.message())["result"]["content"][0]["text"] == "done"


# Streams whose worker is silent.


@pytest.mark.parametrize("ahead", [0, 1, 3])
async def test_stream_whose_worker_is_silent_ends_with_an_error(ahead: int) -> None:
    """Also for a client which has received events that the worker did not store before it died."""
    peer = await ready()
    log = StreamLog(await session_of(peer), "a ☃")
    position = log.append(MESSAGE)
    await log.flush()
    received = EventId(position.stream, position.sequence + ahead)
    assert await answers(peer, received) == [ended("a ☃")]


async def test_stream_that_is_silent_after_its_first_lease_ends_with_an_error() -> None:
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    await log.flush()
    assert await answers(peer, log.last) == [ended(7)]


async def test_error_of_a_silent_stream_is_stored_once_for_all_who_resume_it() -> None:
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    await log.flush()
    for _ in range(2):
        assert await answers(peer, log.last) == [ended(7)]
    assert list(map(jsonrpc.decode, await stored(log))) == [ended(7)]


@pytest.mark.parametrize("ahead", [0, 2])
async def test_error_of_a_silent_stream_is_sent_once_although_there_is_more_news(
    ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream reads again when it was woken meanwhile, which it is at its start."""
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    await log.flush()
    last = stores.events().last

    async def read_slowly(read: Any, *args: Any) -> Any:
        await asyncio.sleep(0.02)
        return await read(*args)

    for name in ("after", "is_closed", "close_abandoned"):
        slow = partial(read_slowly, getattr(stores.events(), name))
        monkeypatch.setattr(stores.events(), name, slow)
    monkeypatch.setattr(resumed_stream, "RESUME_AGAIN", 0.03)

    assert await answers(peer, EventId(log.name, log.last.sequence + ahead)) == [ended(7)]
    assert await last(log._session.address, log.name) == 1


async def test_stream_whose_worker_died_after_its_response_ends_with_it() -> None:
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    first = log.append(MESSAGE)
    log.append(RESPONSE, is_response=True)
    await log.flush()
    assert await answers(peer, first) == [jsonrpc.decode(RESPONSE)]
    assert await stored(log) == [MESSAGE, RESPONSE]


async def test_error_that_was_stored_by_a_worker_which_died_then_ends_the_stream() -> None:
    """The cache store appends the error and closes the stream in two steps."""
    peer = await ready()
    session = await session_of(peer)
    log = StreamLog(session, 7)
    await log.flush()
    text = event_log.end_of_lease(session, log.name)
    await stores.events().append(session.address, log.name, [text])
    assert await answers(peer, log.last) == [ended(7)]


async def test_lease_is_not_judged_by_a_process_that_had_no_store_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "RENEWALS", 0)
    session = await session_of(await ready())
    log = StreamLog(session, 1)
    await log.flush()
    now = stores.events().now
    monkeypatch.setattr(stores.events(), "now", lambda: now() + 1)
    base.log_outage(ConnectionRefusedError())
    await event_log.end_abandoned(session, log.name, watched_for=60.0)
    assert not await stores.events().is_closed(session.address, log.name)
    async with asyncio.timeout(TIMEOUT):
        while not await stores.events().is_closed(session.address, log.name):
            await event_log.end_abandoned(session, log.name, watched_for=60.0)
            await asyncio.sleep(0.01)


async def test_stream_goes_on_after_the_store_was_away_without_anybody_noticing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "MIN_LEASE", 5.0)
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    first = log.append(MESSAGE)
    await log.flush()
    now = stores.events().now
    monkeypatch.setattr(stores.events(), "now", lambda: now() + 10)

    reading = asyncio.create_task(answers(peer, first))
    # The reader looks several times before the worker renews the lease.
    await asyncio.sleep(0.2)
    log._renewed_at -= event_log.renewal_interval()
    log.renew()
    await log.flush()
    log.append(RESPONSE, is_response=True)
    await log.flush()
    await log.notify_readers()

    assert await reading == [jsonrpc.decode(RESPONSE)]


async def test_stream_whose_lease_has_ended_long_ago_ends_for_who_resumes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    await log.flush()
    now = stores.events().now
    monkeypatch.setattr(stores.events(), "now", lambda: now() + 10)
    started = asyncio.get_running_loop().time()

    assert await answers(peer, log.last) == [ended(7)]
    assert asyncio.get_running_loop().time() - started >= event_log.time_to_renew()


def test_store_that_is_busy_is_no_outage() -> None:
    base.log_outage(StoreBusy())
    assert not base.had_outage(60.0)
    base.log_outage(StoreUnavailable())
    assert base.had_outage(60.0)


# Streams that the store does not have.


async def test_stream_that_could_not_be_created_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow()
    peer = await ready(slow.server)
    with monkeypatch.context() as patched:
        patched.setattr(stores.events(), "append", unavailable)
        async with peer.open_post(peer.call("report", id=7)) as stream:
            last = await stream.data_event()
    assert await answers(peer, last.id) == [ended(7)]
    slow.proceed.set()


async def test_unknown_stream_of_a_call_ends_with_an_error() -> None:
    peer, other = await ready(), await ready()
    log = StreamLog(await session_of(other), 7)
    log.append(MESSAGE)
    await log.flush()
    assert await answers(peer, EventId(log.name, 0)) == [ended(7)]
    assert await stored(log) == [MESSAGE]


@pytest.mark.parametrize("name", ["p", "pstream", "p" + "x" * 16 + "bm8", "p" + "x" * 16 + "Iw"])
async def test_name_that_no_stream_of_a_call_has_opens_a_new_stream(name: str) -> None:
    peer = await ready()
    async with peer.stream(last=f"{name}.1") as stream:
        primed = await stream.event()
    assert primed is not None
    assert primed.id.startswith(standalone_stream.PREFIX)


async def test_stream_whose_response_was_not_stored_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = await ready()
    log = StreamLog(await session_of(peer), 7)
    first = log.append(MESSAGE)
    await log.flush()
    with monkeypatch.context() as patched:
        patched.setattr(stores.events(), "append", unavailable)
        log.append(RESPONSE, is_response=True)
        await log.flush()
    await log.close()
    assert await answers(peer, first) == [ended(7)]


async def unavailable(*_: Any, **__: Any) -> None:
    raise StoreUnavailable
