"""The client of a tool call that runs as a task: its messages and requests are stored.

A call of the stateless revision that may be continued as a task has a ``HandOverClient``, which
requests input by multi round-trips until then.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.base import MAX_PROGRESS, Client
from django_mcp.core.frame.client.input_requests import (
    InputRequest,
    InputRequests,
    Reading,
    Responses,
)
from django_mcp.core.frame.client.multi_round_trip import InputRequired, MultiRoundTripClient
from django_mcp.core.frame.exchange import run_in_place
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.texts import storable

if TYPE_CHECKING:
    from django_mcp.core.frame.exchange import Exchange
    from django_mcp.tasks.run import Run

T = TypeVar("T")


class TaskClient(Client):
    """The client of a call that runs as a task from its start."""

    def __init__(self, run: Run, *facts: Any) -> None:
        super().__init__(*facts)
        self._run = run

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        _report(self, self._run, progress, total, message)

    async def _request(self, requests: InputRequests, timeout: float | None) -> Responses:
        return await _request(self, self._run, requests, timeout)


class PageClient(TaskClient):
    """The client of a call that runs as a task, although the client does not know of tasks.

    Its user answers on a page of the site, if there is one, whatever its revision supports.
    """

    shows_urls = True

    def _supports(self, request: InputRequest[Any]) -> bool:
        return not input_requests.missing(request, self.capabilities)

    def _params(self, request: InputRequest[Any]) -> dict[str, Any]:
        return dict(request.params)


class HandOver:
    """Whether a call was continued as a task; all copies of its client share it.

    A call that ends with an input request is never continued, although its handler still cleans
    up. It needs a lock: a thread of the handler and the event loop may decide at the same time.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.requires_input = False
        self.lock = threading.RLock()

    def begin(self, run: Run) -> bool:
        """Continue the call as a task; False if it ends with an input request."""
        with self.lock:
            if not self.requires_input:
                self.run = run
        return not self.requires_input

    def require_input(self) -> bool:
        """End the call with an input request; False if it is a task already."""
        with self.lock:
            self.requires_input = self.run is None
        return self.requires_input


class HandOverClient(MultiRoundTripClient):
    """The client of a stateless call that may be continued as a task while it runs."""

    def __init__(self, origin: MultiRoundTripClient, exchange: Exchange, state: HandOver) -> None:
        facts = origin._server, origin._revision, origin.capabilities, exchange
        logging = origin._progress_token, origin._log_level, origin._rate_limiter
        super().__init__(*facts, *logging, responses=origin.responses)
        self._hand_over = state

    @property
    def is_multi_round_trip(self) -> bool:  # type: ignore[override]
        """Whether an input request ends the call: not once it is a task."""
        return self._hand_over.run is None

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        if self._hand_over.run is None:
            super().progress(progress, total, message)
        else:
            _report(self, self._hand_over.run, progress, total, message)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._hand_over.lock:
            if self._hand_over.run is None:
                return run_in_place(coroutine)  # It waits for nothing.
        return self._exchange.wait_for_client(coroutine)

    def _given(self, requests: InputRequests) -> Responses:
        # As a task it asks again, also for what has the key of an earlier request.
        return super()._given(requests) if self._hand_over.run is None else {}

    def _note(self, reading: Reading) -> None:
        if self._hand_over.run is None:
            super()._note(reading)

    async def _request(self, requests: InputRequests, timeout: float | None) -> Responses:
        if self._hand_over.run is None:
            try:
                return await super()._request(requests, timeout)
            except InputRequired:
                if self._hand_over.require_input():
                    raise
        assert self._hand_over.run is not None
        return await _request(self, self._hand_over.run, requests, None)


def _report(
    client: Client, run: Run, progress: float, total: float | None, message: str | None
) -> None:
    exchange = client._exchange
    if not exchange.progress < progress <= MAX_PROGRESS or exchange.has_ended:
        return
    exchange.progress = progress
    text = None if message is None else storable(str(message))
    params = client._progress_params(progress, total, text)
    notifications = []
    if client._progress_token is not None:
        notifications.append(jsonrpc.notification("notifications/progress", params))
    run.report(progress, params.get("total"), text, notifications)


async def _request(
    client: Client, run: Run, requests: InputRequests, timeout: float | None
) -> Responses:
    sent = {
        name: {"method": request.method, "params": client._params(request)}
        for name, request in requests.items()
    }
    # The lifetime of the task is its limit: a client may poll rarely.
    return await run.request_input(sent, inf if timeout is None else timeout)
