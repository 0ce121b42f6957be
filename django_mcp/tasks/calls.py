"""Storing a tool call in a row, and restoring its Frame in the process that runs the task.

The row stores the caller and the values for the handler's Frame; never a token, a header or a
cookie.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.utils import translation

from django_mcp import conf, registry, stores
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.concurrency.fair_slots import Slot
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.client.bidirectional import BidirectionalClient
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import HttpTransport
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.jsonrpc import RequestInfo
from django_mcp.core.protocol.revisions import Feature
from django_mcp.core.server.server import Server, server_of
from django_mcp.models import McpTask
from django_mcp.pubsub.publisher import CONNECTION_BOUND
from django_mcp.runtime import pools
from django_mcp.stores.base import digest
from django_mcp.tasks.clients import PageClient, TaskClient
from django_mcp.tasks.store import NewTask
from django_mcp.transports import frames
from django_mcp.transports.exchange import LoopExchange
from django_mcp.transports.http import paths

if TYPE_CHECKING:
    from django_mcp.tasks.run import Run

OWN_PARAMS = frozenset({"task", "inputResponses", "requestState"})
"""Parameters of the request that do not belong to its task."""
MIN_TTL_MS = 1000
MAX_TTL_MS = 24 * 60 * 60 * 1000
"""The longest lifetime for requests of clients, unless TASK_TTL is longer: a day."""


class CallerGone(Exception):
    """The user that the task would run for does not exist, or is not active."""


def owner_of(frame: Frame) -> str:
    """The digest of the owner of a task: server and principal.

    Anonymous callers share a principal, so their tasks are bound to the session as well. Without a
    session, the id of the task is the only proof.
    """
    principal = frame.principal
    session_id = frame.get_mcp_session_id()
    session = session_id if not principal.subject and session_id is not None else ""
    return digest(frame.server.name, frame.server.path, principal.key, session)


def user_key(user: Any) -> str:
    """The primary key of a user who is logged in, as a string; empty for anybody else."""
    is_known = getattr(user, "is_authenticated", False) and user.pk is not None
    return str(user.pk) if is_known else ""


def path_params(frame: Frame) -> Mapping[str, Any]:
    """The captured values of the call's path, such as the tenant."""
    if isinstance(frame.transport, HttpTransport):
        return frame.transport.path_params or {}
    return frame.private.get("path_params", {})


def describe(frame: Frame, ttl_ms: int | None, *, is_task: bool = True) -> NewTask:
    """The row of a task for the call on ``frame``, or of a plain call that has to wait."""
    principal = frame.principal
    default_ttl_ms = round(conf.get().task_ttl * 1000)
    requested_ttl_ms = default_ttl_ms if ttl_ms is None else max(ttl_ms, MIN_TTL_MS)
    return NewTask(
        server=frame.server.name,
        tool=frame.message.params["name"],
        version=frame.revision.version,
        principal=principal.key,
        user_key=user_key(frame.user),
        owner=owner_of(frame),
        caller=digest(frames.counted_as(frame.server, principal, frame.transport)),
        call={**facts_of(frame), "is_task": is_task},
        ttl_ms=min(requested_ttl_ms, max(MAX_TTL_MS, default_ttl_ms)),
    )


def facts_of(frame: Frame) -> dict[str, Any]:
    """The call on ``frame`` as JSON, for its row; ``restore`` makes a Frame of it again."""
    remember(server_of(frame))
    private = frame.private
    params = frame.message.params
    session_id = frame.get_mcp_session_id()
    facts: dict[str, Any] = {
        "id": frame.message.id,
        "params": {name: value for name, value in params.items() if name not in OWN_PARAMS},
        **caller_facts(frame),
        "path_params": paths.as_text(frame.server.path, path_params(frame)),
        "client_info": dict(private.get("client_info") or {}),
        "client_capabilities": dict(private.get("client_capabilities") or {}),
        "language": translation.get_language(),
        "session_id": session_id,
        "changed": _changed(frame),
    }
    if session_id is not None and CONNECTION_BOUND in session_id:
        # The session of a connection is in no store that another process could read.
        facts["assigns"] = {name: value for name, value in frame.assigns.items() if _is_json(value)}
        facts["components"] = dict(private.get("components", {}))
        facts["log_level"] = private.get("log_level")
    return facts


