"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It reads a request, finds out who sent it, and hands the message to the conversation. It is a
Channels consumer whose ``__call__`` is its own: the stock one spends four fifths of what a
bare application can do on a channel and a dispatch loop per request, and hears nothing else
while a handler runs. This one joins the channel layer only for what has to arrive through it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from channels.consumer import AsyncConsumer
from django.conf import settings as django_settings
from django.utils.functional import SimpleLazyObject

from django_mcp import conf, stores
from django_mcp.auth.base import Authenticator, Challenge, Principal
from django_mcp.auth.django_session import browser_session
from django_mcp.dispatch import Reply
from django_mcp.frame import Frame, HttpTransport
from django_mcp.protocol import envelope, headers, jsonrpc, origins
from django_mcp.protocol.errors import (
    Cancelled,
    InvalidRequest,
    Json,
    McpError,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.jsonrpc import Notification, Request, Response
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Feature, Opening, Revision
from django_mcp.server import Server
from django_mcp.session import Session
from django_mcp.transports import base
from django_mcp.transports.http_exchange import HttpExchange, Send

logger = logging.getLogger("django_mcp")

Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]

WATCH_AFTER = 0.05
"""Seconds after which a request that is still being answered is watched for a disconnect.

Most answers come sooner, and starting the watch costs as much as they do.
"""


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """The HTTP request itself is refused: a status, and what to say with it."""

    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class StreamableHttpConsumer(AsyncConsumer):
    """One HTTP request to one Server."""

    def __init__(
        self, *, server: Server, authenticators: tuple[Authenticator, ...]
    ) -> None:
        self.server = server
        self.authenticators = authenticators
        self.accepts_stream = True

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer the request; whatever goes wrong becomes an answer as well."""
        self.scope = scope
        self.receive = receive
        self.send_message = send
        self.mirrored = headers.collect(scope["headers"])
        try:
            verb = VERBS.get(scope["method"])
            if verb is None:
                raise Refused(405, "Use POST", ((b"allow", ALLOWED),))
            self._check_origin()
            self.principal = await self._authenticate()
            await verb(self)
        except Refused as refused:
            await self._refuse(refused)
        except McpError as error:
            await self._fail(error, NEWEST, getattr(error, "request_id", None))

    # Who calls, and from where.

    def _check_origin(self) -> None:
        """Refuse pages of other sites, also those which point a name of theirs at us (HTTP-02)."""
        site = conf.get()
        host = self._header(b"host") or ""
        hosts = django_settings.ALLOWED_HOSTS or (LOCAL_HOSTS if django_settings.DEBUG else [])
        if not origins.host_allowed(host, tuple(hosts)):
            raise Refused(403, "This Host is not served here: see ALLOWED_HOSTS")
        if not origins.allows(
            self._header(b"origin"),
            host=host,
            scheme=self.scope.get("scheme", "http"),
            allowed_hosts=tuple(hosts),
            allowed_origins=site.allowed_origins,
        ):
            raise Refused(403, "This Origin may not talk to this server: see ALLOWED_ORIGINS")

    async def _authenticate(self) -> Principal:
        for authenticator in self.authenticators:
            found = await authenticator.authenticate(self.scope)
            if isinstance(found, Principal):
                return found
            if isinstance(found, Challenge):
                raise Refused(found.status, found.message, found.headers)
        raise Refused(401, "Authentication required")

    def _header(self, name: bytes) -> str | None:
        for key, value in self.scope["headers"]:
            if key == name:
                return value.decode("latin-1")  # type: ignore[no-any-return]
        return None

    # POST

    async def post(self) -> None:
        """Take one message, or in the revision that has them a batch of several."""
        self._check_media_types()
        value = jsonrpc.decode(await self._read_body())
        if isinstance(value, list):
            raise InvalidRequest("Send one message at a time: this revision has no batches")
        message = jsonrpc.read(value)
        if isinstance(message, Response):
            await self._answered(message)
        elif envelope.is_enveloped(message.params, self._version_header()):
            await self._enveloped(message)
        else:
            await self._in_session(message)

    def _check_media_types(self) -> None:
        content_type = (self._header(b"content-type") or "").split(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refused(415, "Send JSON: Content-Type: application/json")
        accept = self._header(b"accept")
        self.accepts_stream = accept is None or "text/event-stream" in accept or "*/*" in accept
        if accept is not None and not any(kind in accept for kind in ACCEPTABLE):
            raise Refused(406, "Accept application/json and text/event-stream")

    async def _read_body(self) -> bytes:
        """The body, as long as it is not longer than MAX_BODY_SIZE."""
        limit = conf.get().max_body_size
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return self._within(limit, body)
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise asyncio.CancelledError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                break
        return self._within(limit, b"".join(parts))

    def _within(self, limit: int, body: bytes) -> bytes:
        if len(body) > limit:
            raise Refused(413, f"A message may have at most {limit} bytes")
        return body

    def _version_header(self) -> str | None:
        values = self.mirrored.get(headers.PROTOCOL_VERSION)
        return values[0].decode("latin-1").strip() if values else None

    # POST, stateless: the message says everything about itself.

    async def _enveloped(self, message: Request | Notification) -> None:
        if isinstance(message, Notification):
            # Nothing to act upon: ids are chosen by clients, so that to honour a posted
            # cancellation would let one caller cancel another's work (CAN-08).
            await self._accepted()
            return
        exchange = self._exchange(self.mirrored)
        served = {item.version: item for item in self.server.revisions(Opening.ENVELOPE)}
        try:
            opened = envelope.read(message, self.mirrored, served)
            frame = base.enveloped(self._call(exchange), message, opened)
        except McpError as error:
            await self._fail(error, NEWEST, message.id)
            return
        await self._answer(frame, exchange)

    # POST, in a session.

    async def _in_session(self, message: Request | Notification) -> None:
        if message.method == "initialize" and isinstance(message, Request):
            await self._initialize(message)
            return
        session = await self._session()
        exchange = self._exchange(None)
        if isinstance(message, Notification):
            await self._notified(message, session)
            return
        revision = BY_VERSION[session.version]
        try:
            frame = base.in_session(self._call(exchange), message, session)
        except McpError as error:
            await self._fail(error, revision, message.id)
            return
        await self._answer(frame, exchange)

    async def _initialize(self, request: Request) -> None:
        if headers.SESSION_ID in self.mirrored:
            raise InvalidRequest("This session is already open", request_id=request.id)
        exchange = self._exchange(None)
        reply = await base.answer(base.opening(self._call(exchange), request))
        if reply.error is not None:
            await exchange.finish(reply.message)
            return
        session = base.new_session(reply.frame, secrets.token_urlsafe(32))
        await stores.sessions().create(session)
        exchange.add_header(headers.SESSION_ID, session.id.encode())
        await exchange.finish(reply.message)

    async def _session(self) -> Session:
        """The session which the request names; somebody else's is as unknown as none."""
        named = self.mirrored.get(headers.SESSION_ID)
        if not named:
            raise Refused(400, "Open a session with initialize, and send its Mcp-Session-Id")
        session = await stores.sessions().load(named[0].decode("latin-1"))
        if (
            session is None
            or session.principal != self.principal.key
            or session.server != self.server.name
        ):
            raise Refused(404, "This session has ended: open a new one with initialize")
        self._check_version_header(session)
        return session

    def _check_version_header(self, session: Session) -> None:
        version = self._version_header()
        if version is None or version == session.version:
            return
        if BY_VERSION.get(version) in self.server.revisions(Opening.HANDSHAKE):
            raise Refused(400, f"This session speaks {session.version}, not {version}")
        raise UnsupportedProtocolVersion(
            data={
                "supported": [item.version for item in self.server.revisions(Opening.ENVELOPE)],
                "requested": version,
            }
        )

    async def _notified(self, message: Notification, session: Session) -> None:
        if message.method == "notifications/initialized":
            await stores.sessions().update(session.id, [base.INITIALIZED])
        await self._accepted()

    async def _answered(self, message: Response) -> None:
        await self._session()
        await self._accepted()

    # DELETE

    async def delete(self) -> None:
        """End the session."""
        session = await self._session()
        await stores.sessions().delete(session.id)
        await self._exchange(None).respond(204, b"", ())

    # Answering.

    def _exchange(self, mirrored: Mapping[bytes, list[bytes]] | None) -> HttpExchange:
        return HttpExchange(self.send_message, may_stream=self.accepts_stream, mirrored=mirrored)

    def _call(self, exchange: HttpExchange) -> base.Call:
        caller = base.Caller(
            principal=self.principal,
            transport=http_transport(self.scope),
            session=SimpleLazyObject(lambda: browser_session(self.scope)),
        )
        return base.Call(server=self.server, caller=caller, exchange=exchange)

    async def _answer(self, frame: Frame, exchange: HttpExchange) -> None:
        """Answer the request on ``frame``, for as long as somebody waits for the answer.

        Without sessions, a closed connection cancels the request. In a session it does not
        (T-HTTP-28): there the work goes on in a task of its own, whatever the server does to
        the task of the connection.
        """
        if frame.revision.has(Feature.DISCONNECT_CANCELS):
            await self._watched(frame, exchange)
        else:
            await asyncio.shield(asyncio.ensure_future(self._watched(frame, exchange)))

    async def _watched(self, frame: Frame, exchange: HttpExchange) -> None:
        watch = Watch(self.receive, frame, exchange)
        try:
            reply = await base.answer(frame)
            await base.commit(stores.sessions, reply)
        except asyncio.CancelledError:
            if not watch.cancelled_us():
                raise
            await self._cancelled(frame, exchange)
            return
        finally:
            watch.stop()
        status = 200 if reply.error is None else frame.revision.http_status(reply.error)
        await exchange.finish(reply.message, status)

    async def _cancelled(self, frame: Frame, exchange: HttpExchange) -> None:
        """End the response of a cancelled request, which HTTP cannot leave unanswered."""
        assert frame.request is not None
        error = jsonrpc.error(frame.request.id, frame.revision.error(Cancelled()))
        await exchange.finish(error)

    async def _accepted(self) -> None:
        await self._exchange(None).respond(202, b"", ())

    async def _fail(self, error: McpError, revision: Revision, identity: Any) -> None:
        message = jsonrpc.error(identity, revision.error(error))
        await self._exchange(None).finish(message, revision.http_status(error))

    async def _refuse(self, refused: Refused) -> None:
        error = InvalidRequest(refused.message)
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(error)))
        await self._exchange(None).respond(
            refused.status, body, ((b"content-type", b"application/json"), *refused.headers)
        )


