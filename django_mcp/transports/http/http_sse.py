"""HTTP+SSE, the transport of the first revision: a stream to read from, an endpoint to post to.

The connection is the session (T-SSE-07): it has no id, cannot be resumed, and ends with its
stream. The URI to post to contains its encrypted name, and the channel of its worker: any worker
can forward a POST, over the channel layer alone.

| state of a stream | meaning | who moves it |
|---|---|---|
| opened | its worker subscribes to posted messages | ``serve``: connected |
| connected | posted messages go to the ``Connection`` | the client, ``end``: closed |
| closed | nothing is forwarded, and the calls of the connection are cancelled | nobody |

Its response has the states of ``SseStream``, and its session the states of ``Connection``.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote

from django_mcp import conf, stores
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import path_in_site, site_prefix
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc, sse
from django_mcp.core.server.server import Server
from django_mcp.pubsub import bus, channel_layer
from django_mcp.runtime import background
from django_mcp.transports.connection.connection import Connection
from django_mcp.transports.http import open_streams, paths
from django_mcp.transports.http.endpoint import Endpoint, Verb
from django_mcp.transports.http.exchange import HttpExchange
from django_mcp.transports.http.long_lived_stream import SseStream
from django_mcp.transports.http.request import HttpError

STREAM = "sse"
"""The last part of the path to read from."""
MESSAGES = "messages"
"""The last part of the path to post to."""
KEY = "key"
"""The query parameter with the encrypted name of the connection."""
SEPARATOR = "@"
"""Between the name of a connection and the channel of its worker."""
IDLE_AFTER = 3.0
"""Seconds without a message until a process that stops may end a connection."""
PURPOSE = "http_sse"
"""The purpose of the name's encryption. No other principal can post to a connection."""


class HttpSseEndpoint(Endpoint):
    """One of the two endpoints, which share a path prefix."""

    def __init__(self, server: Server, authentication: Authentication, name: str) -> None:
        super().__init__(server, authentication)
        self.name = name
        self.allowed = VERBS[name][0].encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        paths.leave(scope, f"/{self.name}")
        await super().__call__(scope, receive, send)

    def verb(self, exchange: HttpExchange, method: str) -> Verb:
        wanted, verb = VERBS[self.name]
        if method != wanted:
            raise HttpError(405, f"Method not allowed: use {wanted}", ((b"allow", self.allowed),))
        return verb


async def open_stream(exchange: HttpExchange) -> None:
    """Open the stream, and with it the session."""
    exchange.check_get()
    stream = Stream(exchange)
    text = "Too many connections are open: close one of them first"
    rejection = HttpError(429, text, open_streams.RETRY_HEADERS)
    with stream.open_within(stores.SESSIONS_PER_PRINCIPAL, rejection):
        connection = Connection(
            exchange.server,
            stream,
            exchange.principal,
            exchange.transport,
            exchange.session,
            scheme="sse",
        )
        await stream.serve(connection, partial(_uri, exchange))


def _uri(exchange: HttpExchange, name: str) -> str:
    key = exchange.server.sign(PURPOSE, exchange.principal.key, name)
    scope = exchange.scope
    parent = path_in_site(scope).rstrip("/").rpartition("/")[0]
    return f"{site_prefix(scope)}{parent}/{MESSAGES}?{KEY}={quote(key, safe='')}"


async def take(exchange: HttpExchange) -> None:
    """Forward a message to its connection; the response is sent on the stream (T-SSE-04)."""
    body = await exchange.read_body(conf.get().max_body_size)
    exchange.check_media_types()
    name, _, channel = _name(exchange).partition(SEPARATOR)
    jsonrpc.decode_messages(body)
    await _forward(channel, group_of(name), {"body": body.decode()})
    await exchange.respond(202, b"", ())


def _name(exchange: HttpExchange) -> str:
    query = exchange.scope.get("query_string", b"").decode("latin-1")
    key = dict(parse_qsl(query)).get(KEY)
    if key is None:
        raise HttpError(400, "Post to the URI of the endpoint event")
    name = exchange.server.unsign(PURPOSE, exchange.principal.key, key)
    if name is None:
        raise HttpError(404, "Connection not found")
    return name


async def _forward(channel: str, group: str, posted: bus.Message) -> None:
    """Pass a message to the worker of its connection; raises HttpError if none can receive it."""
    if bus.publish_here(group, posted):
        return
    if not channel or channel_layer.shared() is None:
        raise HttpError(404, "Connection not found: it has ended")
    if not await bus.send_to(channel, group, posted):
        text = "A message cannot be passed to another worker: %s"
        log_repeated(logging.ERROR, text, bus.REMEDY)
        message = "The worker of this connection is unavailable"
        raise HttpError(503, message, ((b"retry-after", b"1"),))


def group_of(name: str) -> str:
    """The group that receives messages posted to a connection: one stream."""
    return bus.group("connection", name)


class Stream(SseStream):
    kind = "connection"

    _connection: Connection | None = None

    def __init__(self, http: HttpExchange) -> None:
        super().__init__(http)
        self._used_at = self._loop.time()

    async def check(self) -> None:
        """Close the stream if access was revoked, else use the current permissions."""
        await super().check()
        if self._connection is not None and not self.is_denied:
            self._connection.reauthenticated(self.principal)

    async def serve(self, connection: Connection, uri: Callable[[str], str]) -> None:
        self._connection = connection
        name = secrets.token_urlsafe(12)
        try:
            await bus.here().subscribe(group_of(name), self._take)
            address = f"{name}{SEPARATOR}{bus.here().channel}"
            self.enqueue(sse.event(uri(address), event="endpoint"))
            await self.wait_until_closed()
            await self.finish()
        finally:
            self._connection = None  # It refers to this stream.
            bus.here().unsubscribe(group_of(name), self._take)
            # Calls have no time to finish: nothing reads their responses.
            background.spawn(connection.close(grace=0.0))

    def _take(self, posted: bus.Message) -> None:
        if self._connection is not None:
            self._connection.receive(posted["body"])

    @property
    def is_busy(self) -> bool:
        """Whether responses will be sent, which have no other way to the client, or were just now.

        A client that is about to send its next message would lose the connection it sends it to.
        """
        was_used = self._loop.time() - self._used_at < IDLE_AFTER
        return was_used or (self._connection is not None and self._connection.is_busy)

    def write(self, message: bytes, /) -> None:
        self._used_at = self._loop.time()
        self.enqueue(sse.event(message, event="message"))


VERBS: Mapping[str, tuple[str, Verb]] = {
    STREAM: ("GET", open_stream),
    MESSAGES: ("POST", take),
}
"""The HTTP method of each endpoint, and its function."""
