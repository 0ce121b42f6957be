"""The HTTP requests of a session: open it, send messages, open streams, end it."""

# The rules, for each request of a session:
#
# 1. The session is loaded from the store, and nothing of it is kept between two requests.
# 2. The session of another principal, or of another server, is not found: 404, as for an unknown
#    id.
# 3. An anonymous session belongs to the first principal who sends its id from the same place. At
#    that moment the calls, streams, events and assigns of the anonymous caller end, on all workers.
# 4. ``DELETE`` removes the row first. Then nothing new begins, and the event ``ended`` stops the
#    work on other workers. A call that misses the event reads its session every few seconds.
# 5. A closed connection cancels nothing. ``notifications/cancelled`` does, on the worker of the
#    call: directly, or by a note in the session and a hint.
# 6. ``initialize`` negotiates the revision of a session; no later header changes it.

from __future__ import annotations

import secrets
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django_mcp import signals, stores
from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import visibility
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.protocol import headers, jsonrpc, request_meta
from django_mcp.core.protocol.errors import InvalidRequest, McpError
from django_mcp.core.protocol.jsonrpc import Message, Notification, Request, Response
from django_mcp.core.protocol.limits import quoted
from django_mcp.core.protocol.revisions import BY_VERSION, Feature, Revision, Statefulness
from django_mcp.core.protocol.sse import EventId
from django_mcp.pubsub import channel_layer, session_messages
from django_mcp.pubsub.pending_requests import ResponseRoute, deliver
from django_mcp.stores.base import StoreFull
from django_mcp.transports import frames, session_engine, site
from django_mcp.transports.http import open_streams
from django_mcp.transports.http.exchange import HttpExchange
from django_mcp.transports.http.request import WAITING_THREAD, HttpError
from django_mcp.transports.http.session import (
    batch,
    event_log,
    response,
    standalone_stream,
)
from django_mcp.transports.http.session.response import ENDED, TAKEN_OVER, SessionExchange
from django_mcp.transports.http.session.resumed_stream import ResumedStream
from django_mcp.transports.http.session.standalone_stream import StandaloneStream
from django_mcp.transports.session_engine import SessionEngine

SESSION_ID_BYTES = 32
SESSION_ID_LENGTH = len(secrets.token_urlsafe(SESSION_ID_BYTES))


