"""A client of the workers, which speaks HTTP by hand and checks that answers are its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, NamedTuple

import httpx

from django_mcp.core.protocol import request_meta, sse

Message = dict[str, Any]
Requested = Callable[[Message], Awaitable[None]]
"""What is done with a request of the server."""

STATELESS = "2026-07-28"
NEWEST_SESSION = "2025-11-25"
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
RECONNECT = 0.3
"""Seconds until a client whose connection broke connects again."""
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
}
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
    number = next(_ids) if id is None else id
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}


def notification(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


class Peer:
    """One client, with or without a session."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        version: str = STATELESS,
        caller: Caller | None = None,
        **capabilities: Any,
    ) -> None:
        """Without a ``caller``, it is anonymous."""
        self.http = http
        self.url = url
        self.version = version
        self.caller = caller
        self.capabilities = capabilities
        self.session: str | None = None
        self.resumptions: list[str] = []
        """How the stream of the last call was resumed, for whoever looks why it hangs."""

    # Sessions.

    async def initialize(self) -> Message:
        """Open a new session; returns the result."""
        self.session = None
        hello = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "peer", "version": "1"},
        }
        message = request("initialize", hello)
        async with self.opened(message) as response:
            opened = await self._answer(response, message)
            self.session = response.headers["mcp-session-id"]
        await self.notify("notifications/initialized")
        return opened

    async def delete(self) -> None:
        response = await self.http.delete(self.url, headers=self.headers(None))
        check(response)

    # Messages.

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """The result of a request; raises Failed, or Crossed."""
        message = request(method, params)
        async with self.opened(message) as response:
            return await self._answer(response, message)

    async def call(self, tool: str, **arguments: Any) -> Message:
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
        headers = self.headers(sent)
        async with self.http.stream("POST", self.url, json=sent, headers=headers) as response:
            check(response)
            yield response

    @asynccontextmanager
    async def resuming(self, last: str | None) -> AsyncIterator[httpx.Response]:
        """The session's stream, or one that is resumed, of any status."""
        headers = {**self.headers(None), "accept": "text/event-stream"}
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

    def described(self, message: Any) -> Any:
        """With the metadata of a stateless request."""
        if self.version != STATELESS or "params" not in message:
            return message
        described = {
            request_meta.VERSION: self.version,
            request_meta.CAPABILITIES: self.capabilities,
        }
        params = message["params"]
        return {**message, "params": {**params, "_meta": {**params.get("_meta", {}), **described}}}

    def headers(self, message: Any) -> dict[str, str]:
        """What is sent along with a message."""
        common = {**JSON, **self.authorization}
        if self.version != STATELESS:
            return {**common, **({} if self.session is None else {"mcp-session-id": self.session})}
        method = message["method"]
        name = message["params"].get(NAMED.get(method, ""))
        named = {} if name is None else {"mcp-name": name}
        return {**common, "mcp-protocol-version": self.version, "mcp-method": method, **named}

    @property
    def authorization(self) -> dict[str, str]:
        return {} if self.caller is None else {"authorization": f"Bearer {self.caller.token}"}


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


def text_of(result: Message) -> str:
    return str(result["content"][0]["text"])


def check_progress(received: Message, message: Message) -> None:
    params = received["params"]
    token = message["params"].get("arguments", {}).get("token")
    if params["progressToken"] != message["id"] or params.get("message") != token:
        raise Crossed(f"{received} reports on {message}")
