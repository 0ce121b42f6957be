"""Clients of servers that listen on a port; one of them checks that answers are its own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any, NamedTuple

import httpx

from django_mcp.core.protocol import sse
from tests.wire.messages import STATELESS, Changes, Message, WireClient, messages_of, notification

Requested = Callable[[Message], Awaitable[None]]
"""What is done with a request of the server."""

RECONNECT = 0.3
"""Seconds until a client whose connection broke connects again."""
_ids = count(1)


class Failed(Exception):
    """A request which was answered with an error, or not at all; the text is the kind."""


class SessionGone(Failed):
    """The session is not found: the client has to initialize again."""


class Crossed(Exception):
    """An answer or a notification which belongs to somebody else."""


class Caller(NamedTuple):
    """A user of the site, and a token of theirs."""

    name: str
    token: str


def request(method: str, params: Mapping[str, Any] | None = None, *, id: Any = None) -> Message:
    """A request whose id no other client has used; its metadata are added when it is sent."""
    number = next(_ids) if id is None else id
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}


class LiveClient(WireClient):
    """A client in an event loop, with or without a session."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        version: str = STATELESS,
        caller: Caller | None = None,
        **capabilities: Any,
    ) -> None:
        """Without a ``caller``, it is anonymous."""
        token = {} if caller is None else {"authorization": f"Bearer {caller.token}"}
        super().__init__(version=version, capabilities=capabilities, headers=token)
        self.http = http
        self.url = url
        self.caller = caller
        self.resumptions: list[str] = []
        """How the stream of the last call was resumed, for whoever looks why it hangs."""
        self.resumed_at = 0.0
        """The time of the last resumption, by ``time.monotonic``."""

    # Sessions.

    async def initialize(self) -> Message:
        """Open a new session; returns the result."""
        self.session = None
        message = self.initialize_request()
        async with self.opened(message) as response:
            opened = await self._answer(response, message)
            self.session = response.headers["mcp-session-id"]
        await self.notify("notifications/initialized")
        return opened

    async def delete(self) -> None:
        response = await self.http.delete(self.url, headers=self.headers_of(None, method="DELETE"))
        check(response)

    # Messages.

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """The result of a request; raises Failed, or Crossed."""
        message = request(method, params)
        async with self.opened(message) as response:
            return await self._answer(response, message)

    async def tool(self, tool: str, /, **arguments: Any) -> Message:
        """The result of a tool."""
        return succeeded(await self.ask("tools/call", {"name": tool, "arguments": arguments}))

    async def notify(self, method: str, **params: Any) -> None:
        await self.send(notification(method, **params))

    async def send(self, message: Message) -> None:
        """Send a notification or a response."""
        async with self.opened(message):
            pass

    async def stream_call(
        self, tool: str, requested: Requested | None = None, **arguments: Any
    ) -> Message:
        """The result of a tool, whose stream is resumed when it breaks."""
        message = request("tools/call", {"name": tool, "arguments": arguments})
        message["params"]["_meta"] = {"progressToken": message["id"]}
        return succeeded(await self.resumed(message, requested))

    async def resumed(self, message: Message, requested: Requested | None = None) -> Message:
        """The result of a request, whose stream is resumed when it breaks."""
        seen: list[str] = []
        self.resumptions = []
        try:
            async with self.opened(message) as response:
                if (
                    found := await self._until_answer(response, message, requested, seen)
                ) is not None:
                    return self.own_result(found)
        except httpx.TransportError:
            if not seen:
                raise
        if not seen:
            raise Failed("stream ended")
        while True:
            await asyncio.sleep(RECONNECT)
            with suppress(httpx.TransportError):
                async with self.resuming(seen[-1]) as response:
                    self.resumptions.append(f"{response.status_code} after event {len(seen)}")
                    self.resumed_at = time.monotonic()
                    # A service that is away ends an attempt to resume, not the call.
                    if response.status_code >= 500:
                        continue
                    check(response)
                    found = await self._until_answer(response, message, requested, seen)
                    if found is not None:
                        return self.own_result(found)

    @asynccontextmanager
    async def opened(self, message: Any) -> AsyncIterator[httpx.Response]:
        """The response to a message that is posted, as it comes."""
        sent = self.described(message)
        headers = self.headers_of(sent)
        async with self.http.stream("POST", self.url, json=sent, headers=headers) as response:
            check(response)
            yield response

    @asynccontextmanager
    async def resuming(self, last: str | None) -> AsyncIterator[httpx.Response]:
        """The session's stream, or one that is resumed, of any status."""
        headers = self.headers_of(None, method="GET")
        if last is not None:
            headers["last-event-id"] = last
        async with self.http.stream("GET", self.url, headers=headers) as response:
            yield response

    async def _answer(self, response: httpx.Response, message: Message) -> Message:
        found = await self._until_answer(response, message, None, [])
        if found is None:
            raise Failed("stream ended")
        return self.own_result(found)

    def own_result(self, answer: Message) -> Message:
        """The result, if the site made it for this caller; raises Failed, or Crossed."""
        result = result_of(answer)
        # A question has no name: middleware does not see it. Whoever answers compares its token.
        if self.caller is None or result.get("resultType") == "input_required":
            return result
        if result.get("_meta", {}).get("user") != self.caller.name:
            raise Crossed(f"{result} is received by {self.caller.name}")
        return result

    async def _until_answer(
        self,
        response: httpx.Response,
        message: Message,
        requested: Requested | None,
        seen: list[str],
    ) -> Message | None:
        """The answer in a response, or None where it ends without; ``seen`` gets event ids."""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            return owned(json.loads(await response.aread()), message)
        async for event in events(response):
            if event.id:
                seen.append(event.id)
            if not event.data:
                continue
            received = json.loads(event.data)
            if "method" not in received:
                return owned(received, message)
            if "id" in received:
                if requested is not None:
                    await requested(received)
            elif received["method"] == "notifications/progress":
                check_progress(received, message)
        return None

    @property
    def authorization(self) -> dict[str, str]:
        return dict(self.headers or {})


