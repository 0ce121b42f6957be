"""The session lock: ``serialize_requests`` runs the requests of a session in sequence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Frame, Server, stores
from django_mcp.core.frame.session import Change, Session
from django_mcp.stores.base import SessionStore
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from django_mcp.transports import session_lock
from tests.http_errors import error_of
from tests.stores.contracts import a_session
from tests.waiting import SECONDS, until

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)


def counting(**options: Any) -> Server:
    server = Server("counting", **options)

    @server.tool
    async def count(frame: Frame) -> Any:
        seen = frame.assigns.get("count", 0) + 1
        await asyncio.sleep(0)
        return str(seen), frame.assign(count=seen)

    return server


@in_sessions
async def test_serialized_calls_see_the_assigns_of_the_previous_call(client_for: ClientFor) -> None:
    async with client_for(counting(serialize_requests=True)) as client:
        results = await asyncio.gather(*(client.call_tool("count") for _ in range(5)))

    assert [result.text for result in results] == ["1", "2", "3", "4", "5"]


@in_sessions
async def test_calls_run_concurrently_without_serialize_requests(client_for: ClientFor) -> None:
    server, both, arrived = Server("parallel"), asyncio.Event(), []

    @server.tool
    async def meet() -> str:
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        async with asyncio.timeout(SECONDS):
            await both.wait()
        return "met"

    async with client_for(server) as client:
        results = await asyncio.gather(client.call_tool("meet"), client.call_tool("meet"))

    assert [result.text for result in results] == ["met", "met"]


@in_sessions
async def test_serialized_sessions_do_not_block_each_other(client_for: ClientFor) -> None:
    server, may_go = Server("patient", serialize_requests=True), asyncio.Event()

    @server.tool
    async def wait() -> str:
        await may_go.wait()
        return "waited"

    @server.tool
    async def go() -> str:
        may_go.set()
        return "went"

    async with client_for(server) as one, client_for(server) as other:
        results = await asyncio.gather(one.call_tool("wait"), other.call_tool("go"))

    assert [result.text for result in results] == ["waited", "went"]


@in_sessions
async def test_ping_is_answered_while_a_serialized_call_runs(client_for: ClientFor) -> None:
    server, began, may_go = (
        Server("patient", serialize_requests=True),
        asyncio.Event(),
        asyncio.Event(),
    )

    @server.tool
    async def wait() -> str:
        began.set()
        await may_go.wait()
        return "waited"

    async with client_for(server) as client:
        waiting = asyncio.ensure_future(client.call_tool("wait"))
        await began.wait()
        assert await client.request("ping") == {}
        may_go.set()
        assert (await waiting).text == "waited"


@in_sessions
async def test_call_cancelled_while_it_waits_for_the_session_lock_is_never_run(
    client_for: ClientFor,
) -> None:
    server, began, may_go = (
        Server("patient", serialize_requests=True),
        asyncio.Event(),
        asyncio.Event(),
    )
    called: list[str] = []

    @server.tool
    async def wait(name: str) -> str:
        called.append(name)
        began.set()
        await may_go.wait()
        return name

    async with client_for(server) as client:
        first = asyncio.ensure_future(client.call_tool("wait", {"name": "first"}))
        await began.wait()
        second = asyncio.ensure_future(client.call_tool("wait", {"name": "second"}))
        await until(lambda: any(lock._waiters for lock in session_lock._locks.values()))
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        may_go.set()
        assert (await first).text == "first"
        assert (await client.call_tool("wait", {"name": "third"})).text == "third"

    assert called == ["first", "third"]


async def wait_for_polls(polls: list[str]) -> None:
    """Wait until the lock was polled several times more."""
    seen = len(polls)
    await until(lambda: len(polls) > seen + 5)


class TestLeaseBetweenWorkers:
    """A lease in the session stands for another worker."""

    @pytest.fixture(autouse=True)
    def polls(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The results of all polls of the session."""
        polls: list[str] = []
        update = session_lock._update_lease

        async def poll(
            session_id: str, token: str, store: SessionStore, action: str
        ) -> Session | None:
            polls.append(token)
            return await update(session_id, token, store, action)

        monkeypatch.setattr(session_lock, "_update_lease", poll)
        monkeypatch.setattr(session_lock, "PAUSES", (0.001,))
        monkeypatch.setattr(session_lock, "RENEWAL", 0.001)
        return polls

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """The clock, which the test advances."""
        time = [1000.0]
        monkeypatch.setattr(stores.sessions(), "now", lambda: time[0])
        return time

    def client(self, server: Server) -> Client:
        return Client(server, version=SESSIONS[-1], transport="http")

    async def lease(self, client: Client, *, seconds: float) -> Session:
        assert client.session_id is not None
        store = stores.sessions()
        held = {"now": store.now(), "until": store.now() + seconds}
        session = await store.update(
            client.session_id, [Change("lock", "lease", OTHER_WORKER, held)]
        )
        assert session is not None
        return session

    async def test_call_waits_for_the_lease_of_another_worker(self, polls: list[str]) -> None:
        async with self.client(counting(serialize_requests=True)) as client:
            await self.lease(client, seconds=60)
            waiting = asyncio.ensure_future(client.call_tool("count"))
            await wait_for_polls(polls)
            was_done = waiting.done()
            finished = [
                Change("lock", "release", OTHER_WORKER),
                Change("assigns", "put", "count", 41),
            ]
            await stores.sessions().update(client.session_id or "", finished)
            result = await waiting

        assert not was_done
        assert result.text == "42"

    async def test_expired_lease_of_another_worker_is_taken_over(
        self, polls: list[str], clock: list[float]
    ) -> None:
        async with self.client(counting(serialize_requests=True)) as client:
            await self.lease(client, seconds=60)
            waiting = asyncio.ensure_future(client.call_tool("count"))
            await wait_for_polls(polls)
            clock[0] += 61
            result = await waiting

        assert result.text == "1"

    async def test_lease_is_renewed_until_the_call_finishes(
        self, polls: list[str], clock: list[float]
    ) -> None:
        server, may_go = Server("slow", serialize_requests=True), asyncio.Event()

        @server.tool
        async def wait() -> str:
            await may_go.wait()
            return "waited"

        async with self.client(server) as client:
            waiting = asyncio.ensure_future(client.call_tool("wait"))
            for _ in range(3):
                await wait_for_polls(polls)
                clock[0] += session_lock.LEASE - 1
            during = await self.lease(client, seconds=60)
            may_go.set()
            await waiting
            after = await self.lease(client, seconds=60)

        assert during.lock["by"] != OTHER_WORKER
        assert after.lock["by"] == OTHER_WORKER

    async def test_waiting_call_is_rejected_when_its_session_is_deleted(
        self, polls: list[str]
    ) -> None:
        async with self.client(counting(serialize_requests=True)) as client:
            await self.lease(client, seconds=60)
            waiting = asyncio.ensure_future(client.call_tool("count"))
            await wait_for_polls(polls)
            await stores.sessions().delete(client.session_id or "")
            error = await error_of(waiting)

        assert (error.code, error.message) == (-32600, "The session has ended")


