"""A session on two workers, step by step, against a model of what its client may expect.

Each step reaches one of the workers, or both at once. The model knows the values that the session
keeps, its subscriptions, and which changes its stream still has to deliver.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_mcp.core.frame.session import address
from tests.services.conversation import VERSIONS, messages
from tests.services.workers import Cluster
from tests.waiting import SECONDS
from tests.wire.live import Failed, LiveClient, SessionGone, request
from tests.wire.messages import STATELESS, text_of

SESSIONS = [version for version in VERSIONS if version.values != (STATELESS,)]
PRIMED = "2025-11-25"
"""From this revision on, streams of calls can be resumed."""
TIMEOUT = SECONDS
BOUNDS = settings(
    max_examples=4,
    stateful_step_count=20,
    deadline=None,
    database=None,
    suppress_health_check=[*HealthCheck],
)
WORKERS = st.sampled_from((0, 1))
URIS = st.sampled_from([f"note://{name}" for name in "abc"])
ORDERS = st.sampled_from(((0, 1), (1, 0)))


class SessionModel(RuleBasedStateMachine):
    """The client of one session at a time, and what it expects."""

    site: Cluster
    version: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.http = self.run(self._client())
        urls = [f"{worker.url}/mcp" for worker in self.site.workers[:2]]
        self.peers = [LiveClient(self.http, url, self.version) for url in urls]
        self.stream: asyncio.Task[None] | None = None
        self.number = 0

    def run(self, work: Any) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(TIMEOUT):
                return await work

        return self.runner.run(limited())

    def teardown(self) -> None:
        self.run(self._close_stream())
        self.run(self.http.aclose())
        self.runner.close()

    # The model.

    @initialize(worker=WORKERS)
    def open(self, worker: int) -> None:
        self.kept: Counter[str] = Counter()
        self.subscribed: set[str] = set()
        self.owed: set[str] = set()
        self.announced: set[str] = set()
        self.is_open = True
        self.run(self.peers[worker].initialize())
        self.peers[1 - worker].session = self.peers[worker].session

    @precondition(lambda self: not self.is_open)
    @rule(worker=WORKERS)
    def open_again(self, worker: int) -> None:
        self.open(worker)

    # Calls.

    @precondition(lambda self: self.is_open)
    @rule(order=ORDERS, number=st.integers(1, 6))
    def remember_on_both(self, order: tuple[int, int], number: int) -> None:
        """Calls at the same time on both workers: no value is lost."""
        tokens = [self._token() for _ in range(number)]

        async def remember() -> None:
            calls = (
                self.peers[order[position % 2]].tool("remember", token=token)
                for position, token in enumerate(tokens)
            )
            await asyncio.gather(*calls)

        self.run(remember())
        self.kept.update(tokens)

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS)
    def recall(self, worker: int) -> None:
        found = json.loads(text_of(self.run(self.peers[worker].tool("recall"))))
        assert Counter(found) == self.kept

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS, steps=st.integers(1, 3))
    def resume_on_the_other_worker(self, worker: int, steps: int) -> None:
        """Leave a call after its first message; every message comes once."""
        token = self._token()
        found = self.run(self._left_and_resumed(worker, token, steps))
        progress = [each["params"]["progress"] for each in found[:-1]]
        assert progress == [*range(1, steps + 1)]
        assert text_of(found[-1]["result"]) == token

    async def _left_and_resumed(self, worker: int, token: str, steps: int) -> list[Any]:
        arguments = {"token": token, "seconds": steps / 10}
        message = request("tools/call", {"name": "count", "arguments": arguments})
        message["params"]["_meta"] = {"progressToken": message["id"]}
        last: list[str] = []
        async with self.peers[worker].opened(message) as response:
            received = messages(response, last)
            if self.version < PRIMED:
                return [each async for each in received]
            found = [await anext(received)]
        async with self.peers[1 - worker].resuming(last[-1]) as response:
            assert response.status_code == 200
            return found + [each async for each in messages(response)]

    # Subscriptions.

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS, uri=URIS)
    def subscribe(self, worker: int, uri: str) -> None:
        self.run(self.peers[worker].ask("resources/subscribe", {"uri": uri}))
        self.subscribed.add(uri)

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS, uri=URIS)
    def unsubscribe(self, worker: int, uri: str) -> None:
        self.run(self.peers[worker].ask("resources/unsubscribe", {"uri": uri}))
        self.subscribed.discard(uri)

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS, uri=URIS)
    def notify_change(self, worker: int, uri: str) -> None:
        if uri in self.subscribed:
            self.owed.add(uri)
            self.announced.add(uri)
        notifier = LiveClient(self.http, self.peers[worker].url)
        self.run(notifier.tool("notify_change", uri=uri))

    @precondition(lambda self: self.is_open and self.stream is None)
    @rule(worker=WORKERS)
    def open_stream(self, worker: int) -> None:
        self.stream = self.run(self._open_stream(worker))

    @precondition(lambda self: self.stream is not None)
    @rule()
    def everything_owed_is_received(self) -> None:
        self.run(self._until_reached())

    @precondition(lambda self: self.stream is not None)
    @rule()
    def close_stream(self) -> None:
        # What is on its way when a client leaves without an event id is lost to it.
        self.run(self._until_reached())
        self.run(self._close_stream())

    async def _until_reached(self) -> None:
        while self.owed:
            assert self.stream is not None
            assert not self.stream.done(), f"The stream has ended; {self.owed} were not heard"
            await asyncio.sleep(0.01)

    async def _open_stream(self, worker: int) -> asyncio.Task[None]:
        is_open = asyncio.Event()
        task = asyncio.create_task(self._listen(worker, is_open))
        await is_open.wait()
        return task

    async def _listen(self, worker: int, is_open: asyncio.Event) -> None:
        async with self.peers[worker].resuming(None) as response:
            assert response.status_code == 200
            is_open.set()
            async for message in messages(response):
                if message["method"] == "notifications/resources/updated":
                    uri = message["params"]["uri"]
                    assert uri in self.announced, f"{uri} was not announced to a subscriber"
                    self.owed.discard(uri)

    async def _close_stream(self) -> None:
        if self.stream is not None:
            self.stream.cancel()
            await asyncio.wait([self.stream])
            assert self.stream.cancelled() or self.stream.exception() is None
            self.stream = None

    # The end.

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS)
    def delete(self, worker: int) -> None:
        """The session is gone on both workers, and its stream ends."""
        self.run(self.peers[worker].delete())
        if self.stream is not None:
            self.run(asyncio.wait_for(asyncio.shield(self.stream), TIMEOUT))
        self._assert_gone()

    @precondition(lambda self: self.is_open and self.stream is None)
    @rule()
    def expire(self) -> None:
        """Let a day pass without a request."""
        session = self.peers[0].session
        assert session is not None
        assert self.site.postgresql is not None
        self.site.postgresql.execute(
            "UPDATE django_mcp_mcpsession SET used_at = used_at - interval '1 day'"
            f" WHERE address = '{address(session)}'",
            self.site.database,
        )
        self._assert_gone()

    def _assert_gone(self) -> None:
        self.run(self._close_stream())
        for peer in self.peers:
            with pytest.raises(SessionGone):
                self.run(peer.tool("echo", token="late"))
        self.is_open = False

    @precondition(lambda self: self.is_open)
    @rule(worker=WORKERS)
    def unknown_tool_is_an_error(self, worker: int) -> None:
        with pytest.raises(Failed, match="error -32602"):
            self.run(self.peers[worker].tool("nobody"))

    def _token(self) -> str:
        self.number += 1
        return f"token-{self.number}"

    @staticmethod
    async def _client() -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)


@pytest.mark.parametrize("store", ["database"])
@pytest.mark.parametrize("session_version", SESSIONS)
def test_session_on_two_workers_behaves_as_its_model(site: Cluster, session_version: str) -> None:
    class Model(SessionModel):
        version = session_version

    Model.site = site
    run_state_machine_as_test(Model, settings=BOUNDS)