def caller_facts(frame: Frame) -> dict[str, Any]:
    """Who has sent the request on ``frame``, as JSON; ``caller_of`` makes a Principal of it."""
    principal = frame.principal
    claims = principal.claims if _is_json(dict(principal.claims)) else {}
    return {
        "principal": [principal.scheme, principal.subject, sorted(principal.scopes), dict(claims)],
        "user_key": user_key(frame.user),
        "endpoint": principal.endpoint,
        "tenant": principal.tenant,
        "selection": None if principal.selection is None else principal.selection.to_json(),
    }


def _changed(frame: Frame) -> dict[str, Any]:
    """Changes of the Frame by middleware, which does not run again with the task.

    Raises TypeError for a value that cannot be stored, unless some middleware runs again.
    """
    areas = {
        area: {change.key for change in frame.changes if change.area == area} for area in AREAS
    }
    held: dict[str, Mapping[str, Any]] = {
        "assigns": frame.assigns,
        "private": frame.private,
    }
    runs_again = any(getattr(step, "runs_in_tasks", False) for step in frame.server.middleware)
    changed: dict[str, Any] = {}
    for area, values in held.items():
        present = {key: values[key] for key in areas[area] & values.keys()}
        changed[area] = {key: value for key, value in present.items() if _is_json(value)}
        lost = present.keys() - changed[area].keys()
        if lost and not runs_again:
            raise TypeError(NOT_STORED.format(", ".join(sorted(lost))))
    if areas["components"]:
        changed["components"] = dict(frame.private.get("components", {}))
    return changed


AREAS = ("assigns", "private", "components")
"""The parts of a Frame whose changes by middleware are stored with the call."""
NOT_STORED = (
    "Middleware gave the Frame of a task values that are not serializable as JSON: {}. Set them in "
    "FRAME_PROCESSORS, or set runs_in_tasks = True on the middleware"
)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Execution:
    """The parts of a Frame which belong to the process that runs the task."""

    run: Run | None
    """None where nobody could answer an input request."""
    store_message: Callable[[Json], object] | None
    """Stores a notification; None where the form of the task has none."""
    slot: Slot
    """The permit of the task to run."""


class Restored(NamedTuple):
    """A stored call."""

    frame: Frame
    language: str | None
    assigned: Mapping[str, Any]
    """Values that the middleware had assigned; they override frame processors."""


async def restore(row: McpTask, facts: Mapping[str, Any], execution: Execution) -> Restored:
    """The Frame of a stored call with these facts, and the language of its caller.

    Only this module restores a caller from a row. Raises CallerGone, LookupError
    for a server that this process does not have, and ValueError for a row that was changed.
    """
    server = server_named(row.server)
    if server is None:
        raise LookupError(f"This process has no MCP server {row.server!r}")
    registry.make_ready(server)
    principal = await caller_of(row.user_key, facts)
    private, assigns = await _state(row, facts, server)
    private["path_params"] = paths.from_text(server.path, facts["path_params"])
    params = facts["params"]
    exchange = LoopExchange(server, principal)
    exchange.may_start_tasks = False
    exchange.is_task_run = True
    exchange.in_pool = partial(pools.run_task, execution.slot.call)  # type: ignore[arg-type]
    exchange.receive_message = execution.store_message
    frame = Frame(
        assigns,
        user=principal.user,
        auth=principal,
        request=RequestInfo(facts["id"], "tools/call", params),
        initialized=True,
        client=_client(exchange, private, facts, execution.run),
        cancellation=exchange,
        private=private,
        exchange=exchange,
    )
    return Restored(frame, facts["language"], facts["changed"]["assigns"])


