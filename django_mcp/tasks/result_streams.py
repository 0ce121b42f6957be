"""Waiting for the end of a task in ``tasks/result``, and messages on its stream meanwhile.

A client may drop a stream in silence, and a user may take longer than a request waits. So the
newest ``tasks/result`` request of a task sends its messages and input requests, also those that an
older one has sent already. The field ``receiver`` of the task has the name of that request:

==================  =============================================  ==========================
receiver            who moves it                                   this request
==================  =============================================  ==========================
this request        it begins, or finds the field empty            sends, and sends requests
                                                                   without a response again
another request     that one began later                           cancels its own requests,
                                                                   and waits for the end
empty               the receiver was cancelled                     becomes the receiver
==================  =============================================  ==========================

Some clients poll ``tasks/get`` alone. Where the field is empty for ``GRACE`` seconds, the run sends
its input requests on the stream of the session (``offer``), until a ``tasks/result`` request
begins.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from django_mcp import registry
from django_mcp.core.frame.client import input_requests
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import ClientError, Json
from django_mcp.core.protocol.revisions import BY_VERSION, Feature
from django_mcp.core.protocol.tasks import Status, Task
from django_mcp.core.server.notifications import PUBLISHER
from django_mcp.core.server.server import Server
from django_mcp.pubsub.session_messages import CONNECTION_BOUND
from django_mcp.runtime import background
from django_mcp.tasks import changes, store
from django_mcp.tasks.store import UNAVAILABLE

logger = logging.getLogger("django_mcp")


GRACE = 3.0
"""Seconds that a client has for its ``tasks/result`` request, once input is required."""
NOT_OFFERED = (
    "The input requests of a task cannot be sent on the stream of its session; trying again"
)


class Way(Protocol):
    """Where requests to the client are sent."""

    def write(self, message: dict[str, Any], /) -> None: ...
    async def send_request(
        self, method: str, params: dict[str, Any], /, *, timeout: float
    ) -> Any: ...


class Delivery:
    """One waiting ``tasks/result`` request."""

    def __init__(self, way: Way, task_id: str, owner: str) -> None:
        self._way = way
        self._id = task_id
        self._owner = owner
        self._name = secrets.token_urlsafe(9)
        self._store = store.get()
        self._sending: dict[str, asyncio.Task[None]] = {}
        """Sent requests without a response, by key."""

    async def wait(self) -> Task | None:
        """Return the task when it has ended; None if it does not exist."""
        async with changes.hints(self._id, ignored=self._name) as hints:
            try:
                task = await self._become_receiver()
                while task is not None and not task.is_final:
                    self._send_requests(task)
                    await hints.wait()
                    task = await self._store.load(self._id, self._owner)
                    if task is not None and not task.receiver and not task.is_final:
                        task = await self._become_receiver()
                    if task is not None and task.messages and task.receiver == self._name:
                        await self._send_messages()
                return task
            except asyncio.CancelledError:
                await self._release()
                raise
            finally:
                self._cancel(tuple(self._sending))

    async def offer(self) -> None:
        """Send input requests while nobody else does, until the task requires no input."""
        await asyncio.sleep(GRACE)
        async with changes.hints(self._id, ignored=self._name) as hints:
            try:
                while await self._offer_once():
                    await hints.wait()
            finally:
                self._cancel(tuple(self._sending))
                await self._release()

    async def _offer_once(self) -> bool:
        """Send new input requests if nobody else does; return whether there may be more.

        While the database is away, the client keeps those that were sent.
        """
        try:
            task = await self._store.load(self._id, self._owner)
            if task is None or task.status is not Status.INPUT_REQUIRED:
                return False
            if not task.receiver:
                task = await self._become_receiver(takes_messages=False) or task
        except UNAVAILABLE:
            log_repeated(logging.WARNING, NOT_OFFERED, exc_info=True)
            return True
        self._send_requests(task)
        return True

    async def _become_receiver(self, *, takes_messages: bool = True) -> Task | None:
        apply = partial(tasks.receive, by=self._name)
        changed = await self._store.change(self._id, apply, owner=self._owner)
        if changed is None:
            return None
        task = await changes.publish(changed, self._name)
        if task.messages and takes_messages:
            await self._send_messages()
        return task

    async def _send_messages(self) -> None:
        changed = await self._store.change(self._id, tasks.take_messages, owner=self._owner)
        for message in () if changed is None else changed.before.messages:
            self._way.write(dict(message))

    def _send_requests(self, task: Task) -> None:
        """Send requests without a response; cancel those that were answered, or sent elsewhere."""
        outstanding = task.outstanding if task.receiver == self._name else {}
        self._cancel(self._sending.keys() - outstanding.keys())
        for key in outstanding.keys() - self._sending.keys():
            sending = asyncio.create_task(self._send(key, outstanding[key]))
            self._sending[key] = sending

    def _cancel(self, keys: Iterable[str]) -> None:
        for key in tuple(keys):
            self._sending.pop(key).cancel()

    async def _send(self, key: str, request: Json) -> None:
        """Send one request, and store the response."""
        params = tasks.with_related(request["params"], self._id)
        timeout = input_requests.RESPONSE_TIMEOUT
        try:
            send = self._way.send_request
            response: Json = {"result": await send(request["method"], params, timeout=timeout)}
        except ClientError as error:
            described = {"code": error.code, "message": error.message, "data": error.data}
            response = {"error": described}
        except (TimeoutError, ConnectionError, *UNAVAILABLE):
            self._sending.pop(key, None)  # It is still outstanding, and is sent again.
            return
        except Exception:
            logger.exception("An input request of a task cannot be sent")
            return
        try:
            # The request may end meanwhile, but the response is here.
            storing = background.create_task(answer(self._id, self._owner, {key: response}))
            await asyncio.shield(storing)
        except UNAVAILABLE:
            self._sending.pop(key, None)

    async def _release(self) -> None:
        """Let an older request send the requests without a response."""
        apply = partial(tasks.release, by=self._name)
        with suppress(*UNAVAILABLE):
            changed = await self._store.change(self._id, apply, owner=self._owner)
            if changed is not None:
                await changes.publish(changed, self._name)


class _SessionStream:
    """The stream of a session that belongs to no request."""

    def __init__(self, server: Server, session_id: str) -> None:
        self._server = server
        self._session_id = session_id

    def write(self, message: dict[str, Any], /) -> None:
        """Do nothing: the messages of a task are for its ``tasks/result`` request."""

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        publisher = PUBLISHER.get()
        if publisher is None:
            raise ConnectionError("Nothing publishes to sessions here")
        try:
            return await publisher.request(self._server, self._session_id, method, params, timeout)
        except LookupError as error:
            raise ConnectionError("The session has ended") from error


async def offer(task_id: str) -> None:
    """Send the input requests of a task on the stream of its session, if it has one in a store.

    Raises an error of ``UNAVAILABLE`` only before anything is sent.
    """
    row = await store.get().row(task_id)
    if row is None or not BY_VERSION[row.version].has(Feature.TASKS):
        return
    call = store.call_of(row)
    session_id = call.get("session_id")
    server = registry.find(row.server)
    if session_id is None or server is None or not call["is_task"]:
        return
    if CONNECTION_BOUND not in session_id:
        await Delivery(_SessionStream(server, session_id), task_id, row.owner).offer()


async def answer(task_id: str, owner: str, responses: Mapping[str, Json]) -> Task | None:
    """Store responses of the client; None if the task does not exist."""
    apply = partial(tasks.answer, responses=responses)
    changed = await store.get().change(task_id, apply, owner=owner)
    return None if changed is None else await changes.publish(changed)
