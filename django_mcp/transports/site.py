"""What ``core.dispatch.handle`` is given of the Django site: to commit, to publish, its signals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from inspect import isawaitable
from types import ModuleType
from typing import Any

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_mcp import conf, signals, stores
from django_mcp.core.dispatch.handle import Site
from django_mcp.core.frame.client import request_state
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.server.server import Server
from django_mcp.pubsub import session_messages, switches
from django_mcp.runtime import lifespan, signing

OPEN_TELEMETRY = ("opentelemetry", "opentelemetry.trace", "opentelemetry.metrics")
"""The API. Other packages install its namespace, too: each name is asked for after its parent."""


@cache
def get() -> Site:
    """The functions of this site, for sessions that are kept in its store."""
    settings = conf.get()
    single_use = signing.SingleUse(request_state.LIFETIME, settings.handler_timeout)
    return Site(
        start=start,
        process=_process if settings.frame_processors else None,
        single_use=single_use if settings.request_state_single_use else None,
        commit=_commit,
        publish=_publish,
        signals={
            "tools/call": signals.tool_called,
            "resources/read": signals.resource_read,
            "prompts/get": signals.prompt_got,
        },
        telemetry=_telemetry(),
    )


def _telemetry() -> ModuleType | None:
    """The module that makes spans, if the site has configured an SDK before its first message.

    It is not asked at each message: the API would take 3 % of a call for its answer.
    """
    if not all(map(find_spec, OPEN_TELEMETRY)):
        return None
    from django_mcp.core.dispatch import telemetry

    return telemetry if telemetry.is_configured() else None


async def start(server: Server) -> None:
    """Start a server, after its switched-off components are hidden."""
    await switches.loaded()
    await lifespan.start(server)


async def _process(frame: Frame) -> Frame:
    """The Frame with the values of FRAME_PROCESSORS, which are never stored."""
    assigns: dict[str, Any] = {}
    for path in conf.get().frame_processors:
        values = await frame.exchange.run_hook(_processor(path), frame)
        assigns |= await values if isawaitable(values) else values
    return frame.with_request_assigns(assigns)


_processor = cache(import_string)


class _OtherPrincipal(Exception):
    """The session has been taken over since the call began."""


async def _commit(session_id: str, principal: str, changes: Sequence[Change]) -> Session | None:
    def check(session: Session) -> None:
        if session.principal != principal:
            raise _OtherPrincipal

    try:
        return await stores.sessions().update(session_id, changes, check=check)
    except _OtherPrincipal:
        return None


async def _publish(server: Server, session_id: str, changes: Sequence[Change]) -> None:
    await session_messages.components_changed(server, address(session_id), changes)


def _forget(*, setting: str, **_: Any) -> None:
    if setting in conf.READ:
        get.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.site")
