"""One request of the workbench, sent as the newest revision, and its response.

The caller is the one whom ``DjangoSessionAuthentication`` would make of the same user. Permissions,
middleware, limits and the call log apply as to every other request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from concurrent.futures import wait as wait_for
from contextlib import aclosing
from typing import Any, Literal, NamedTuple, TypeVar

from asgiref.sync import async_to_sync
from django import get_version
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils import translation

from django_mcp import conf, registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.dispatch import handle
from django_mcp.core.frame.transport import Transport
from django_mcp.core.protocol import jsonrpc, request_meta
from django_mcp.core.protocol.errors import Json, McpError
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.request_meta import OF_NO_CLIENT, RequestMeta
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.server.server import Server
from django_mcp.runtime import background, pools
from django_mcp.tasks.steps import EXTENSION
from django_mcp.transports import frames, site
from django_mcp.transports.http.request import ScopeTransport
from django_mcp.transports.loop_exchange import LoopExchange
from django_mcp.transports.wsgi import environ, event_loop
from django_mcp.transports.wsgi.event_loop import EventLoopThread, LoopEnded
from django_mcp.ui.mcp_apps import metadata

T = TypeVar("T")

REQUEST_ID = 1
LOG_LEVEL = "debug"
CLIENT_INFO: Json = {"name": "Django admin", "version": get_version()}
CAPABILITIES: Json = {
    "elicitation": {"form": {}, "url": {}},
    "extensions": {**EXTENSION["extensions"], **metadata.CAPABILITY["extensions"]},
}
"""The capabilities of the page."""
LOOP_CHECK = 5.0
"""Seconds until a thread that waits for the event loop looks whether it has ended."""
OF_A_FORM = frozenset({b"content-type", b"content-length"})
"""Headers that describe the form of the page, and not the message."""


class Message(NamedTuple):
    """A message as it is on the wire."""

    direction: Literal["sent", "received"]
    body: Json


class Caller(NamedTuple):
    """The user of the page, as the sender of messages."""

    principal: Principal
    transport: Transport
    session: Any
    """The Django session."""


def caller_of(
    request: HttpRequest, server: Server, scopes: Iterable[str], *, tenant: str
) -> Caller:
    """Return the caller: the user of this request, with the scopes of a token that they chose.

    ``tenant`` is the one of the request, which ``tenants.of_request`` has read.
    """
    user: Any = request.user
    principal = Principal(
        scheme="django_session",
        subject=str(user.pk),
        user=user,
        scopes=frozenset(scopes),
        tenant=tenant,
        # The component may be unlisted.
        selection=Selection(all_tools=True) if server.short_lists else None,
    )
    session: Any = getattr(request, "session", None)
    return Caller(principal, ScopeTransport(_scope(request, server)), session)


def _scope(request: HttpRequest, server: Server) -> dict[str, Any]:
    """The scope of a message at the endpoint of the server, from the same browser."""
    if isinstance(request, ASGIRequest):
        scope = dict(request.scope)
    else:
        scope = environ.scope_of(request.META)
    prefix = scope.get("root_path", "")
    headers = [(name, value) for name, value in scope["headers"] if name not in OF_A_FORM]
    path = f"{prefix}/{server.path.strip('/')}"
    return {**scope, "path": path, "query_string": b"", "headers": headers}


async def exchange(
    server: Server,
    caller: Caller,
    method: str,
    params: Json,
    capabilities: Json = CAPABILITIES,
) -> AsyncGenerator[Message, None]:
    """Send a request; yield it, the notifications, and at last the response.

    Closing the iterator before its end cancels the call, as a disconnect does.
    """
    sent = {
        "jsonrpc": "2.0",
        "id": REQUEST_ID,
        "method": method,
        "params": {**params, "_meta": _meta(capabilities)},
    }
    yield Message("sent", sent)
    received: asyncio.Queue[Message] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def receive(body: Json) -> None:
        loop.call_soon_threadsafe(received.put_nowait, Message("received", body))

    call = LoopExchange(server, *caller)
    call.receive_message = receive
    answering = background.create_task(
        _answer(call, sent, capabilities, translation.get_language())
    )
    answering.add_done_callback(lambda _: loop.call_soon(received.put_nowait, END))
    try:
        while (message := await received.get()) is not END:
            yield message
        yield Message("received", answering.result())
    finally:
        if not answering.done():
            call.request("The page was closed")
            answering.cancel()


END = Message("received", {})
"""The end of the notifications."""


async def response_to(
    server: Server,
    caller: Caller,
    method: str,
    params: Json,
    capabilities: Json,
) -> Json:
    """Send a request, and return the response alone."""
    sent = exchange(server, caller, method, params, capabilities)
    async with aclosing(sent) as messages:
        async for message in messages:
            last = message
    return last.body


def _meta(capabilities: Json) -> dict[str, Any]:
    return {
        request_meta.VERSION: NEWEST.version,
        request_meta.CLIENT_INFO: CLIENT_INFO,
        request_meta.CAPABILITIES: capabilities,
        request_meta.LOG_LEVEL: LOG_LEVEL,
        "progressToken": REQUEST_ID,
    }


async def _answer(call: LoopExchange, sent: Json, capabilities: Json, language: str | None) -> Json:
    registry.make_ready(call.server)
    described: RequestMeta = {
        **OF_NO_CLIENT,
        "client_capabilities": capabilities,
        "client_info": CLIENT_INFO,
        "log_level": LOG_LEVEL,
    }
    try:
        # Read as from any client, whose messages are limited.
        request = jsonrpc.read(jsonrpc.decode_received(json.dumps(sent)))
        assert isinstance(request, Request)
        with translation.override(language):
            frame = frames.stateless(call, request, described)
            with call.time_limit(conf.get().handler_timeout):
                body = await handle.answer(frame, site.get())
    except McpError as error:
        return error.to_json_rpc(REQUEST_ID, NEWEST)
    answer: Json = json.loads(body)
    return answer


def is_asgi(request: HttpRequest) -> bool:
    return isinstance(request, ASGIRequest)


def wait(request: HttpRequest, coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, for a synchronous view.

    It runs in the event loop that serves clients, because tasks outlive the view.
    """
    if is_asgi(request) or pools.is_thread_sensitive():
        return async_to_sync(_awaited)(coroutine)
    return _result_of(event_loop.current(), coroutine)


async def _awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    return await coroutine


def on_thread(parts: AsyncGenerator[bytes, None]) -> Iterator[bytes]:
    """Iterate on the thread of a WSGI server over messages from the event loop."""
    thread = event_loop.current()

    async def next_part() -> bytes | None:
        return await anext(parts, None)

    try:
        while (part := _result_of(thread, next_part())) is not None:
            yield part
    finally:
        _result_of(thread, parts.aclose())


def _result_of(thread: EventLoopThread, coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; raises LoopEnded where nobody runs it any more."""
    future = asyncio.run_coroutine_threadsafe(coroutine, thread.loop)
    while not wait_for({future}, timeout=LOOP_CHECK).done:
        if thread.has_ended:
            raise LoopEnded
    return future.result()
