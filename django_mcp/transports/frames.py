"""What every transport has in common: from a message to a Frame, and from a reply to the store.

A transport gathers facts about the caller and reads messages; from there on all of them walk
the same way, which is written down here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from inspect import isawaitable
from typing import Any, NamedTuple

from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.dispatch import call_log, dispatcher
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.frame import Frame, RequestInfo, Transport
from django_mcp.frame.cancellation import Cancellation
from django_mcp.frame.client import request_state
from django_mcp.frame.client.base import Client, progress_token
from django_mcp.frame.client.bidirectional import BidirectionalClient
from django_mcp.frame.client.log_levels import LEAST_SEVERE, LogRateLimiter, level_name
from django_mcp.frame.client.multi_round_trip import MultiRoundTripClient
from django_mcp.frame.exchange import Exchange
from django_mcp.frame.session import Change, Session, address
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import (
    InternalError,
    InvalidParams,
    Json,
    McpError,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.jsonrpc import Notification, Request
from django_mcp.protocol.request_meta import RequestMeta
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Revision, Statefulness
from django_mcp.pubsub import publisher
from django_mcp.runtime import lifespan, signing
from django_mcp.server.server import Server
from django_mcp.stores.base import SessionStore

logger = logging.getLogger("django_mcp")

DEFAULT_LOG_LEVEL = "info"
"""The least severe level which a session hears of before it says what it wants."""


class RequestOrigin(NamedTuple):
    """What the edge knows of whoever sent a message."""

    principal: Principal
    transport: Transport | None
    session: Any = None
    """The Django session."""


@dataclass(slots=True)
class IncomingRequest:
    """One request on its way: what is needed to make its Frame."""

    server: Server
    caller: RequestOrigin
    exchange: Exchange
    cancellation: Cancellation = field(default_factory=Cancellation)


def stateless(call: IncomingRequest, request: Request, envelope: RequestMeta) -> Frame:
    """The Frame of a request which brought its own metadata."""
    private = {
        "server": call.server,
        "revision": envelope.revision,
        "protocol_version": envelope.revision.version,
        "client_capabilities": envelope.capabilities,
    }
    if envelope.client_info is not None:
        private["client_info"] = envelope.client_info
    principal = call.caller.principal.key
    earlier = request_state.read(call.server, principal, request.method, request.params)
    client = (
        MultiRoundTripClient
        if earlier is request_state.FIRST
        else partial(MultiRoundTripClient, responses=earlier.responses)
    )
    level = None if envelope.log_level is None else _requested_level(envelope.log_level)
    return _frame(call, request, private, level, client=client, assigns=earlier.assigns)


def in_session(call: IncomingRequest, request: Request | Notification, session: Session) -> Frame:
    """The Frame of a message in a session."""
    return _frame(
        call,
        request,
        _private(call.server, session),
        session_level(session),
        assigns=session.assigns,
        initialized=session.initialized,
    )


def with_session(frame: Frame, session: Session) -> Frame:
    """The Frame of the same message, with what its session remembers now."""
    return replace(
        frame,
        assigns=session.assigns,
        initialized=session.initialized,
        private=_private(frame.server, session),  # type: ignore[arg-type]
    )


def _private(server: Server, session: Session) -> dict[str, Any]:
    """What the framework knows of a message in a session."""
    private = {
        **session.private,
        "server": server,
        "revision": BY_VERSION[session.version],
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


def for_initialize(call: IncomingRequest, request: Request) -> Frame:
    """The Frame of ``initialize``, before anything is agreed: it speaks the newest handshake.

    Raises UnsupportedProtocolVersion where no revision is served that has one (VER-08).
    """
    served = call.server.revisions(Statefulness.SESSION)
    if not served:
        requested = str(request.params.get("protocolVersion", ""))
        raise UnsupportedProtocolVersion(
            data={"supported": [*call.server.stateless], "requested": requested}
        )
    return _frame(call, request, {"server": call.server, "revision": served[-1]}, None)


def local(call: IncomingRequest, request: Request) -> Frame:
    """The Frame of a request which has neither a session nor an envelope, and no client."""
    revision = newest_session_revision(call.server)
    private = {
        "server": call.server,
        "revision": revision,
        "protocol_version": revision.version,
        "client_capabilities": {},
    }
    return _frame(call, request, private, None)


def newest_session_revision(server: Server) -> Revision:
    """What is spoken with whoever says nothing of it: the newest that has a handshake."""
    return (server.revisions(Statefulness.SESSION) or (NEWEST,))[-1]


def _frame(
    call: IncomingRequest,
    request: Request | Notification,
    private: dict[str, Any],
    log_level: str | None,
    *,
    client: Callable[..., Client] = BidirectionalClient,
    assigns: Json | None = None,
    initialized: bool = True,
) -> Frame:
    caller, params = call.caller, request.params
    meta = params.get("_meta")
    is_sent_logs = log_level is not None and call.server.capabilities.has("logging")
    other_side = client(
        call.server,
        private["revision"],
        private.get("client_capabilities", {}),
        call.exchange,
        progress_token(meta) if meta else None,
        log_level if is_sent_logs else None,
        _allowance(call.server, private.get("session_id")) if is_sent_logs else None,
    )
    return Frame(
        assigns or {},
        user=caller.principal.user,
        session=caller.session,
        auth=caller.principal,
        transport=caller.transport,
        request=RequestInfo(
            request.id if type(request) is Request else None, request.method, params
        ),
        initialized=initialized,
        client=other_side,
        cancellation=call.cancellation,
        private=private,  # type: ignore[arg-type]
        exchange=call.exchange,
    )


def _allowance(server: Server, session_id: str | None) -> LogRateLimiter | None:
    """How much may be logged to this client; it is counted by each worker for itself."""
    per_second = server.effective_log_rate_limit
    if per_second is None:
        return None
    if session_id is None:
        return LogRateLimiter(per_second)
    return _allowance_of(server, address(session_id), per_second)


@lru_cache(maxsize=4096)
def _allowance_of(server: Server, session: str, per_second: int) -> LogRateLimiter:
    return LogRateLimiter(per_second)


def _requested_level(requested: str) -> str:
    if level_name(requested) != requested:
        raise InvalidParams(f"Unknown log level {requested!r}")
    return requested


def session_level(session: Session) -> str:
    """The least severe level of log message that this session is sent."""
    if session.log_level is not None:
        return session.log_level
    experimental = session.client_capabilities.get("experimental")
    wished = experimental.get("logLevel") if isinstance(experimental, dict) else None
    if wished is None:
        return DEFAULT_LOG_LEVEL
    return (level_name(wished) if isinstance(wished, str) else None) or LEAST_SEVERE


def new_session(frame: Frame, session_id: str) -> Session:
    """The session which ``initialize`` opened."""
    assert frame.auth is not None
    session = Session(
        id=session_id,
        server=frame.server.name,
        principal=frame.auth.key,
        version=frame.revision.version,
        client_info=frame.private["client_info"],
        client_capabilities=frame.private["client_capabilities"],
        init_meta=frame.private["init_meta"],
    )
    return session.apply(frame.changes)


INITIALIZED = Change("initialized", "set", value=True)
"""What a session remembers of ``notifications/initialized``."""


def answer(frame: Frame) -> Awaitable[Reply]:
    """The reply to the request on ``frame``, with what the site's frame processors bring."""
    site = conf.get()
    if site.frame_processors or site.request_state_single_use or not frame.server.is_running:
        return _answer_when_prepared(frame, site)
    return _answer(frame)