class SessionHttp:
    """The part of an HTTP request that concerns a session."""

    def __init__(self, http: HttpExchange) -> None:
        self.http = http
        self.server = http.server
        self.principal = http.principal

    async def take(self, message: Message | list[Any]) -> None:
        """Answer a message or a batch."""
        if isinstance(message, list):
            await self._take_batch(message)
            return
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(message)
            return
        if isinstance(message, Notification) and message.method == INITIALIZED:
            await self._take_initialized(message)
            await self.http.respond(202, b"", ())
            return
        session = await self._session()
        if not isinstance(message, Request):
            await self._accept(message, session)
            await self.http.respond(202, b"", ())
            return
        try:
            exchange = SessionExchange(self.http, session, message.id)
            await self._answer(message, exchange)
        except McpError as error:
            await self._fail(error, BY_VERSION[session.version], message.id)

    def _answer(self, request: Request, exchange: SessionExchange) -> Coroutine[Any, Any, None]:
        frame = frames.in_session(exchange, request, exchange.mcp_session)
        is_in_batch = exchange.replies is not None
        if WAITING_THREAD in exchange.scope:
            exchange.use_waiting_thread(frame)
        return exchange.answer_in_task(frame, _engine(), is_in_batch=is_in_batch)

    async def _accept(self, message: Notification | Response, session: Session) -> None:
        """Process a message that is not answered.

        Raises HttpError for a response with an unknown id (T-HTTP-15).
        """
        if isinstance(message, Response):
            await self._deliver(message, session)
        elif message.method == INITIALIZED:
            await self._initialized(message, session)
        elif message.method == CANCELLED:
            await cancel(session, [message.params])
        else:
            await _engine().notified(self._notification(session), message, session)

    async def _take_initialized(self, message: Notification) -> None:
        """Note that the client is ready.

        Without an ``init`` hook that is one operation of the store, which also checks the session.
        """
        if self.server.has_hook("init"):
            await self._initialized(message, await self._session())
            return
        session_id = self._session_id()
        was_initialized = False

        def check(session: Session) -> None:
            nonlocal was_initialized
            if self._may_take_over(session):
                raise _IsAnonymous
            self._check(session)
            was_initialized = session.initialized

        changes = [session_engine.INITIALIZED]
        try:
            session = await stores.sessions().update(session_id, changes, check=check)
        except _IsAnonymous:
            await self._initialized(message, await self._session())
            return
        if session is None:
            raise _not_found()
        if not was_initialized:
            await session_messages.send_to_session(address(session_id), "initialized")

    async def _initialized(self, message: Notification, session: Session) -> None:
        if session.initialized:
            return
        # The session ends if the server's ``init`` hook failed.
        if await _engine().initialized(self._notification(session), message, session):
            await session_messages.send_to_session(session.address, "initialized")
        else:
            await self._end(session)

    async def _deliver(self, message: Response, session: Session) -> None:
        is_delivered = await deliver(ResponseRoute(self.server, session), message)
        if is_delivered is None:
            raise HttpError(400, "No pending request has this id")
        if not is_delivered:
            text = "The response cannot be stored for the worker that waits for it"
            raise HttpError(503, text, ((b"retry-after", b"1"),))

    async def _accept_batch(self, messages: Sequence[Message], session: Session) -> None:
        """Process the notifications and responses of a batch.

        All its cancellations are one operation. ``initialized`` counts once, however often it is
        sent.
        """
        cancelled = []
        is_initialized_taken = False
        for message in messages:
            if isinstance(message, Notification) and message.method == CANCELLED:
                cancelled.append(message.params)
            elif isinstance(message, Notification) and message.method == INITIALIZED:
                if not is_initialized_taken:
                    await self._accept(message, session)
                is_initialized_taken = True
            elif not isinstance(message, Request):
                await self._accept(message, session)
        await cancel(session, cancelled)

    def _notification(self, session: Session) -> SessionExchange:
        return SessionExchange(self.http, session, is_notification=True)

    async def _take_batch(self, values: Sequence[Any]) -> None:
        if headers.SESSION_ID not in self.http.headers:
            raise InvalidRequest(session_engine.NO_BATCHES)
        session = await self._session()
        if not BY_VERSION[session.version].has(Feature.BATCHES):
            raise InvalidRequest(session_engine.NO_BATCHES)
        messages, errors = session_engine.read_batch(values)
        await self._accept_batch(messages, session)
        requests = [message for message in messages if isinstance(message, Request)]
        await batch.answer(requests, errors, SessionExchange(self.http, session), self._answer)

    async def _initialize(self, request: Request) -> None:
        if headers.SESSION_ID in self.http.headers:
            await self._session()  # 404 for one that does not exist, as for any other request.
            raise InvalidRequest("This session is already open", request_id=request.id)
        exchange = self.http
        try:
            frame = frames.for_initialize(exchange, request)
        except McpError as error:
            await self._fail(error, frames.newest_session_revision(self.server), request.id)
            return
        session_id = secrets.token_urlsafe(SESSION_ID_BYTES)
        try:
            with exchange.opening():
                body, session = await _engine().open(frame, session_id)
        except StoreFull as error:
            raise _full(error) from error
        if session is not None:
            exchange.add_header(headers.SESSION_ID, session.id.encode())
            await signals.session_started.asend_robust(
                self.server,
                address=session.address,
                version=session.version,
                client_info=session.client_info,
                user=frame.user,
                principal=session.principal,
            )
        exchange.revision = frame.revision
        await exchange.answer(body)

    async def _session(self) -> Session:
        """The session which the request names; raises HttpError."""
        session = await stores.sessions().load(self._session_id())
        if session is None:
            raise _not_found()
        if self._may_take_over(session):
            session = await self._take_over(session)
        self._check(session)
        return session

    def _may_take_over(self, session: Session) -> bool:
        """Whether the session is anonymous, and the caller is not: they have logged in since."""
        return (
            session.anonymous_at is not None
            and session.anonymous_at == self.principal.place
            and session.server == self.server.name
            and not self.principal.is_anonymous
        )

    async def _take_over(self, session: Session) -> Session:
        """Bind an anonymous session to the caller, who has its id and has authenticated.

        Of several principals the first one gets the session. Calls, streams and assigns of the
        anonymous caller end: the new principal sees nothing of them.
        """
        principal = self.principal
        caller = session_engine.counted_as(self.server, principal, self.http.transport)
        changes = session.for_principal(principal.key, caller)

        def check(present: Session) -> None:
            if present.anonymous_at is None:
                raise _IsTaken

        try:
            taken = await stores.sessions().update(session.id, changes, check=check)
        except _IsTaken:
            taken = await stores.sessions().load(session.id)
        except StoreFull as error:
            raise _full(error) from error
        else:
            await self._end_anonymous_work(session.address)
            if taken is not None and taken.initializer:
                taken = await self._init_again(taken)
        if taken is None:
            raise _not_found()
        return taken

    async def _init_again(self, session: Session) -> Session | None:
        """Call the ``init`` hook for the new principal: values for the former one are gone."""
        message = Notification(INITIALIZED, {})
        if await _engine().call_init(self._notification(session), message, session):
            return await stores.sessions().load(session.id)
        await self._end(session)
        return None

    async def _end_anonymous_work(self, session: str) -> None:
        for running in response.here().of(session):
            if running.principal.key != self.principal.key:
                running.end(TAKEN_OVER)
        await stores.events().forget(session)
        await session_messages.send_to_session(session, "taken_over", by=self.principal.key)

    def _session_id(self) -> str:
        session_id = self.http.headers.text(headers.SESSION_ID)
        if session_id is None:
            raise HttpError(400, "Open a session with initialize, and send its Mcp-Session-Id")
        # One of another length is not hashed, since hashes are cached.
        if len(session_id) != SESSION_ID_LENGTH:
            raise _not_found()
        return session_id

    def _check(self, session: Session) -> None:
        """Reject the session of another principal or server, as if it did not exist."""
        if session.principal != self.principal.key or session.server != self.server.name:
            raise _not_found()
        self._check_version_header(session)

    def _check_version_header(self, session: Session) -> None:
        """Reject a version that is not served; the session keeps the one it negotiated."""
        version = self.http.headers.version()
        if version is None or version == session.version or request_meta.is_stateless(version):
            return
        if version not in {each.version for each in self.server.revisions(Statefulness.SESSION)}:
            raise HttpError(400, f"This session uses {session.version}, not {quoted(version)}")

    async def delete(self) -> None:
        session_id = self._session_id()
        deleted: list[Session] = []

        def check(session: Session) -> None:
            if not self._may_take_over(session):
                self._check(session)
            deleted.append(session)

        if not await stores.sessions().delete(session_id, check=check):
            raise _not_found()
        await self._end_work(deleted[-1])
        await self.http.respond(204, b"", ())

    async def _end(self, session: Session) -> None:
        await stores.sessions().delete(session.id)
        await self._end_work(session)

    async def _end_work(self, session: Session) -> None:
        """End the calls and streams of a deleted session on every worker."""
        for running in response.here().of(session.address):
            running.end(ENDED)
        telemetry = site.get().telemetry
        if telemetry is not None:
            telemetry.session_ended(session, self.http.transport)
        await session_messages.session_ended(self.server, session.address, self.principal.key)

    async def get(self) -> None:
        self.http.check_get()
        session = await self._session()
        stream = await self._requested_stream(session)
        rejection = HttpError(429, open_streams.TOO_MANY, open_streams.RETRY_HEADERS)
        with stream.open_within(open_streams.MAX_STREAMS, rejection):
            await stream.serve()

    async def _requested_stream(self, session: Session) -> ResumedStream | StandaloneStream:
        """The stream of a call that the client resumes, or else the standalone stream."""
        header = self.http.headers.text(b"last-event-id")
        last = EventId.parse(header) if header else None
        if last is not None and event_log.is_name(last.stream):
            # Also an unknown one: its client waits for a response, and learns that there is none.
            return ResumedStream(self.http, session, last)
        self.http.check_may_listen()
        position = await standalone_stream.find(last, session)
        end = partial(self._end, session)
        return StandaloneStream(self.http, session, position, self.server, self._may_read, end)

    async def _may_read(self, principal: Principal, session: Session, uri: str) -> bool:
        updated = Notification("notifications/resources/updated", {"uri": uri})
        exchange = SessionExchange(self.http, session)
        exchange.principal = principal
        frame = frames.in_session(exchange, updated, session)
        return await visibility.is_readable(frame, uri)

    async def _fail(self, error: McpError, revision: Revision, identity: Any) -> None:
        self.http.error = error
        self.http.revision = revision
        await self.http.answer(jsonrpc.encode(jsonrpc.error(identity, revision.error(error))))


