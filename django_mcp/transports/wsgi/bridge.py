"""One request of a WSGI server, which an ASGI application answers in the event loop.

The thread of the WSGI server waits in ``next_part``; it reads the request and writes the response.
The application runs in the event loop, on the thread that runs it. They pass this to each
other:

| what | from | to | by |
|---|---|---|---|
| what other threads pass to the loop | loop | thread | ``RUN`` in the queue |
| the application asks for the body | loop | thread | ``READ`` in the queue |
| a part of the body | thread | loop | ``_deliver`` |
| a part of the response | loop | thread | ``ResponsePart`` in the queue |
| the server has written that part | thread | loop | ``_accept`` |
| the client has gone, or the response is complete | thread | loop | ``_disconnect`` |
| the application has ended | loop | thread | ``Ended`` in the queue |

At most one part of the request and one of the response are in memory. While the thread of the
server waits, it runs the loop itself. It also runs the first step of the application: one that
waits for nothing has responded by then, and nothing is passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from django_mcp.transports.wsgi.environ import BodyPart, RequestBody, disconnected
from django_mcp.transports.wsgi.event_loop import EventLoopThread, LoopEnded

logger = logging.getLogger("django_mcp")

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
StartResponse = Callable[..., object]
Message = dict[str, Any]

PHRASES: Mapping[int, str] = {status.value: status.phrase for status in HTTPStatus}
HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
"""Headers that are the server's own: PEP 3333 forbids applications to send them."""
UNAVAILABLE = b"The server cannot answer now. Try again."


class Read(NamedTuple):
    """The application asks for a part of the body."""


class Run(NamedTuple):
    """Other threads have passed work to the loop."""


class ResponsePart(NamedTuple):
    body: bytes
    more: bool


class Ended(NamedTuple):
    error: BaseException | None


READ = Read()
RUN = Run()


Event = Read | Run | ResponsePart | Ended


