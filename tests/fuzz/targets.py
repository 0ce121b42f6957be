"""What is fuzzed, and what has to hold for every input.

An input is JSON, so that it can be kept in the corpus. Its bytes are a list of parts: a string
(latin-1), or a string and how often it is repeated. ``<state>``, ``<cursor>`` and ``<session>``
stand for values that the server has given to this client.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self
from unittest import mock

from django_mcp import ConfigurationError, registry
from django_mcp.core.frame.client import input_requests
from django_mcp.transports.loop_exchange import TIMED_OUT
from tests.fuzz.site import shop
from tests.wire.asgi import AsgiClient, Exchange, Reply
from tests.wire.messages import NEWEST_SESSION
from tests.wire.stdio import StdioClient

Input = dict[str, Any]
Parts = list[Any]

MAX_LAG = 0.1
"""Seconds of processor time for which the event loop may be held."""
TIMEOUT = 10.0
ATTACKER = ("192.0.2.1", 50000)
HANDLERS = ("tests/fuzz/site.py", "tests/conversations/sample_server.py")
RESPONSE_TIMEOUT = 0.2
"""Handlers that wait for their client are part of the servers."""
ENDED = ("Cancelled", TIMED_OUT)
"""Internal errors of calls that took too long."""
CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}


class Fault(AssertionError):
    """An input for which something does not hold."""


def encoded(parts: Parts) -> bytes:
    """The bytes of parts."""
    texts = (each if isinstance(each, str) else each[0] * each[1] for each in parts)
    return "".join(texts).encode("latin-1")


class Site:
    """The servers, what they log, and for how long they hold the event loop."""

    async def __aenter__(self) -> Self:
        self._waiting = mock.patch.object(input_requests, "RESPONSE_TIMEOUT", RESPONSE_TIMEOUT)
        self._waiting.start()
        self.server = registry.configure(shop())
        self.log = Log()
        logging.getLogger().addHandler(self.log)
        self.friend = AsgiClient(self.server)
        self.attacker = AsgiClient(self.server, address=ATTACKER, capabilities=CAPABILITIES)
        self.application = self.friend.application
        self._longest, self._last = 0.0, time.thread_time()
        self._ticker = asyncio.ensure_future(self._tick())
        greeted = await self.attacker.tool("greet")
        listed = await self.attacker.post(self.attacker.request("tools/list"))
        self.values = {
            b"<state>": greeted.result["requestState"].encode(),
            b"<cursor>": listed.result["nextCursor"].encode(),
        }
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waiting.stop()
        logging.getLogger().removeHandler(self.log)
        self._ticker.cancel()
        await asyncio.wait([self._ticker])

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self._longest, self._last = max(self._longest, now - self._last), now

    async def play(self, given: Input) -> None:
        """Send an input; raises Fault."""
        lags = []
        for _ in range(3):  # What is slow only once is the machine's.
            lags.append(await self._play(given))
            if lags[-1] <= MAX_LAG:
                return
        raise Fault(f"The event loop was held for {min(lags) * 1000:.0f} ms")

    async def _play(self, given: Input) -> float:
        self.log.forget()
        await asyncio.sleep(0)
        self._longest, self._last = 0.0, time.thread_time()
        await TARGETS[given["target"]](self, given)
        await asyncio.sleep(0)
        lag = self._longest
        if self.log.faults:
            raise Fault(f"Logged: {self.log.faults[0]}")
        good = await self.friend.tool("add", a=1, b=2)
        if good.status != 200 or good.result["structuredContent"] != 3:
            raise Fault(f"The next request is answered with {good}")
        return lag

    def fill(self, parts: Parts) -> bytes:
        """The bytes of parts, with real values for the placeholders."""
        found = encoded(parts)
        for name, value in self.values.items():
            found = found.replace(name, value)
        return found

    @asynccontextmanager
    async def session(self, version: str) -> AsyncIterator[None]:
        """Within it, ``<session>`` stands for an open session, which is ended afterwards."""
        peer = AsgiClient(
            self.server,
            version,
            capabilities=CAPABILITIES,
            address=ATTACKER,
            application=self.application,
        )
        await peer.initialize()
        assert peer.session is not None
        self.values[b"<session>"] = peer.session.encode()
        try:
            yield
        finally:
            await peer.delete()

    def check(self, response: Reply) -> None:
        """Raise Fault for an error that no handler has raised."""
        if response.status >= 500 and not self.log.has_failed_handler:
            raise Fault(f"The response is {response.status} {response.body[:200]!r}")
        with suppress(ValueError):  # A stream that was left within an event.
            for message in response.messages:
                self.check_message(message)

    def check_message(self, message: Any) -> None:
        """Raise Fault for an internal error that no handler has raised."""
        for each in message if isinstance(message, list) else [message]:
            code = each["error"]["code"] if isinstance(each, dict) and "error" in each else None
            if code == -32603 and not self.log.has_failed_handler and not _was_ended(each):
                raise Fault(f"An internal error: {str(each)[:200]}")


def _was_ended(message: Any) -> bool:
    return message["error"]["message"] in ENDED


class Log(logging.Handler):
    """Keeps tracebacks and errors, apart from those of handlers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.forget()

    def forget(self) -> None:
        self.faults: list[str] = []
        self.has_failed_handler = False

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        text = record.getMessage() + "\n" + trace
        if any(name in trace for name in HANDLERS):
            self.has_failed_handler = True
        elif trace or record.levelno >= logging.ERROR or "Traceback" in text:
            self.faults.append(text)


