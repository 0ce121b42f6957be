"""From a message to its Frame, for every transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.client import request_state
from django_mcp.core.frame.client.base import Client, progress_token
from django_mcp.core.frame.client.bidirectional import BidirectionalClient
from django_mcp.core.frame.client.log_levels import LEAST_SEVERE, LogRateLimiter, level_name
from django_mcp.core.frame.client.multi_round_trip import MultiRoundTripClient
from django_mcp.core.frame.session import Session, address
from django_mcp.core.frame.transport import caller_key
from django_mcp.core.protocol import request_meta
from django_mcp.core.protocol.errors import InvalidParams, InvalidRequest, McpError
from django_mcp.core.protocol.jsonrpc import Notification, Request
from django_mcp.core.protocol.limits import quoted
from django_mcp.core.protocol.request_meta import RequestMeta
from django_mcp.core.protocol.revisions import NEWEST, Revision, Statefulness
from django_mcp.core.server.server import Server
from django_mcp.frame import Frame, RequestInfo, Transport
from django_mcp.transports.loop_exchange import LoopExchange

DEFAULT_LOG_LEVEL = "info"
"""The least severe level which is sent to a session that has not set one."""


def counted_as(server: Server, principal: Principal, transport: Transport | None) -> str:
    """The key of sessions and streams for the limits of their caller.

    An anonymous caller is limited on each server separately.
    """
    key = caller_key(principal, transport)
    return key if principal.subject else f"{server.name} {key}"


def stateless(exchange: LoopExchange, request: Request, meta: RequestMeta) -> Frame:
    """The Frame of a request without a session, with its metadata.

    A retry, which brings responses of the client, continues with the assigns of the earlier one.
    Raises McpError for an invalid retry, and InvalidParams for an unknown log level.
    """
    private: Any = meta  # It was made for this request, and by the same names.
    private["server"] = exchange.server
    if exchange.server.redirects:
        request = _redirected(exchange.server, request, private)
    earlier = request_state.FIRST
    client: Callable[..., Client] = MultiRoundTripClient
    params = request.params
    if "inputResponses" in params or "requestState" in params:
        principal = exchange.principal.key
        earlier = request_state.read(
            exchange.server, meta["revision"], principal, request.method, params
        )
        client = partial(MultiRoundTripClient, responses=earlier.responses)
        if earlier.trace is not None:
            private[request_state.EARLIER_TRACE] = earlier.trace
    level = meta.get("log_level")
    if level is not None and level_name(level) != level:
        raise InvalidParams(f"Unknown log level {quoted(level)}")
    return _frame(exchange, request, private, level, client=client, assigns=earlier.assigns)


def in_session(exchange: LoopExchange, request: Request | Notification, session: Session) -> Frame:
    """The Frame of a request or a notification which was sent in ``session``."""
    private = private_of(exchange.server, session)
    if exchange.server.redirects and type(request) is Request:
        request = _redirected(exchange.server, request, private)
    return _frame(
        exchange,
        request,
        private,
        session_level(session),
        assigns=session.assigns,
        initialized=session.initialized,
    )


def of_request(exchange: LoopExchange, request: Request, session: Session | None) -> Frame:
    """The Frame of a request on a connection, with its ``session``, if any.

    Raises InvalidRequest for a request which must be sent before, or after, ``initialize``.
    """
    server = exchange.server
    if not request_meta.has_request_meta(request.params):
        if session is not None:
            if request.method == "initialize":
                raise InvalidRequest("This session is already open")
            return in_session(exchange, request, session)
        if request.method in BEFORE_SESSION:
            return for_initialize(exchange, request)
        revisions = server.revisions(Statefulness.SESSION)
        if revisions and request.method in revisions[-1].requests:
            raise InvalidRequest("Open the session with initialize first")
    meta = request_meta.read(request, None, server.stateless, server.options.versions)
    return stateless(exchange, request, meta)


BEFORE_SESSION = frozenset({"initialize", "ping"})
"""The methods that may be sent before a session is open (LIFE-01, LIFE-11)."""


def with_session(frame: Frame, session: Session) -> Frame:
    """The Frame with the session as it is now, after other requests may have changed it."""
    private: Any = private_of(frame.server, session)
    if "is_indirect" in frame.private:
        private["is_indirect"] = True  # Of the message, not of the session.
    return replace(frame, assigns=session.assigns, initialized=session.initialized, private=private)


def private_of(server: Server, session: Session) -> dict[str, Any]:
    """The private data of a Frame in ``session``."""
    private = {
        **session.private,
        "server": server,
        "revision": server.by_version[session.version],
        "protocol_version": session.version,
        "client_capabilities": session.client_capabilities,
        "client_info": session.client_info,
        "init_meta": session.init_meta,
        "session_id": session.id,
        "log_level": session.log_level,
        "components": session.components,
        "subscriptions": session.subscriptions,
    }
    if session.pagination_limit is not None:
        private["pagination_limit"] = session.pagination_limit
    return private


def for_initialize(exchange: LoopExchange, request: Request) -> Frame:
    """The Frame of ``initialize``, before a version is negotiated: the newest with sessions.

    Raises UnsupportedProtocolVersion where no revision with sessions is served (VER-08).
    """
    served = exchange.server.revisions(Statefulness.SESSION)
    if not served:
        requested = str(request.params.get("protocolVersion", ""))
        raise McpError.unsupported_protocol_version(requested, tuple(exchange.server.stateless))
    return _frame(exchange, request, {"server": exchange.server, "revision": served[-1]}, None)


def local(exchange: LoopExchange, request: Request) -> Frame:
    """The Frame of a request with neither a session nor metadata of its own, and no client."""
    revision = newest_session_revision(exchange.server)
    private = {
        "server": exchange.server,
        "revision": revision,
        "protocol_version": revision.version,
        "client_capabilities": {},
    }
    request = _redirected(exchange.server, request, private)
    return _frame(exchange, request, private, None)


def _redirected(server: Server, request: Request, private: dict[str, Any]) -> Request:
    """The request that an extension puts in the place of this one, or the same."""
    for redirect in server.redirects:
        other = redirect(server, request)
        if other is not None:
            private["is_indirect"] = True
            return other
    return request


def newest_session_revision(server: Server) -> Revision:
    """The revision of a caller which names none: the newest with sessions."""
    return (server.revisions(Statefulness.SESSION) or (NEWEST,))[-1]


def _frame(
    exchange: LoopExchange,
    request: Request | Notification,
    private: dict[str, Any],
    log_level: str | None,
    *,
    client: Callable[..., Client] = BidirectionalClient,
    assigns: Mapping[str, Any] | None = None,
    initialized: bool = True,
) -> Frame:
    params = request.params
    info = request if type(request) is Request else RequestInfo(None, request.method, params)
    token = None
    if "_meta" in params:
        meta = params["_meta"]
        if type(meta) is not dict:
            if info.id is not None:
                raise InvalidParams("params._meta must be an object")
        elif "progressToken" in meta:
            token = progress_token(meta)
    principal = exchange.principal
    return Frame.of_values(
        {
            "assigns": assigns or {},
            "user": principal.user,
            "auth": principal,
            "request": info,
            "message": info,
            "server": exchange.server,
            "revision": private["revision"],
            "initialized": initialized,
            "cancellation": exchange,
            "private": private,
            "changes": (),
            "exchange": exchange,
            "client_facts": (_client, client, exchange, private, token, log_level),
        }
    )


def _client(
    make: Callable[..., Client],
    exchange: LoopExchange,
    private: dict[str, Any],
    token: str | int | None,
    log_level: str | None,
) -> Client:
    """The client of a Frame, which is made when it is read."""
    server = exchange.server
    capabilities = private.get("client_capabilities", {})
    if log_level is None or not server.capabilities.has("logging"):
        return make(server, private["revision"], capabilities, exchange, token)
    limiter = _limiter(server, private.get("session_id"))
    return make(server, private["revision"], capabilities, exchange, token, log_level, limiter)


def _limiter(server: Server, session_id: str | None) -> LogRateLimiter | None:
    """Limits the log messages to this client; each worker counts for itself."""
    per_second = server.log_rate_limit
    if per_second is None:
        return None
    if session_id is None:
        return LogRateLimiter(per_second)
    return _limiter_of(server, address(session_id), per_second)


@lru_cache(maxsize=4096)
def _limiter_of(server: Server, session: str, per_second: int) -> LogRateLimiter:
    return LogRateLimiter(per_second)


def session_level(session: Session) -> str:
    """The least severe log level that is sent to a session.

    ``logging/setLevel`` decides, then the experimental capability ``logLevel``. An unknown level
    there counts as the least severe one.
    """
    if session.log_level is not None:
        return session.log_level
    experimental = session.client_capabilities.get("experimental")
    requested = experimental.get("logLevel") if isinstance(experimental, dict) else None
    if requested is None:
        return DEFAULT_LOG_LEVEL
    level = level_name(requested) if isinstance(requested, str) else None
    return level or LEAST_SEVERE