class Bridge:
    """One thread of the server uses it; its methods are grouped by the side that calls them."""

    def __init__(
        self, application: Asgi, scope: Message, body: RequestBody, loop_thread: EventLoopThread
    ) -> None:
        self._application = application
        self._scope = scope
        self._body = body
        self._loop_thread = loop_thread
        self._to_thread: SimpleQueue[Event] = SimpleQueue()
        self._first: BodyPart | None = None
        """The whole body, if it is short: it needs no switch to this thread."""
        self._has_body = False
        """Whether the application has received the whole body."""
        # The future that the application waits for.
        self._asked_for_body: asyncio.Future[BodyPart] | None = None
        self._unwritten: asyncio.Future[None] | None = None
        self._disconnected = asyncio.Event()
        # The response.
        self._start: Message = {}
        self._is_complete = False
        self._whole: ResponsePart | None = None
        """The response, if it is one part, such as JSON."""

    # The thread of the server.

    def respond(self, start_response: StartResponse) -> Iterable[bytes]:
        """Return the response; raises LoopEnded, or the application's exception."""
        try:
            if self._body.is_short:
                self._first = self._read_part()
            self._loop_thread.run_here(self._begin)
            part = self._whole or self._first_part()
            start_response(*_head(self._start))
        except BaseException:
            self.close()
            raise
        return ResponseParts(self, part) if part.more else [part.body]

    def _first_part(self) -> ResponsePart:
        self._loop_thread.add(self)
        part = self.next_part()
        if not part.more:
            self._loop_thread.discard(self)
        return part

    def next_part(self) -> ResponsePart:
        """Wait for the next part of the response, and read the body for the application."""
        while True:
            event = self._next_event()
            if isinstance(event, ResponsePart):
                return event
            if isinstance(event, Run):
                self._loop_thread.run_here()
            elif isinstance(event, Read):
                self._read()
            elif event.error is not None:
                raise event.error
            else:
                raise disconnected()

    def written(self) -> None:
        """Note that the server has written the last part."""
        self._loop_thread.call(self._accept)

    def close(self) -> None:
        """Note that nothing more is written."""
        self._loop_thread.discard(self)
        try:
            self._loop_thread.call(self._disconnect)
        except LoopEnded:
            return

    def loop_ended(self) -> None:
        """End the wait of the thread with LoopEnded; called in any thread."""
        self._to_thread.put(Ended(LoopEnded()))

    def wake(self) -> None:
        self._to_thread.put(RUN)

    def _next_event(self) -> Event:
        with suppress(Empty):
            return self._to_thread.get_nowait()
        loop = self._loop_thread.loop
        event: Event | None = None
        loop.add_helper(self)
        try:
            event = self._to_thread.get()
        finally:
            loop.remove_helper(self, runs=event is RUN)
        return event

    def _read_part(self) -> BodyPart:
        reading = self._loop_thread.reading
        reading.add(self._body)
        try:
            return self._body.read()
        finally:
            reading.discard(self._body)

    def _read(self) -> None:
        try:
            part = self._read_part()
        except OSError:
            self._loop_thread.call(self._disconnect)
        else:
            self._loop_thread.call(self._deliver, part)

    # The event loop.

    def _begin(self) -> None:
        self._loop_thread.create_task(self._run())

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            await self._application(self._scope, self._receive, self._send)
        except Exception as raised:
            error = raised
        except (SystemExit, KeyboardInterrupt):
            raise  # The event loop ends, and wakes the threads that wait for it.
        except BaseException as raised:
            # The thread of the server waits without a time limit, whatever has happened.
            error = RuntimeError(f"The request ended with {type(raised).__name__}")
        finally:
            self._loop_thread.task_done()
        if error is not None and self._is_complete:
            logger.error("An application failed after its response", exc_info=error)
        if not self._is_complete:
            self._to_thread.put(Ended(error))

    async def _receive(self) -> Message:
        first = self._first
        if first is not None:
            self._first = None
            return self._request(first)
        if self._has_body:
            await self._disconnected.wait()
        else:
            part = await self._ask_for_body()
            if part is not None:
                return self._request(part)
        return {"type": "http.disconnect"}

    def _request(self, part: BodyPart) -> Message:
        self._has_body = not part.more
        return {"type": "http.request", "body": part.content, "more_body": part.more}

    async def _ask_for_body(self) -> BodyPart | None:
        """Return the next part; None if the client has gone."""
        if self._disconnected.is_set():
            return None
        self._asked_for_body = asyncio.get_running_loop().create_future()
        self._to_thread.put(READ)
        try:
            return await self._asked_for_body
        except ConnectionError:
            return None

    async def _send(self, message: Message) -> None:
        if self._disconnected.is_set():
            raise disconnected()
        if message["type"] == "http.response.start":
            self._start = message
            return
        part = ResponsePart(message.get("body", b""), message.get("more_body", False))
        if part.more:
            self._unwritten = asyncio.get_running_loop().create_future()
            self._to_thread.put(part)
            await self._unwritten
        else:
            self._is_complete = True
            self._disconnected.set()
            if self._unwritten is None:
                self._whole = part
            self._to_thread.put(part)

    def _deliver(self, part: BodyPart) -> None:
        if self._asked_for_body is not None and not self._asked_for_body.done():
            self._asked_for_body.set_result(part)

    def _accept(self) -> None:
        if self._unwritten is not None and not self._unwritten.done():
            self._unwritten.set_result(None)

    def _disconnect(self) -> None:
        self._disconnected.set()
        for future in (self._asked_for_body, self._unwritten):
            if future is not None and not future.done():
                future.set_exception(disconnected())


class ResponseParts:
    """A response in several parts: an SSE stream, for instance."""

    def __init__(self, bridge: Bridge, first: ResponsePart) -> None:
        self._bridge = bridge
        self._first: ResponsePart | None = first
        self._is_last = False

    def __iter__(self) -> ResponseParts:
        return self

    def __next__(self) -> bytes:
        part = self._first
        self._first = None
        while part is None or not part.body:
            if self._is_last:
                raise StopIteration
            self._bridge.written()
            part = self._bridge.next_part()
            self._is_last = not part.more
        return part.body

    def close(self) -> None:
        """Servers call it at the end of the response, and after a disconnect."""
        self._bridge.close()


def unavailable(start_response: StartResponse) -> Iterable[bytes]:
    """Answer a request whose event loop has ended."""
    headers = [("content-type", "text/plain"), ("retry-after", "1")]
    start_response("503 Service Unavailable", headers)
    return [UNAVAILABLE]


def _head(start: Message) -> tuple[str, list[tuple[str, str]]]:
    status = start["status"]
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in start["headers"]
        if name.lower() not in HOP_BY_HOP
    ]
    return f"{status} {PHRASES.get(status, 'Unknown')}", headers
