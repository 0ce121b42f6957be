"""The HTTP endpoint of a server: POST, GET and DELETE.

One coroutine takes a request from its headers to its response; the state of the request is its
``HttpExchange``. It does not use the dispatch loop of Channels, which would take four fifths of the
throughput of a bare application. It waits for a disconnect only once a call takes long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from django.core.signals import request_finished, request_started

from django_mcp import conf
from django_mcp.auth.authentication import Authentication
from django_mcp.core.auth.base import TENANT_KEY, Principal
from django_mcp.core.dispatch import handle
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import request_meta
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.revisions import Statefulness
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.server import Server
from django_mcp.runtime import request_scope
from django_mcp.runtime.around import django_handler, tenants
from django_mcp.transports import frames, site
from django_mcp.transports.http import cors, django_middleware, long_lived_stream
from django_mcp.transports.http.django_middleware import NOBODY, DjangoMiddleware, View
from django_mcp.transports.http.exchange import HttpExchange
from django_mcp.transports.http.request import (
    WAITING_THREAD,
    HttpError,
    check_host,
    django_request,
)

if TYPE_CHECKING:
    from types import ModuleType

    from django_mcp.transports.http.session.handler import SessionHttp

OpenStream = Callable[[], Awaitable[None]]
"""Serves a stream until it is closed."""
Verb = Callable[[HttpExchange], Coroutine[Any, Any, OpenStream | None]]
"""Answers a request, or returns the stream which is the answer."""
ALLOWED = b"POST, GET, DELETE"


class Endpoint:
    """The ASGI application of a server at one path. It is made when the server is mounted."""

    allowed = ALLOWED
    """The HTTP methods of the endpoint."""

    def __init__(self, server: Server, authentication: Authentication) -> None:
        self.server = server
        self.authentication = authentication

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        exchange = HttpExchange(self.server, self.authentication, scope, receive, send)
        headers = exchange.headers
        work = request_scope.enter()
        language_override = None
        if b"accept-language" in headers or b"cookie" in headers:
            language_override = django_handler.activate_language(
                headers.get(b"accept-language"), headers.get(b"cookie")
            )
        others = django_handler.OTHERS
        if others.seen != [request_started.receivers, request_finished.receivers]:
            others.update()
        sends_signals = others.are_any
        try:
            if sends_signals:
                await django_handler.send_started(type(self), scope)
            origin = headers.get(b"origin")
            check_host(headers, scope, origin)
            method = scope["method"]
            if origin is not None:
                exchange.to_server = cors.allowing(origin, exchange.to_server)
            if method == "OPTIONS":
                await cors.preflight(headers, exchange.to_server, self.allowed)
            elif method == "GET" and _page().is_wanted(exchange):
                await _page().send(exchange, exchange.to_server)
            else:
                verb = self.verb(exchange, method)
                middleware = django_middleware.get()
                if middleware is None or not middleware.authenticates:
                    if tenants.function() is not None:
                        scope[TENANT_KEY] = await tenants.aof_request(django_request(scope))
                    exchange.principal = await self.authentication.authenticate(scope)
                if middleware is None:
                    stream = await verb(exchange)
                else:
                    stream = await _within(middleware, exchange, verb)
                if stream is not None:
                    await stream()
        except Exception as error:
            await exchange.fail(error)
        finally:
            try:
                if sends_signals:
                    await django_handler.send_finished(type(self))
            finally:  # A receiver may raise.
                if language_override is not None:
                    language_override.__exit__(None, None, None)
                closing = work.leave()
                if closing is not None:
                    await closing

    def verb(self, exchange: HttpExchange, method: str) -> Verb:
        """The function for an HTTP method; raises HttpError for one that is not allowed.

        Without sessions there is only POST (HTTP-15).
        """
        if method == "POST":
            return post
        allowed = ALLOWED
        has_sessions = self.server.revisions(Statefulness.SESSION)
        if request_meta.are_stateless(exchange.headers) or not has_sessions:
            allowed = b"POST"
        elif method in VERBS:
            return VERBS[method]
        message = f"Method not allowed: use {allowed.decode()}"
        raise HttpError(405, message, ((b"allow", allowed),))


def _page() -> ModuleType:
    """The module of pages for browsers, imported at the first GET."""
    from django_mcp.transports.http.browser import page

    return page


async def _within(
    middleware: DjangoMiddleware, exchange: HttpExchange, verb: Verb
) -> OpenStream | None:
    """Answer within Django's middleware, or return the stream that begins after it."""
    if exchange.scope["method"] == "GET":
        principal = None if middleware.authenticates else exchange.principal
        exchange.principal = await django_middleware.check(exchange, principal)
        return await verb(exchange)
    stream = None

    async def serve(principal: Principal, view: View) -> None:
        nonlocal stream
        exchange.principal = principal
        with exchange.sending_to(view):
            try:
                stream = await verb(exchange)
            except Exception as error:
                await exchange.fail(error)

    caller = NOBODY if middleware.authenticates else exchange.principal
    await middleware.run(exchange, caller, exchange.send_to_server, serve)
    return stream


async def post(exchange: HttpExchange) -> OpenStream | None:
    """Answer a message: without a session, or in one."""
    # First the body: errors of the other checks have the id of the request.
    body = await exchange.read_body(conf.get().max_body_size)
    exchange.accepts_stream = exchange.check_media_types()
    server = exchange.server
    # The errors of what follows have the id already. A response may be a stream for hours.
    exchange.content = b""
    message, meta = request_meta.read_message(
        body, exchange.headers, server.stateless, server.options.versions
    )
    if type(message) is Request:
        exchange.request_id = message.id
    if meta is None:
        await _session(exchange).take(message)
        return None
    if type(message) is not Request:
        # Ignored: clients choose the ids of their requests, so that a posted
        # cancellation could cancel the request of another caller (CAN-08).
        await exchange.respond(202, b"", ())
        return None
    exchange.revision = meta["revision"]
    frame = frames.stateless(exchange, message, meta)
    if message.method == long_lived_stream.LISTEN or message.method in INSTALLED.streaming:
        return _listener(exchange, frame)
    if WAITING_THREAD in exchange.scope:
        exchange.use_waiting_thread(frame)
    exchange.begin()
    try:
        response = await handle.answer(frame, site.get())
    finally:
        exchange.stop()
    await exchange.answer(response)
    return None


def _listener(exchange: HttpExchange, frame: Frame) -> OpenStream:
    """The stream of notifications which a client asks for; raises HttpError."""
    if not exchange.accepts_stream:
        raise HttpError(406, "Accept text/event-stream to listen")

    async def listen() -> None:
        with exchange.opening():
            response = await handle.answer(frame, site.get())
        await exchange.answer(response)

    return listen


def _session(exchange: HttpExchange) -> SessionHttp:
    # Imported by a process that has a client with sessions.
    from django_mcp.transports.http.session.handler import SessionHttp

    return SessionHttp(exchange)


async def get(exchange: HttpExchange) -> None:
    """Serve a stream of a session."""
    await _session(exchange).get()


async def delete(exchange: HttpExchange) -> None:
    """End a session."""
    await _session(exchange).delete()


VERBS: Mapping[str, Verb] = {"GET": get, "DELETE": delete}
"""The functions for the methods of sessions."""