# The targets.


async def http(site: Site, given: Input) -> None:
    """A request, over streamable HTTP."""
    async with site.session(given.get("version", NEWEST_SESSION)):
        body = site.fill(given["body"])
        scope = site.attacker.scope(method=given["method"])
        scope["headers"] = [
            (site.fill([name]), site.fill([value]) if isinstance(value, str) else site.fill(value))
            for name, value in given["headers"]
        ]
        response = await answered(_exchange(site, scope, body))
    if session := response.headers.get("mcp-session-id"):
        headers = {"mcp-session-id": session, "mcp-protocol-version": None}
        await site.attacker.perform("DELETE", headers)
    site.check(response)


async def _exchange(site: Site, scope: Any, body: bytes) -> Reply:
    """The response, or the first part of a stream that its client leaves."""
    async with Exchange(site.application, scope, body) as exchange:
        status, headers = await exchange.status(), await exchange.headers()
        if status == 200 and headers.get("content-type") == "text/event-stream":
            await asyncio.wait([exchange.task], timeout=0.01)
            reply = Reply(status=status, headers=headers, body=exchange.sent_body)
        else:
            reply = await exchange.reply()
        exchange.disconnect()
        await asyncio.wait([exchange.task], timeout=0.5)
        if not exchange.task.done():
            raise Fault("The request goes on after its client has left")
    return reply


async def answered(requested: Awaitable[Reply]) -> Reply:
    """The response to a request; raises Fault where the application raises or does not respond."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return await requested
    except Fault:
        raise
    except Exception as error:
        raise Fault(f"The application raised {error!r}") from error


async def stdio(site: Site, given: Input) -> None:
    """Lines, in a connection over stdio."""
    pipe = StdioClient(site.server)
    serving = pipe.serve()
    received: list[Any] = []
    try:
        for line in given["lines"]:
            pipe.send(site.fill(line))
            await asyncio.sleep(0)
        last = pipe.send({"jsonrpc": "2.0", "id": "the last", "method": "ping"})
        async with asyncio.timeout(TIMEOUT):
            while not any(
                isinstance(each, dict) and each.get("id") == last and "method" not in each
                for each in received
            ):
                received.append(await pipe.message())
    except TimeoutError:
        raise Fault("The ping after the lines is not answered") from None
    finally:
        pipe.close()
        await asyncio.wait([serving], timeout=TIMEOUT)
    if not serving.done():
        serving.cancel()
        raise Fault("The connection does not end")
    if error := serving.exception():
        raise Fault(f"The connection raised {error!r}")
    for message in received:
        site.check_message(message)


async def uri(site: Site, given: Input) -> None:
    """A URI that is read, while there is a template."""

    def register() -> None:
        site.server.register_resource_template(
            given["template"], lambda **found: str(found), name="fuzzed"
        )

    if _accepts(site, register):
        try:
            await _request(site, "resources/read", {"uri": given["uri"]})
        finally:
            site.server.unregister_resource_template(given["template"])


async def schema(site: Site, given: Input) -> None:
    """Arguments for a tool with a JSON Schema."""

    def register() -> None:
        site.server.register_tool("fuzzed", lambda arguments: "done", input_schema=given["schema"])

    if _accepts(site, register):
        try:
            await _request(site, "tools/list", {})
            call = json.dumps(site.attacker.call("fuzzed")).partition('"arguments": {}')
            body = [call[0] + '"arguments": ', *given["arguments"], call[2]]
            await _request(site, "tools/call", {"name": "fuzzed"}, encoded(body))
        finally:
            site.server.unregister_tool("fuzzed")


def _accepts(site: Site, register: Callable[[], None]) -> bool:
    try:
        register()
    except ConfigurationError:
        return False
    finally:
        # What a site declares is not a request.
        site._longest, site._last = 0.0, time.thread_time()
    return True


async def _request(site: Site, method: str, params: Any, body: bytes | None = None) -> None:
    message = site.attacker.request(method, params)
    site.check(await answered(site.attacker.post(message, body=body)))


TARGETS = {"http": http, "stdio": stdio, "uri": uri, "schema": schema}