async def _answer_when_prepared(frame: Frame, site: conf.Settings) -> Reply:
    if site.request_state_single_use and not await _first_use(frame, site):
        return dispatcher.error_reply(frame, InvalidParams("params.requestState was used before"))
    try:
        frame = await prepared(frame)
    except Exception as error:
        frame.server.report("A message could not be prepared to be answered", error)
        return dispatcher.error_reply(frame, InternalError())
    return await _answer(frame)


def _answer(frame: Frame) -> Awaitable[Reply]:
    if call_log.is_logged(frame):
        return call_log.logged(frame, dispatcher.answer)
    return dispatcher.answer(frame)


async def prepared(frame: Frame) -> Frame:
    """The Frame with what the site's frame processors bring, its server having been started."""
    if not frame.server.is_running:
        await lifespan.start(frame.server)
    processors = conf.get().frame_processors
    return await process(frame, processors) if processors else frame


async def _first_use(frame: Frame, site: conf.Settings) -> bool:
    """Whether the state which the request brings, if it brings any, was never brought before."""
    assert frame.request is not None
    assert frame.exchange is not None
    state = frame.request.params.get("requestState")
    if state is None:
        return True
    return await frame.exchange.run(signing.claim_single_use, state, site.request_state_lifetime)


async def process(frame: Frame, processors: tuple[str, ...]) -> Frame:
    """The Frame with what the processors bring: it shadows the session's and is never stored."""
    assert frame.exchange is not None
    brought: dict[str, Any] = {}
    for path in processors:
        values = await frame.exchange.run(_processor(path), frame)
        brought |= await values if isawaitable(values) else values
    return frame.with_request_assigns(brought)


@cache
def _processor(path: str) -> Callable[[Frame], Any]:
    processor: Callable[[Frame], Any] = import_string(path)
    return processor


async def commit(store: Callable[[], SessionStore], reply: Reply) -> None:
    """Keep what the handler changed in its session, before its answer is sent."""
    session_id = reply.frame.get_mcp_session_id()
    if reply.frame.changes and session_id is not None:
        await store().update(session_id, reply.frame.changes)
        server, changes = reply.frame.server, reply.frame.changes
        await publisher.components_changed(server, address(session_id), changes)


def commit_failed_reply(reply: Reply) -> Reply:
    """What is answered instead of ``reply`` when its changes could not be kept; logs why."""
    logger.exception("What a handler changed in its session could not be kept")
    error = InternalError()
    return Reply(jsonrpc.error(reply.message["id"], error_object(error)), reply.frame, error)


def error_object(error: McpError, revision: Revision = NEWEST) -> dict[str, Any]:
    """The error object for what was refused before a revision was known."""
    return revision.error(error)
