"""Run one task: its lease, the reports and input requests of its handler, and its end.

The row is the only connection to other processes: it is read when a hint arrives, and at an
interval. A handler is cancelled when its task is cancelled or deleted, or its lease is lost.

Within its process, a task waits for a slot (``core.concurrency.fair_slots``) as long as it takes.
Its user has a fair share of the slots. A handler that waits for an answer of its client has none.

=================  =====================================  ======================================
a run is           who moves it there                     the process
=================  =====================================  ======================================
starting           ``TaskStore.start``, by one UPDATE,    waits for a slot, and renews the lease
                   again until the database is there      at a third of its length
running            its slot, once it is free              makes the Frame of the stored call,
                                                          runs the handler, renews the lease, and
                                                          stores reports
waiting for input  the handler, by ``request_input``      does the same; others have the slot
                                                          until there is an answer, and it is free
cancelled          ``_watch``: the task has ended, was    cancels the handler; its result is
                   deleted, or the lease is lost          discarded
ending             the handler returns or raises          stores the end, again until the
                                                          database is there
stopped            the process stops, and cancels         stores that the task has failed
                   ``follow``
=================  =====================================  ======================================

A process that dies stores nothing. Its lease ends, and is lost as ``tasks.store`` describes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from django_mcp.core.concurrency.fair_slots import FairSlots, Slot
from django_mcp.core.frame.cancellation import Cancellation
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc, tasks
from django_mcp.core.protocol.errors import InternalError, Json
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.protocol.tasks import MAX_MESSAGES, Task, TaskEnded
from django_mcp.pubsub import pending_requests
from django_mcp.runtime import background, request_scope
from django_mcp.tasks import changes, result_streams, store
from django_mcp.tasks.changes import Hints
from django_mcp.tasks.store import UNAVAILABLE

logger = logging.getLogger("django_mcp")

FLUSH_INTERVAL = 0.2
"""Seconds between two writes of a handler's reports."""
RETRY = 1.0
"""Seconds until the database is tried again."""
HOST_LENGTH = 30
"""Characters of the host in the name of a run."""
GONE = "The task does not exist any more"
NOT_REPORTED = "The progress of a task cannot be stored"
STOPPED: Json = {"code": -32603, "message": "The process that ran this task was stopped"}
UNLIMITED = FairSlots(inf)
"""For work that nobody else waits for: a worker process runs its own tasks."""
OUTAGE = 60.0
"""Seconds that the database may be unavailable when a task starts or ends."""

T = TypeVar("T")