class _IsAnonymous(Exception):
    """The session still belongs to an anonymous caller."""


class _IsTaken(Exception):
    """The session has got a principal meanwhile."""


def _full(error: StoreFull) -> HttpError:
    return HttpError(429, f"{error}: end one of them first", open_streams.RETRY_HEADERS)


def _not_found() -> HttpError:
    return HttpError(404, "This session has ended: open a new one with initialize")


def _engine() -> SessionEngine:
    return SessionEngine(site.get(), stores.sessions(), is_shared=True)


INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"


# Cancelling the calls of a session, on whichever worker they run: a note, then a hint.


async def cancel(session: Session, params: Iterable[Mapping[str, Any]]) -> None:
    """Cancel the requests that ``notifications/cancelled`` name.

    One that names nothing is ignored (CANC-11), and so is one that overtakes its request.
    """
    calls = response.here()
    elsewhere: dict[str, str] = {}
    for cancelled in params:
        request = session_engine.read_cancellation(cancelled)
        if request is not None:
            key, given = request
            reason = given or session_engine.CLIENT_CANCELLED
            if not calls.cancel(session.address, key, reason):
                elsewhere[key] = reason
    if elsewhere and channel_layer.shared() is not None:
        # First the note, then the event: a call first subscribes and then reads the note.
        await note_cancelled(session, elsewhere)
        await session_messages.send_to_session(session.address, "cancelled", reasons=elsewhere)


async def note_cancelled(session: Session, keys: Iterable[str]) -> None:
    """Let calls on other workers find it when they next read their session."""
    now = stores.sessions().now()
    notes = [Change("cancelled", "note", key, now) for key in keys]
    await stores.sessions().update(session.id, notes)
