"""Describing a tool call for its row, and restoring the caller of a row.

The row stores the caller and the values for the handler's Frame; never a token, a header or a
cookie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.utils import translation

from django_mcp import conf, registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import HttpTransport
from django_mcp.core.server.server import server_of
from django_mcp.pubsub.session_messages import CONNECTION_BOUND
from django_mcp.stores.base import digest
from django_mcp.tasks.store import NewTask
from django_mcp.transports import frames
from django_mcp.transports.http import paths

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
    """The row of a task for the call on ``frame``, or of a plain call that has to wait.

    Its ``call`` has what ``execution.restore`` makes a Frame of.
    """
    registry.remember(server_of(frame))
    principal = frame.principal
    private = frame.private
    params = frame.message.params
    session_id = frame.get_mcp_session_id()
    call: dict[str, Any] = {
        "id": frame.message.id,
        "params": {name: value for name, value in params.items() if name not in OWN_PARAMS},
        **caller_facts(frame),
        "path_params": paths.as_text(frame.server.path, path_params(frame)),
        "client_info": dict(private.get("client_info") or {}),
        "client_capabilities": dict(private.get("client_capabilities") or {}),
        "language": translation.get_language(),
        "session_id": session_id,
        "changed": _changed(frame),
        "is_task": is_task,
    }
    if session_id is not None and CONNECTION_BOUND in session_id:
        # The session of a connection is in no store that another process could read.
        call["assigns"] = {name: value for name, value in frame.assigns.items() if _is_json(value)}
        call["components"] = dict(private.get("components", {}))
        call["log_level"] = private.get("log_level")
    default_ttl_ms = round(conf.get().task_ttl * 1000)
    requested_ttl_ms = default_ttl_ms if ttl_ms is None else max(ttl_ms, MIN_TTL_MS)
    return NewTask(
        server=frame.server.name,
        tool=params["name"],
        version=frame.revision.version,
        principal=principal.key,
        user_key=user_key(frame.user),
        owner=owner_of(frame),
        caller=digest(frames.counted_as(frame.server, principal, frame.transport)),
        call=call,
        ttl_ms=min(requested_ttl_ms, max(MAX_TTL_MS, default_ttl_ms)),
    )


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
    parts: dict[str, Mapping[str, Any]] = {
        "assigns": frame.assigns,
        "private": frame.private,
    }
    runs_again = any(getattr(step, "runs_in_tasks", False) for step in frame.server.middleware)
    changed: dict[str, Any] = {}
    for area, values in parts.items():
        present = {key: values[key] for key in areas[area] & values.keys()}
        changed[area] = {key: value for key, value in present.items() if _is_json(value)}
        lost = present.keys() - changed[area].keys()
        if lost and not runs_again:
            raise TypeError(NOT_STORED.format(", ".join(sorted(lost))))
    if areas["components"]:
        changed["components"] = dict(frame.private.get("components", {}))
    return changed


AREAS = ("assigns", "private", "components")
"""The parts of a Frame that middleware may change. The changes are stored with the call."""
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


async def caller_of(key: str, facts: Mapping[str, Any]) -> Principal:
    """The caller of a stored call; ``key`` is the primary key of the user.

    Only this function restores a caller. Raises CallerGone, and ValueError for a changed row.
    """
    if facts["user_key"] != key:
        raise ValueError("The user of the row is not the one who called")
    user: Any = AnonymousUser()
    if key:
        user = await get_user_model()._default_manager.filter(pk=key).afirst()
        if user is None or not user.is_active:
            raise CallerGone("The account of the caller does not exist, or is not active")
    scheme, subject, scopes, claims = facts["principal"]
    selection = facts.get("selection")
    return Principal(
        scheme=scheme,
        subject=subject,
        user=user,
        scopes=frozenset(scopes),
        claims=claims,
        endpoint=facts["endpoint"],
        tenant=facts.get("tenant", ""),
        selection=None if selection is None else Selection.from_json(selection),
    )