async def until_available(operation: Callable[[], Awaitable[T]], seconds: float, text: str) -> T:
    """Repeat an operation until the database is available; return its result.

    Each failure is logged with ``text``. Raises the last error after ``seconds``.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        try:
            return await operation()
        except UNAVAILABLE:
            if loop.time() > until:
                raise
            log_repeated(logging.WARNING, text, exc_info=True)
            await asyncio.sleep(RETRY)


def new_lease_owner() -> str:
    """Return the name of a new run, with its host and process: it may own a lease."""
    return f"{socket.gethostname()[:HOST_LENGTH]}:{os.getpid()}:{secrets.token_hex(8)}"


def worker_of(lease_owner: str) -> str:
    """The host and the process in the name of a run."""
    return lease_owner.rpartition(":")[0]


class Run:
    """One task that this process runs; it is leased to ``lease_owner``, and may have a slot."""

    def __init__(self, task: Task, lease_owner: str, slot: Slot | None = None) -> None:
        self.id = task.id
        self.lease_owner = lease_owner
        self.slot = slot or UNLIMITED.slot()
        self.cancellation = Cancellation()
        self._store = store.get()
        self._loop = asyncio.get_running_loop()
        self._work: asyncio.Task[bytes] | None = None
        self._task = task
        self._updated = asyncio.Event()
        self._lock = threading.Lock()
        self._progress: tuple[float, float | None, str | None] | None = None
        self._messages: list[Json] = []
        self._is_scheduled = False

    # For the handler, from any thread.

    def report(
        self,
        progress: float,
        total: float | None,
        message: str | None,
        notifications: Iterable[Json],
        /,
    ) -> None:
        """Store progress soon; never blocks."""
        with self._lock:
            self._progress = (progress, total, message)
        self._add(notifications)

    def add(self, message: Json, /) -> None:
        self._add([message])

    def _add(self, messages: Iterable[Json]) -> None:
        related = _as_sent(
            [
                {**each, "params": tasks.with_related(each.get("params") or {}, self.id)}
                for each in messages
            ]
        )
        with self._lock:
            self._messages = [*self._messages, *related][-MAX_MESSAGES:]
            if self._is_scheduled:
                return
            self._is_scheduled = True
        with suppress(RuntimeError):  # The loop is closed: the task has ended.
            self._loop.call_soon_threadsafe(self._spawn_flush)

    def _spawn_flush(self) -> None:
        background.spawn(self._flush())

    async def request_input(
        self, requests: Mapping[str, Json], timeout: float, /
    ) -> dict[str, Json]:
        """Ask the client, and return its responses by the names of the requests.

        Raises ClientError and TimeoutError.
        """
        sendable = _as_sent(requests)
        keys: dict[str, str] = {}

        def ask(task: Task) -> Task:
            waiting_task, issued_keys = tasks.ask(task, sendable)
            keys.update(issued_keys)
            return waiting_task

        await self._change(ask)
        offer = partial(result_streams.offer, self.id)
        offering = background.create_task(until_available(offer, inf, result_streams.NOT_OFFERED))
        await request_scope.release_thread()
        try:
            async with (
                self.slot.step_aside(),
                asyncio.timeout(None if timeout == inf else timeout),
            ):
                while not all(map(self._has_response, keys.values())):
                    await self._updated.wait()
        except (TimeoutError, asyncio.CancelledError):
            background.spawn(self._take_responses(keys.values()))
            raise
        finally:
            offering.cancel()
        responses = {name: self._task.inputs[key]["response"] for name, key in keys.items()}
        await self._take_responses(keys.values())
        return {name: pending_requests.read(response) for name, response in responses.items()}

    def _has_response(self, key: str) -> bool:
        return "response" in self._task.inputs.get(key, ())

    async def _take_responses(self, keys: Iterable[str]) -> None:
        with suppress(TaskEnded):
            await self._change(lambda task: tasks.take_responses(task, keys))

    # For the process.

    async def follow(self, work: asyncio.Task[bytes]) -> None:
        """Renew the lease until ``work`` is done, cancel it with the task, and store its answer."""
        self._work = work
        async with changes.hints(self.id, ignored=self.lease_owner) as hints:
            watching = asyncio.create_task(self._watch(hints))
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                self.cancellation.request(STOPPED["message"])
                work.cancel()
                try:
                    await self._end(lambda task: tasks.fail(task, STOPPED))
                except Exception:
                    text = "It cannot be stored that a task was stopped: its lease will end"
                    log_repeated(logging.ERROR, text, exc_info=True)
                raise
            finally:
                watching.cancel()
        await self._end(_end_of(work))

    async def _watch(self, hints: Hints) -> None:
        """Read the task after each hint, renew its lease, and cancel the work with the task."""
        interval = self._store.lease.total_seconds() / 3
        renewal = self._loop.time() + interval
        wait = 0.0
        while True:
            # At first without a wait: the task may have been cancelled before hints arrived.
            await hints.wait(wait)
            try:
                is_due = self._loop.time() >= renewal
                read = self._store.renew if is_due else self._store.load_leased
                task = await read(self.id, self.lease_owner)
            except UNAVAILABLE:
                log_repeated(logging.WARNING, "A task cannot be read; trying again", exc_info=True)
                await asyncio.sleep(RETRY)
                continue
            if is_due:
                renewal = self._loop.time() + interval
            wait = max(renewal - self._loop.time(), 0.01)
            if task is None or task.is_final:
                self._cancel(task)
                return
            self._update(task)

    def _cancel(self, task: Task | None) -> None:
        """Cancel the work; ``task`` has ended; None: it was deleted, or its lease is lost."""
        reason = GONE if task is None else task.message
        self.cancellation.request(reason)
        if self._work is not None:
            self._work.cancel()

    def _update(self, task: Task) -> None:
        self._task = task
        # It wakes those that wait now. Later updates set another event.
        self._updated.set()
        self._updated = asyncio.Event()

    async def _change(self, apply: store.Apply) -> None:
        """Change the task; raises TaskEnded if it has ended, or the lease is lost."""
        changed = await self._store.change(self.id, apply, lease_owner=self.lease_owner)
        if changed is None:
            self._cancel(None)
            raise TaskEnded(GONE)
        self._update(await changes.publish(changed, self.lease_owner))

    async def _flush(self) -> None:
        """Store the reports; again after FLUSH_INTERVAL if there are more by then."""
        try:
            with suppress(TaskEnded):
                await self._change(self._take_reports())
        except Exception:  # The reports after these may be stored.
            log_repeated(logging.WARNING, NOT_REPORTED, exc_info=True)
        await asyncio.sleep(FLUSH_INTERVAL)
        with self._lock:
            self._is_scheduled = bool(self._messages) or self._progress is not None
            is_due = self._is_scheduled
        if is_due:
            background.spawn(self._flush())

    def _take_reports(self) -> store.Apply:
        """Return the change that stores new reports.

        It may be applied several times, until no other change is in conflict with it.
        """
        with self._lock:
            number, total, message = self._progress or (None, None, None)
            messages = self._messages
            self._progress = None
            self._messages = []

        def report(task: Task) -> Task:
            if number is None and not messages:
                return task
            return tasks.report(task, message, number, total, messages)

        return report

    async def _end(self, end: Callable[[Task], Task]) -> None:
        """Store how the task has ended; the database may be unavailable for a while.

        The end counts even after the lease has run out, unless another process has ended the task.
        """
        seconds = max(OUTAGE, self._store.lease.total_seconds())
        report = self._take_reports()

        def report_and_end(task: Task) -> Task:
            return end(report(task))

        async def store_end() -> None:
            with suppress(TaskEnded):
                try:
                    await self._change(report_and_end)
                except (TaskEnded, *UNAVAILABLE):
                    raise
                except Exception:  # The result matters more than the last reports.
                    log_repeated(logging.WARNING, NOT_REPORTED, exc_info=True)
                    await self._change(end)

        text = "The result of a task cannot be stored; trying again"
        await until_available(store_end, seconds, text)


def _as_sent(value: Any) -> Any:
    """Return ``value`` as the client will receive it: what JSON has no form of cannot be stored.

    Raises ValueError for what cannot be sent, as the same call without a task does.
    """
    return jsonrpc.decode(jsonrpc.encode(value))


def _end_of(work: asyncio.Task[bytes]) -> Callable[[Task], Task]:
    """Return the change of a task after its handler has ended."""
    if work.cancelled():
        return lambda task: tasks.fail(task, STOPPED)
    if (error := work.exception()) is not None:
        logger.error("A task failed", exc_info=error)
        described: dict[str, Any] = NEWEST.error(InternalError())
        return lambda task: tasks.fail(task, described)
    message = jsonrpc.decode(work.result())
    if "error" in message:
        return lambda task: tasks.fail(task, message["error"])
    return lambda task: tasks.complete(task, message["result"])