async def restore_caller(frame: Frame, row: McpTask, facts: Mapping[str, Any]) -> Frame:
    """The Frame of a call whose client still waits, with its caller as they are now."""
    principal = await caller_of(row.user_key, facts)
    return replace(frame, user=principal.user, auth=principal)


async def caller_of(key: str, facts: Mapping[str, Any]) -> Principal:
    """The caller of a stored call, with the user whose primary key is ``key``.

    Raises CallerGone, and ValueError for a row that was changed.
    """
    if facts["user_key"] != key:
        raise ValueError("The user of the row is not the one who called")
    scheme, subject, scopes, claims = facts["principal"]
    selection = facts.get("selection")
    return Principal(
        scheme=scheme,
        subject=subject,
        user=await _user(key),
        scopes=frozenset(scopes),
        claims=claims,
        endpoint=facts["endpoint"],
        tenant=facts.get("tenant", ""),
        selection=None if selection is None else Selection.from_json(selection),
    )


def _client(
    exchange: LoopExchange, private: Any, facts: Mapping[str, Any], run: Run | None
) -> Client:
    """The client of a stored call; without a run, one that supports nothing."""
    params = facts["params"]
    server = exchange.server
    revision = private["revision"]
    if run is None:
        return BidirectionalClient(server, revision, {}, exchange, None, None, None)
    if "answered_for" in facts:
        return PageClient(run, server, revision, facts["answered_for"], exchange)
    progress_token = None
    log_level = None
    if revision.has(Feature.TASKS):
        progress_token = (params.get("_meta") or {}).get("progressToken")
        if server.capabilities.has("logging"):
            log_level = private.get("log_level")
    return TaskClient(
        run,
        server,
        revision,
        private["client_capabilities"],
        exchange,
        progress_token,
        log_level,
    )


async def _state(row: McpTask, facts: Any, server: Server) -> tuple[Any, dict[str, Any]]:
    """The private data and the assigns, with the changes of the middleware."""
    private, assigns = await _session_state(row, facts, server)
    changed = facts["changed"]
    private |= changed["private"]
    if "components" in changed:
        private["components"] = changed["components"]
    return private, {**assigns, **changed["assigns"]}


async def _session_state(row: McpTask, facts: Any, server: Server) -> tuple[Any, dict[str, Any]]:
    """The private data and the assigns: of the session as it is now, if it is in a store.

    Otherwise they are those that were stored with the call.
    """
    revision = server.by_version[row.version]
    session_id = facts["session_id"]
    if session_id is not None and CONNECTION_BOUND not in session_id:
        session = await stores.sessions().load(session_id)
        if session is not None:
            private = frames.private_of(server, session)
            level = frames.session_level(session)
            return {**private, "log_level": level}, dict(session.assigns)
    private = {
        "server": server,
        "revision": revision,
        "protocol_version": revision.version,
        "client_info": facts["client_info"],
        "client_capabilities": facts["client_capabilities"],
    }
    if session_id is not None:
        private["session_id"] = session_id
        private["components"] = facts.get("components", {})
        private["log_level"] = facts.get("log_level") or frames.DEFAULT_LOG_LEVEL
    return private, facts.get("assigns", {})


async def _user(key: str) -> Any:
    if not key:
        return AnonymousUser()
    user = await get_user_model()._default_manager.filter(pk=key).afirst()
    if user is None or not user.is_active:
        raise CallerGone("The account of the caller does not exist, or is not active")
    return user


def remember(server: Server) -> None:
    """Find this server by its name, also if it is not registered, as in a test."""
    _servers[server.name] = server


def server_named(name: str) -> Server | None:
    server = _servers.get(name)
    if server is not None:
        return server
    try:
        return registry.get(name)
    except LookupError:
        return None


_servers: WeakValueDictionary[str, Server] = WeakValueDictionary()