class SyncLiveClient(WireClient):
    """A client of a test without an event loop, with or without a session."""

    def __init__(
        self, http: httpx.Client, url: str, version: str = STATELESS, **facts: Any
    ) -> None:
        super().__init__(version=version, **facts)
        self.http = http
        self.url = url

    def initialize(self) -> httpx.Response:
        """Open a session, if the server has sessions."""
        response = self.post(self.initialize_request()).raise_for_status()
        self.session = response.headers.get("mcp-session-id")
        self.post(notification("notifications/initialized"))
        return response

    def post(self, message: Any, changes: Changes | None = None) -> httpx.Response:
        headers = self.headers_of(message, changes)
        return self.http.post(self.url, json=message, headers=headers)

    def result(self, method: str, **params: Any) -> Message:
        """The result of a request, which is answered as JSON or at the end of a stream."""
        response = self.post(self.request(method, params)).raise_for_status()
        return result_of(answer_in(response))

    def tool(self, name: str, /, **arguments: Any) -> Message:
        """The result of a tool."""
        return succeeded(self.result("tools/call", name=name, arguments=arguments))

    def text(self, name: str, /, **arguments: Any) -> str:
        """The text in the result of a tool."""
        content = self.tool(name, **arguments)["content"]
        return "\n".join(block["text"] for block in content if block["type"] == "text")

    @contextmanager
    def open_post(self, message: Message) -> Iterator[Iterator[str]]:
        """The lines of the response to a message."""
        headers = self.headers_of(message)
        with self.http.stream("POST", self.url, json=message, headers=headers) as response:
            yield response.iter_lines()

    @contextmanager
    def stream(self) -> Iterator[Iterator[str]]:
        """The lines of a standalone stream."""
        headers = self.headers_of(None, method="GET")
        with self.http.stream("GET", self.url, headers=headers) as response:
            assert response.status_code == 200
            yield response.iter_lines()


def answer_in(response: httpx.Response) -> Message:
    """The answer in a whole response, which is JSON or a stream of events."""
    if not response.headers["content-type"].startswith("text/event-stream"):
        answer: Message = response.json()
        return answer
    return messages_of(response.content)[-1]


async def events(response: httpx.Response) -> AsyncIterator[sse.Event]:
    parser = sse.Parser()
    async for chunk in response.aiter_raw():
        for event in parser.feed(chunk):
            yield event


def check(response: httpx.Response) -> None:
    """Raise what the status says."""
    status = response.status_code
    if status == 404:
        raise SessionGone("404")
    if status == 503 and "retry-after" not in response.headers:
        raise Failed("503 without Retry-After")
    if status >= 400:
        raise Failed(str(status))


def owned(received: Message, message: Message) -> Message:
    """The answer, if it is to this request."""
    if received.get("id") != message["id"]:
        raise Crossed(f"{received} answers {message}")
    return received


def result_of(answer: Message) -> Message:
    if "error" in answer:
        raise Failed(f"error {answer['error']['code']}")
    result: Message = answer["result"]
    return result


def succeeded(result: Message) -> Message:
    """The result, if it is not a tool's error."""
    if result.get("isError"):
        raise Failed("tool error")
    return result


def check_progress(received: Message, message: Message) -> None:
    params = received["params"]
    token = message["params"].get("arguments", {}).get("token")
    if params["progressToken"] != message["id"] or params.get("message") != token:
        raise Crossed(f"{received} reports on {message}")
