"""Waiting for the end of a task in ``tasks/result``, and what is sent on its stream meanwhile.

Messages of the task are sent once, on the stream that takes them first. Its input requests are
sent by one stream at a time, which claims them for as long as it is open.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from django_mcp.frame.frame import Frame
from django_mcp.protocol import tasks
from django_mcp.protocol.errors import ClientError, Json
from django_mcp.protocol.tasks import Task, TaskEnded
from django_mcp.tasks import changes, store
from django_mcp.tasks.calls import owner_of

logger = logging.getLogger("django_mcp")

CLAIM = 30.0
"""Seconds after which another stream may send a request that this one has claimed."""


class Delivery:
    """One waiting ``tasks/result`` request."""

    def __init__(self, frame: Frame, task_id: str) -> None:
        self._frame = frame
        self._id = task_id
        self._owner = owner_of(frame)
        self._name = secrets.token_urlsafe(9)
        self._store = store.get()
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def wait(self) -> Task | None:
        """Return the task when it has ended; None if it does not exist."""
        async with changes.hints(self._id) as hints:
            try:
                while True:
                    task = await self._store.load(self._id, self._owner)
                    if task is None:
                        return None
                    if task.messages:
                        await self._send_messages()
                    if task.is_final:
                        return task
                    if task.outstanding:
                        await self._send_requests()
                    await hints.wait(CLAIM / 3 if self._sending else None)
            finally:
                await self._stop()

    async def _send_messages(self) -> None:
        changed = await self._store.change(self._id, tasks.take_messages, owner=self._owner)
        for message in () if changed is None else changed.before.messages:
            self._frame.exchange.write(dict(message))

    async def _send_requests(self) -> None:
        """Send the requests which no other stream sends; extend the claim on those sent."""
        now = time.time()
        claim = partial(tasks.claim_requests, by=self._name, now=now, until=now + CLAIM)
        with suppress(TaskEnded):
            changed = await self._store.change(self._id, claim, owner=self._owner)
            claimed = {} if changed is None else tasks.claimed_by(changed.after, self._name)
            for key, request in claimed.items():
                if key not in self._sending:
                    self._sending[key] = asyncio.create_task(self._send(key, request))

    async def _send(self, key: str, request: Json) -> None:
        """Send one request, and store the response."""
        params = tasks.with_related(request["params"], self._id)
        timeout = self._frame.server.options.client_response_timeout
        try:
            send = self._frame.exchange.send_request
            response: Json = {"result": await send(request["method"], params, timeout=timeout)}
        except ClientError as error:
            described = {"code": error.code, "message": error.message, "data": error.data}
            response = {"error": described}
        except (TimeoutError, ConnectionError):
            return  # It is still outstanding, for the next request of the client.
        except Exception:
            logger.exception("An input request of a task cannot be sent")
            return
        await answer(self._id, self._owner, {key: response})

    async def _stop(self) -> None:
        """Leave the requests without a response to other streams."""
        waiting = [task for task in self._sending.values() if not task.done()]
        for task in waiting:
            task.cancel()
        if waiting:
            release = partial(tasks.claim_requests, by=self._name, now=0.0, until=0.0)
            with suppress(TaskEnded):
                await self._store.change(self._id, release, owner=self._owner)


async def answer(task_id: str, owner: str, responses: Mapping[str, Json]) -> Task | None:
    """Store responses of the client; None if the task does not exist."""
    apply = partial(tasks.answer, responses=responses)
    changed = await store.get().change(task_id, apply, owner=owner)
    return None if changed is None else await changes.publish(changed)