OTHER_WORKER = "another worker"


async def test_locks_that_cannot_be_released_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = stores.sessions()
    update = store.update

    async def refuse_release(session_id: str, changes: Any) -> Session | None:
        if any(change.action == "release" for change in changes):
            raise ConnectionError("no database")
        return await update(session_id, changes)

    sessions = [a_session(number) for number in range(3)]
    for session in sessions:
        await store.create(session)
    monkeypatch.setattr(store, "update", refuse_release)
    for session in sessions:
        async with session_lock.acquire(session.id, store, is_shared=True):
            pass
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert len(tracebacks) == 1
    assert "could not be released" in tracebacks[0].message


class SlowStore:
    """Waits before the updates of one action, also after their caller was cancelled."""

    def __init__(self, action: str) -> None:
        self.store = stores.sessions()
        self.now = self.store.now
        self.action = action
        self.began = asyncio.Event()
        self.may_go = asyncio.Event()
        self.updates: list[asyncio.Future[Session | None]] = []

    async def update(self, session_id: str, changes: list[Change]) -> Session | None:
        # As the thread of a store, it goes on whoever waits for it.
        update = asyncio.ensure_future(self._update(session_id, changes))
        self.updates.append(update)
        return await asyncio.shield(update)

    async def _update(self, session_id: str, changes: list[Change]) -> Session | None:
        if changes[0].action == self.action:
            self.began.set()
            await self.may_go.wait()
        return await self.store.update(session_id, changes)

    async def lock(self, session_id: str) -> Any:
        """The lock of a session after all updates."""
        self.may_go.set()
        await asyncio.gather(*self.updates)
        session = await self.store.load(session_id)
        assert session is not None
        return session.lock


async def test_late_renewal_does_not_take_a_released_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_lock, "RENEWAL", 0.001)
    session = a_session()
    await stores.sessions().create(session)
    slow: Any = SlowStore("renew")
    async with asyncio.timeout(SECONDS), session_lock.acquire(session.id, slow, is_shared=True):
        await slow.began.wait()

    assert await slow.lock(session.id) == {}


async def test_request_cancelled_while_it_takes_the_lock_does_not_keep_it() -> None:
    session = a_session()
    await stores.sessions().create(session)
    slow: Any = SlowStore("lease")

    async def hold() -> None:
        async with session_lock.acquire(session.id, slow, is_shared=True):
            pass

    request = asyncio.ensure_future(hold())
    async with asyncio.timeout(SECONDS):
        await slow.began.wait()
        request.cancel()
        asyncio.get_running_loop().call_later(0.01, slow.may_go.set)
        await asyncio.gather(request, return_exceptions=True)

    assert request.cancelled()
    assert await slow.lock(session.id) == {}
