"""A client of an application in the process of the test: no server, and no socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from django_mcp import Server, routing
from django_mcp.core.protocol.sse import Event
from django_mcp.testing import asgi
from django_mcp.testing.asgi import Application, Body, http_scope
from django_mcp.testing.connections.http import request_headers
from tests.wire.messages import (
    STATELESS,
    Changes,
    Message,
    WireClient,
    encoded,
    messages_of,
    notification,
    response,
)

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(asgi.Reply):
    """A complete response and the messages in it."""

    @property
    def messages(self) -> list[Message]:
        """The messages in the body, which is JSON or a stream of events."""
        if self.media_type == "text/event-stream":
            return messages_of(self.body)
        found = json.loads(self.body) if self.body else []
        return found if isinstance(found, list) else [found]

    @property
    def answer(self) -> Message:
        """The last message, which answers the request."""
        assert self.messages, f"There is no answer: {self.status} {self.body!r}"
        return self.messages[-1]

    @property
    def result(self) -> Message:
        assert "result" in self.answer, f"This is an error: {self.answer}"
        result: Message = self.answer["result"]
        return result

    @property
    def error(self) -> Message:
        assert "error" in self.answer, f"This is not an error: {str(self.answer)[:300]}"
        error: Message = self.answer["error"]
        return error


class Exchange(asgi.Exchange):
    """A request whose response is read piece by piece; what was sent so far can be looked at."""

    def __init__(self, application: Application, scope: Message, body: Body | None = b"") -> None:
        self.sent: list[Message] = []
        self._application_of_test = application
        super().__init__(self._recorded, scope, body)

    @property
    def task(self) -> asyncio.Task[None]:
        """The task of the application, within the block."""
        assert self._task is not None
        return self._task

    @property
    def sent_body(self) -> bytes:
        """The part of the body that was sent so far."""
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_complete(self) -> bool:
        """Whether the response or the application has ended."""
        last = self.sent[-1] if self.sent else {"type": ""}
        return self.task.done() or (
            last["type"] == "http.response.body" and not last.get("more_body", False)
        )

    async def reply(self) -> Reply:
        """The whole response, once the application has returned."""
        reply = Reply(
            status=await self.status(), headers=await self.headers(), body=await self.body()
        )
        await self.wait_closed()
        return reply

    async def data_event(self) -> Event:
        """The next event with data."""
        while True:
            event = await self.event()
            assert event is not None, "The stream has ended"
            if event.data:
                return event

    async def message(self) -> Message:
        """The next message of a stream."""
        message: Message = json.loads((await self.data_event()).data)
        return message

    async def methods(self, number: int) -> list[str]:
        """The methods of the next messages."""
        return [(await self.message())["method"] for _ in range(number)]

    async def _recorded(self, scope: Any, receive: Any, send: Any) -> None:
        async def record(message: Message) -> None:
            await send(message)
            self.sent.append(message)

        await self._application_of_test(scope, receive, record)


class AsgiClient(WireClient):
    """A client of one server, or of a whole ``application``."""

    def __init__(
        self,
        server: Server,
        version: str = WireClient.version,
        *,
        application: Application | None = None,
        path: str | None = None,
        address: tuple[str, int] = ("127.0.0.1", 49152),
        **facts: Any,
    ) -> None:
        super().__init__(version=version, **facts)
        self.server = server
        self.path = path or "/" + server.path.strip("/")
        self.application = application or routing.endpoint(server)
        self.address = address

    def headers_of(
        self, message: Any, changes: Changes | None = None, *, method: str = "POST"
    ) -> dict[str, str]:
        """The headers of a request, with those that repeat arguments of the tool."""
        repeated: dict[str, str] = {}
        if self.version == STATELESS:
            repeated = request_headers(self.server, self.version, message)
        arguments = {name: repeated[name] for name in repeated if name.startswith("mcp-param-")}
        return super().headers_of(message, {**arguments, **(changes or {})}, method=method)

    # Requests with a message.

    def scope(
        self,
        message: Any = None,
        changes: Changes | None = None,
        *,
        method: str = "POST",
        extra: Iterable[Pair] = (),
        **options: Any,
    ) -> Message:
        """The ASGI scope of a request; ``extra`` headers may repeat those that there are."""
        usual = self.headers_of(message, changes, method=method)
        return http_scope(
            method, self.path, headers=[*usual.items(), *extra], client=self.address, **options
        )

    async def post(
        self,
        message: Any,
        changes: Changes | None = None,
        *,
        body: Body | None = None,
        extra: Iterable[Pair] = (),
    ) -> Reply:
        """The response to a POST with a message, or with a ``body`` instead of it."""
        sent = encoded(message) if body is None else body
        return await self._reply(self.scope(message, changes, extra=extra), sent)

    def open_post(
        self,
        message: Any,
        changes: Changes | None = None,
        *,
        extra: Iterable[Pair] = (),
    ) -> Exchange:
        scope = self.scope(message, changes, extra=extra)
        return Exchange(self.application, scope, encoded(message))

    async def tool(self, name: str, /, **arguments: Any) -> Reply:
        """The response to a tool call."""
        return await self.post(self.call(name, **arguments))

    async def notify(self, method: str, **params: Any) -> Reply:
        return await self.post(notification(method, **params))

    async def respond(self, id: Any, result: Mapping[str, Any]) -> Reply:
        return await self.post(response(id, result))

    # Requests without a message.

    async def perform(
        self, method: str, changes: Changes | None = None, *, extra: Iterable[Pair] = ()
    ) -> Reply:
        """The response to a request without a body."""
        return await self._reply(self.scope(None, changes, method=method, extra=extra), b"")

    async def delete(self, changes: Changes | None = None) -> Reply:
        return await self.perform("DELETE", changes)

    def open_get(
        self,
        changes: Changes | None = None,
        *,
        last: str | None = None,
        extra: Iterable[Pair] = (),
    ) -> Exchange:
        """A standalone stream, or one that is resumed after the ``last`` event."""
        resumed = {} if last is None else {"last-event-id": last}
        scope = self.scope(None, {**resumed, **(changes or {})}, method="GET", extra=extra)
        return Exchange(self.application, scope)

    @asynccontextmanager
    async def stream(self, *, last: str | None = None) -> AsyncIterator[Exchange]:
        """Open a standalone stream; yields it after the response has started."""
        async with self.open_get(last=last) as stream:
            assert await stream.status() == 200
            yield stream

    # Sessions.

    async def initialize(self, *, ready: bool = True) -> Reply:
        """Open a session; all further requests have its id."""
        reply = await self.post(self.initialize_request())
        self.session = reply.headers.get("mcp-session-id")
        if ready:
            await self.notify("notifications/initialized")
        return reply

    async def _reply(self, scope: Message, body: Body) -> Reply:
        reply = await asgi.perform(self.application, scope, body)
        return Reply(status=reply.status, headers=reply.headers, body=reply.body)
