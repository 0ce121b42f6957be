"""A client which speaks HTTP by hand, in the process of the test: no server, no socket.

It imports nothing of the package but the endpoint, so that a fault is seen as a client sees it.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

from django_mcp import Server, routing

T = TypeVar("T")
Message = dict[str, Any]
Pair = tuple[str, str]

TIMEOUT = 5.0
STATELESS = "2026-07-28"
NEWEST_SESSION = "2025-11-25"
META = "io.modelcontextprotocol/"
ACCEPT = "application/json, text/event-stream"
FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response, or what the application raised instead of one."""

    status: int | None = None
    headers: Sequence[Pair] = ()
    body: bytes = b""
    raised: BaseException | None = None

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def messages(self) -> list[Message]:
        """The messages in the body, be it JSON or a stream of events."""
        if (self.header("content-type") or "").startswith("text/event-stream"):
            events = self.body.decode().replace("\r\n", "\n").split("\n\n")
            return [message for event in events if (message := _message(event)) is not None]
        found = json.loads(self.body) if self.body else []
        return found if isinstance(found, list) else [found]

    @property
    def answer(self) -> Message:
        """The last message, which answers the request."""
        assert self.raised is None, f"The application raised {self.raised!r}"
        assert self.messages, f"There is no answer: {self.status} {self.body!r}"
        return self.messages[-1]

    @property
    def result(self) -> Message:
        assert "result" in self.answer, f"This is an error: {self.answer}"
        result: Message = self.answer["result"]
        return result

    @property
    def error(self) -> Message:
        assert "error" in self.answer, f"This is no error: {str(self.answer)[:300]}"
        error: Message = self.answer["error"]
        return error


class Exchange:
    """One request to an application, in a task of its own; leaving the block disconnects."""

    def __init__(self, application: Any, scope: Message, body: bytes | None) -> None:
        self._application = application
        self._scope = scope
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: list[Message] = []
        self._changed = asyncio.Condition()
        self._room = asyncio.Event()
        self._room.set()
        self.read = 0
        """The messages which were taken with ``message``."""
        if body is not None:
            self.feed(body)

    async def __aenter__(self) -> Self:
        self.task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.disconnect()
        await asyncio.wait([self.task], timeout=0.5)
        self.task.cancel()
        await asyncio.wait([self.task], timeout=1)

    def feed(self, body: bytes, *, more: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self) -> None:
        self._room.set()
        self._incoming.put_nowait({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """Let what the application sends wait."""
        self._room.clear()

    @property
    def size(self) -> int:
        """Bytes that were sent so far."""
        return sum(len(message.get("body", b"")) for message in self._sent)

    @property
    def response(self) -> Response:
        """What there is so far."""
        start = self._sent[0] if self._sent else None
        raised = None
        if self.task.done():
            raised = self.task.result()
        return Response(
            None if start is None else start["status"],
            ()
            if start is None
            else [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in start["headers"]
            ],
            b"".join(message.get("body", b"") for message in self._sent),
            raised,
        )

    @property
    def is_complete(self) -> bool:
        """Whether the response has ended."""
        return self.task.done() or bool(
            self._sent
            and self._sent[-1]["type"] == "http.response.body"
            and not self._sent[-1].get("more_body")
        )

    async def status(self, timeout: float = TIMEOUT) -> int | None:
        await self._until(lambda: bool(self._sent) or self.task.done(), timeout)
        return self.response.status

    async def whole(self, timeout: float = TIMEOUT) -> Response:
        """The response, once the application is done with the request."""
        await asyncio.wait([self.task], timeout=timeout)
        if not self.task.done():
            raise TimeoutError(f"No answer within {timeout:g} s")
        return self.response

    async def message(self, timeout: float = TIMEOUT) -> Message:
        """The next message of a stream."""
        await self._until(
            lambda: len(self.response.messages) > self.read or self.is_complete, timeout
        )
        assert len(self.response.messages) > self.read, f"The stream has ended: {self.response}"
        self.read += 1
        return self.response.messages[self.read - 1]

    async def _until(self, condition: Any, timeout: float) -> None:
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(condition)

    async def _run(self) -> BaseException | None:
        try:
            await self._application(self._scope, self._incoming.get, self._send)
        except (Exception, asyncio.CancelledError, BaseExceptionGroup) as error:
            return error
        finally:
            async with self._changed:
                self._changed.notify_all()
        return None

    async def _send(self, message: Message) -> None:
        await self._room.wait()
        self._sent.append(message)
        async with self._changed:
            self._changed.notify_all()


@dataclass
class Peer:
    """One client of one server."""

    server: Server
    version: str = STATELESS
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    headers: Sequence[Pair] = ()
    client: tuple[str, int] = ("127.0.0.1", 50000)
    application: Any = None
    path: str | None = None
    session: str | None = None
    client_info: Mapping[str, Any] = field(
        default_factory=lambda: {"name": "by hand", "version": "1"}
    )

    def __post_init__(self) -> None:
        self._ids = count(1)
        if self.application is None:
            self.application = routing.endpoint(self.server)

    # Messages.

    def request(self, method: str, params: Any = None, *, id: Any = None) -> Message:
        params = dict(params or {})
        if self.version == STATELESS:
            meta = {"protocolVersion": self.version, "clientCapabilities": dict(self.capabilities)}
            params["_meta"] = {
                **{META + name: value for name, value in meta.items()},
                **params.get("_meta", {}),
            }
        identity = next(self._ids) if id is None else id
        return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}

    def call(self, tool: str, arguments: Any = None, **params: Any) -> Message:
        identity = params.pop("id", None)
        return self.request(
            "tools/call", {"name": tool, "arguments": arguments or {}, **params}, id=identity
        )

    def listen(self, id: Any = "listen", **notifications: Any) -> Message:
        return self.request("subscriptions/listen", {"notifications": notifications}, id=id)

    # Requests.

    def scope(
        self,
        method: str = "POST",
        message: Any = None,
        *,
        without: Iterable[str] = (),
        extra: Iterable[Pair] = (),
    ) -> Message:
        """An ASGI scope; ``without`` names usual headers to leave out."""
        usual = {"host": "testserver", "accept": ACCEPT}
        if method == "POST":
            usual["content-type"] = "application/json"
        if method == "GET":
            usual["accept"] = "text/event-stream"
        if self.version == STATELESS:
            usual["mcp-protocol-version"] = self.version
            if isinstance(message, dict):
                usual["mcp-method"] = message["method"]
                named = message["params"].get(NAMED.get(message["method"], ""))
                if named is not None:
                    usual["mcp-name"] = header_value(named)
        elif self.session is not None:
            usual["mcp-session-id"] = self.session
        pairs = [(name, value) for name, value in usual.items() if name not in without]
        pairs += [*self.headers, *extra]
        path = self.path or "/" + self.server.path.strip("/")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs],
            "client": self.client,
            "server": ("testserver", 80),
        }

    def open(
        self,
        message: Any = None,
        method: str = "POST",
        *,
        body: bytes | None = None,
        **changes: Any,
    ) -> Exchange:
        """A request whose response is read piece by piece; a ``body`` replaces the message's."""
        if body is None:
            body = b"" if message is None else encoded(message)
        return Exchange(self.application, self.scope(method, message, **changes), body)

    async def send(
        self, message: Any = None, method: str = "POST", *, timeout: float = TIMEOUT, **changes: Any
    ) -> Response:
        """The response to a request; raises TimeoutError."""
        async with self.open(message, method, **changes) as exchange:
            return await exchange.whole(timeout)

    async def notify(self, method: str, **params: Any) -> Response:
        return await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def respond(self, id: Any, result: Message) -> Response:
        return await self.send({"jsonrpc": "2.0", "id": id, "result": result})

    async def tool(self, name: str, arguments: Any = None, **params: Any) -> Response:
        return await self.send(self.call(name, arguments, **params))

    # Sessions.

    async def initialize(self, *, ready: bool = True) -> Response:
        hello = {
            "protocolVersion": self.version,
            "capabilities": dict(self.capabilities),
            "clientInfo": dict(self.client_info),
        }
        response = await self.send(self.request("initialize", hello))
        self.session = response.header("mcp-session-id")
        if ready:
            await self.notify("notifications/initialized")
        return response


