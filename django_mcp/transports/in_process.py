"""Carrying out the calls that a site makes of its own servers, without a client.

Messages to the client are dropped and input requests raise ConnectionError, unless the call is
made within the call of a client.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser

from django_mcp import registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.components.base import scope_names
from django_mcp.core.dispatch import dispatcher, handle
from django_mcp.core.frame.client.bidirectional import NULL_CLIENT, BidirectionalClient
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import Transport
from django_mcp.core.protocol import jsonrpc, request_meta
from django_mcp.core.protocol.errors import Json, McpError
from django_mcp.core.protocol.jsonrpc import Request, RequestInfo
from django_mcp.core.protocol.request_meta import OF_NO_CLIENT, RequestMeta
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.server.server import Server
from django_mcp.runtime import pools
from django_mcp.transports import frames, site
from django_mcp.transports.loop_exchange import LoopExchange

T = TypeVar("T")


def newest_request(
    server: Server,
    principal: Principal,
    request: Request,
    *,
    transport: Transport | None = None,
    receive: Callable[[dict[str, Any]], object] | None = None,
    meta: RequestMeta = OF_NO_CLIENT,
) -> Frame:
    """The Frame of a request of a page or a command, which stands for a client.

    ``receive`` takes the notifications; input requests go by retries. Raises the
    errors of ``frames.stateless``.
    """
    registry.make_ready(server)
    exchange = _exchange(server, principal, transport)
    exchange.receive_message = receive
    return frames.stateless(exchange, request, meta)


class DjangoInProcessCaller:
    async def call(
        self,
        server: Server,
        method: str,
        params: dict[str, Any],
        *,
        user: Any,
        scopes: Iterable[str],
        frame: Frame | None,
    ) -> dict[str, Any]:
        """The result of a method, as the newest revision with sessions has it; raises McpError."""
        registry.make_ready(server)
        if frame is None:
            inner = frames.local(
                _exchange(server, _principal(user, scopes)), Request(LOCAL, method, params)
            )
        else:
            inner = _within(frame, server, method, params)
        if server.short_lists:
            # The site itself needs no search to know its tools.
            selection = replace(inner.principal.selection or Selection(), all_tools=True)
            inner = replace(inner, auth=replace(inner.principal, selection=selection))
        prepared = await handle.prepare(inner, site.get())
        result, _ = await dispatcher.call(prepared.put_private(pagination_limit=sys.maxsize))
        if isinstance(result, McpError):
            raise result
        answer: dict[str, Any] = result
        return answer

    async def handle(
        self, server: Server, message: Json, *, user: Any, scopes: Iterable[str]
    ) -> dict[str, Any] | None:
        registry.make_ready(server)
        try:
            # Encoded and read, which also rejects unserializable values.
            read = jsonrpc.read(jsonrpc.decode(jsonrpc.encode(message)))
        except McpError as error:
            return error.to_json_rpc(error.request_id, NEWEST)
        if not isinstance(read, Request):
            return None
        try:
            frame = _frame(_exchange(server, _principal(user, scopes)), read)
        except McpError as error:
            return error.to_json_rpc(read.id, NEWEST)
        answer: dict[str, Any] = jsonrpc.decode(await handle.answer(frame, site.get()))
        return answer

    def frame(self, server: Server, client_info: Json, capabilities: Json, *, user: Any) -> Frame:
        principal = _principal(user, ())
        revision = frames.newest_session_revision(server)
        return Frame(user=principal.user, auth=principal, initialized=True).put_private(
            server=server,
            revision=revision,
            protocol_version=revision.version,
            client_info=client_info,
            client_capabilities=capabilities,
        )

    def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of an asynchronous function; synchronous handlers run on this thread."""

        async def run() -> T:
            return await function()

        with pools.on_this_thread():
            return async_to_sync(run)()


LOCAL = "local"
"""The id of a request which no client sent."""


def _principal(user: Any, scopes: Iterable[str]) -> Principal:
    caller = AnonymousUser() if user is None else user
    return Principal(
        scheme="local",
        subject=str(caller.pk or ""),
        user=caller,
        scopes=scope_names("scopes of the call", scopes),
    )


def _exchange(
    server: Server, principal: Principal, transport: Transport | None = None
) -> LoopExchange:
    exchange = LoopExchange(server, principal, transport)
    exchange.may_start_tasks = False
    return exchange


def _frame(exchange: LoopExchange, request: Request) -> Frame:
    if request_meta.has_request_meta(request.params):
        server = exchange.server
        opened = request_meta.read(request, None, server.stateless, server.options.versions)
        return frames.stateless(exchange, request, opened)
    if request.method == "initialize":
        return frames.for_initialize(exchange, request)
    return frames.local(exchange, request)


def _within(frame: Frame, server: Server, method: str, params: Mapping[str, Any]) -> Frame:
    identity = frame.request.id if frame.request is not None else LOCAL
    exchange = _exchange(server, frame.principal, frame.transport)
    exchange.outer = frame.exchange
    client = frame.client
    if client is NULL_CLIENT:
        capabilities = frame.get_client_capabilities() or {}
        client = BidirectionalClient(frame.server, frame.revision, capabilities, exchange)
    request = RequestInfo(identity, method, params)
    inner = replace(frame, request=request, exchange=exchange, client=client)
    return inner.put_private(server=server)