class Watch:
    """Looks, while a request is being answered, whether its client is still there."""

    def __init__(self, receive: Receive, frame: Frame, exchange: HttpExchange) -> None:
        self._receive = receive
        self._frame = frame
        self._exchange = exchange
        self._answering = asyncio.current_task()
        self._cancelled = False
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER, self._start)

    def stop(self) -> None:
        """Stop looking: the answer is there."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def cancelled_us(self) -> bool:
        """Whether it was this watch that cancelled the request, whose task then goes on."""
        if self._cancelled and self._answering is not None:
            self._answering.uncancel()
        return self._cancelled

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._exchange.disconnected()
        if self._frame.revision.has(Feature.DISCONNECT_CANCELS):
            self._cancelled = True
            self._frame.cancellation.request("The client closed the connection")
            if self._answering is not None:
                self._answering.cancel()


def http_transport(scope: Mapping[str, Any]) -> HttpTransport:
    """What a Frame tells of the HTTP request of an ASGI ``scope``."""
    pairs = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"]]
    scheme = scope.get("scheme", "http")
    host, port = _host_and_port(dict(pairs).get("host", ""), scheme)
    query = scope.get("query_string", b"")
    client = scope.get("client")
    return HttpTransport(
        req_headers=pairs,
        query_params=dict(parse_qsl(query.decode("latin-1"))) if query else {},
        remote_ip=client[0] if client else None,
        scheme=scheme,
        host=host,
        port=port,
        request_path=scope["path"],
    )


def _host_and_port(header: str, scheme: str) -> tuple[str, int]:
    host, colon, port = header.rpartition(":")
    if colon and port.isdigit():
        return host, int(port)
    return header, 443 if scheme == "https" else 80


VERBS: Mapping[str, Callable[[StreamableHttpConsumer], Coroutine[Any, Any, None]]] = {
    "POST": StreamableHttpConsumer.post,
    "DELETE": StreamableHttpConsumer.delete,
}
ALLOWED = ", ".join(VERBS).encode()
ACCEPTABLE = ("application/json", "application/*", "*/*")
LOCAL_HOSTS = [".localhost", "127.0.0.1", "[::1]"]
"""What Django serves under DEBUG while ALLOWED_HOSTS is empty."""