def header_value(text: str) -> str:
    """As the specification has it for what a header cannot contain."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


def encoded(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def text_of(result: Mapping[str, Any]) -> str:
    """The text of a tool's result."""
    text: str = result["content"][0]["text"]
    return text


@asynccontextmanager
async def unblocked(limit: float = 0.1) -> AsyncIterator[None]:
    """Fails when what happens in the block holds the event loop for longer than ``limit``.

    The processor time of the loop's thread between two ticks counts, so that a busy machine
    makes no difference. What all the tests have made is no part of a collection meanwhile, as in
    a process that serves.
    """
    gc.freeze()
    longest, before = 0.0, time.thread_time()

    async def tick() -> None:
        nonlocal longest, before
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
            await asyncio.sleep(0.001)

    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(0.01)
    longest, before = 0.0, time.thread_time()
    try:
        yield
    finally:
        await asyncio.sleep(0.01)
        ticker.cancel()
        gc.unfreeze()
    assert longest <= limit, f"The event loop was held for {longest * 1000:.0f} ms"


async def outcome(awaitable: Awaitable[T]) -> T | BaseException:
    """What is returned or raised."""
    try:
        return await awaitable
    except (Exception, asyncio.CancelledError) as error:
        return error


def _message(event: str) -> Message | None:
    data = [line[5:].strip() for line in event.split("\n") if line.startswith("data:")]
    text = "\n".join(data)
    return json.loads(text) if text else None


@asynccontextmanager
async def accelerated(factor: float = 40) -> AsyncIterator[None]:
    """Within it, the event loop's clock runs faster than the world's."""
    loop = asyncio.get_running_loop()
    real, began = loop.time, loop.time()

    async def spin() -> None:
        """The loop sleeps by the world's clock, so that it must not sleep for long."""
        while True:
            time.sleep(0.0005)
            await asyncio.sleep(0)

    loop.time = lambda: began + (real() - began) * factor  # type: ignore[method-assign]
    spinning = asyncio.ensure_future(spin())
    try:
        yield
    finally:
        spinning.cancel()
        del loop.time
