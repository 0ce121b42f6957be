"""ASGI applications and Channels URL patterns for the registered servers.

In ``asgi.py``: ``application = mount(get_asgi_application())``.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from django.urls import URLPattern, re_path

from django_mcp import conf, registry
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import WELL_KNOWN, site_prefix
from django_mcp.pubsub import bus
from django_mcp.runtime import lifespan
from django_mcp.server.server import Server
from django_mcp.transports.http import http_sse, monitor, sse_stream, well_known
from django_mcp.transports.http.consumer import StreamableHttpConsumer
from django_mcp.transports.http.http_sse import HttpSseConsumer
from django_mcp.transports.wrapped_lifespan import WrappedLifespan

logger = logging.getLogger("django_mcp")

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def endpoint(server: Server, authentication: Authentication | None = None) -> Asgi:
    """Return the ASGI application; raises ImproperlyConfigured without authenticators."""
    registry.configure(server)
    consumer: Asgi = StreamableHttpConsumer.as_asgi(
        server=server, authentication=authentication or registry.authentication(server)
    )
    return consumer


def endpoints(server: Server, authentication: Authentication | None = None) -> dict[str, Asgi]:
    """Return the ASGI applications of ``server`` by path: one, with HTTP_SSE two more."""
    registry.configure(server)
    authentication = authentication or registry.authentication(server)
    path = authentication.resource.path
    applications = {path: endpoint(server, authentication)}
    if conf.get().http_sse:
        for name in http_sse.VERBS:
            applications[f"{path.rstrip('/')}/{name}"] = HttpSseConsumer.as_asgi(
                endpoint=name, server=server, authentication=authentication
            )
    return applications


def urlpatterns() -> list[URLPattern]:
    """Return the URL patterns of all endpoints and of their metadata, for a URLRouter."""
    applications, metadata = _applications()
    below = rf"^{re.escape(WELL_KNOWN.strip('/'))}(?:/.*)?$"
    return [
        *(
            re_path(rf"^{re.escape(path.strip('/'))}/?$", application)  # type: ignore[arg-type]
            for path, application in applications.items()
        ),
        re_path(below, metadata),  # type: ignore[arg-type]
    ]


def _applications() -> tuple[dict[str, Asgi], Asgi]:
    """The ASGI applications by path, and that of the well-known path and all below it."""
    applications: dict[str, Asgi] = {}
    by_path: dict[str, Authentication] = {}
    for server in registry.mountable():
        registry.configure(server)
        # One for all: its authenticators may cache keys and tokens.
        authentication = registry.authentication(server)
        by_path[authentication.resource.path] = authentication
        applications |= endpoints(server, authentication)
    return {**applications, **well_known.behind(by_path)}, well_known.below(by_path)


def mount(django_application: Asgi) -> Asgi:
    """Return an ASGI application with every MCP server at its path, and Django elsewhere.

    It also handles the lifespan messages of the ASGI server, and passes them on, unless the
    application rejects them as Django's does. It ends open streams properly when the ASGI server
    stops.
    """
    mounted, metadata = _applications()

    def find(path: str) -> Asgi | None:
        if f"{path}/".startswith(f"{WELL_KNOWN}/") and path not in mounted:
            return metadata
        return mounted.get(path) or mounted.get(path.rstrip("/"))

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            endpoint = mounted.get(scope["path"]) or find(_path(scope)) or django_application
            await endpoint(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(WrappedLifespan(django_application, scope), receive, send)
        else:
            await django_application(scope, receive, send)

    return application


def _path(scope: Any) -> str:
    """The path of a request without the prefix of the site, which not every ASGI server removes."""
    path: str = scope["path"]
    prefix = site_prefix(scope)
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


async def _lifespan(wrapped: WrappedLifespan, receive: Any, send: Any) -> None:
    """Start all MCP servers, and stop them. When one cannot start, the process serves nothing.

    The wrapped application starts before them, and stops after them.
    """
    try:
        answer = await _startup(wrapped, await receive())
        await send(answer)
        if answer["type"] == "lifespan.startup.complete":
            await send(await _shutdown(wrapped, await receive()))
    finally:
        wrapped.cancel()


async def _startup(wrapped: WrappedLifespan, message: dict[str, Any]) -> dict[str, Any]:
    answer = await wrapped.send(message) or {"type": "lifespan.startup.complete"}
    if answer["type"] == "lifespan.startup.complete":
        try:
            await _start_all()
        except Exception as error:
            logger.exception("An MCP server could not be started")
            await wrapped.send({"type": "lifespan.shutdown"})
            return {"type": "lifespan.startup.failed", "message": repr(error)}
    return answer


async def _shutdown(wrapped: WrappedLifespan, message: dict[str, Any]) -> dict[str, Any]:
    failure = None
    try:
        await _stop_all()
    except Exception as error:
        logger.exception("An MCP server could not be stopped")
        failure = {"type": "lifespan.shutdown.failed", "message": repr(error)}
    answer = await wrapped.send(message)
    return failure or answer or {"type": "lifespan.shutdown.complete"}


def _end_responses_on_signals() -> None:
    """End open streams and running calls when the process receives a signal to stop.

    ASGI servers wait until every response has ended before they send ``lifespan.shutdown``. A
    stream ends only when its client disconnects, and a call may take as long as HANDLER_TIMEOUT.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: Any) -> Any:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: bus.spawn(_end_responses()))
        return previous[number](number, frame)  # type: ignore[index,misc,operator]

    for number, handler in previous.items():
        if callable(handler):
            signal.signal(number, handle)


async def _start_all() -> None:
    _end_responses_on_signals()
    for server in registry.servers():
        await lifespan.start(server)


async def _stop_all() -> None:
    await _end_responses()
    await lifespan.stop_all()


async def _end_responses() -> None:
    sse_stream.end_all()
    await monitor.end_all(conf.get().shutdown_grace)
