"""ASGI applications and Channels URL patterns for the registered servers.

In ``asgi.py``: ``application = mount(get_asgi_application())``.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern, re_path
from django.urls.resolvers import RoutePattern

from django_mcp import conf, registry
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import WELL_KNOWN, path_in_site, with_prefix
from django_mcp.pubsub import bus
from django_mcp.runtime import background, lifespan
from django_mcp.runtime.process import asgi_servers, garbage_collector, stop_signals
from django_mcp.runtime.process.asgi_servers import AsgiServer
from django_mcp.server.server import Server
from django_mcp.transports.http import health, http_sse, shutdown, well_known
from django_mcp.transports.http.consumer import StreamableHttpConsumer
from django_mcp.transports.http.http_sse import HttpSseConsumer
from django_mcp.transports.http.paths import Paths
from django_mcp.transports.http.request import Asgi
from django_mcp.transports.wrapped_lifespan import WrappedLifespan

logger = logging.getLogger("django_mcp")

NOT_INSTALLED = (
    "django_mcp is not in INSTALLED_APPS, so that no mcp.py is imported and no server has "
    'components. Add "django_mcp" to INSTALLED_APPS, and run manage.py migrate.'
)


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
    registry.note_mounted(server)
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
        *(_url_pattern(path, application) for path, application in applications.items()),
        re_path(below, metadata),  # type: ignore[arg-type]
    ]


def _url_pattern(path: str, application: Asgi) -> URLPattern:
    if "<" not in path:
        return re_path(rf"^{re.escape(path.strip('/'))}/?$", application)  # type: ignore[arg-type]
    paths = Paths({path: application})

    async def captured(scope: Any, receive: Any, send: Any) -> None:
        if (found := paths.find(path_in_site(scope))) is not None:
            found.enter(scope)
        await application(scope, receive, send)

    route = path.strip("/")
    converted = RoutePattern(route, is_endpoint=True).regex.pattern.removesuffix(r"\Z")
    return re_path(converted + r"/?\Z", captured)  # type: ignore[arg-type]


def _applications() -> tuple[dict[str, Asgi], Asgi]:
    """The ASGI applications by path, and that of the well-known path and all below it.

    Raises ImproperlyConfigured where no server of this site could work.
    """
    if not apps.is_installed("django_mcp"):
        raise ImproperlyConfigured(NOT_INSTALLED)
    registry.raise_broken()
    applications: dict[str, Asgi] = {}
    below: dict[str, Asgi] = {}
    by_path: dict[str, Authentication] = {}
    for server in registry.mountable():
        registry.configure(server)
        # One for all: its authenticators may cache keys and tokens.
        authentication = registry.authentication(server)
        by_path[authentication.resource.path] = authentication
        below |= health.below(authentication.resource.path)
        applications |= endpoints(server, authentication)
    every = {**applications, **well_known.behind(by_path)}
    # Not in place of a server that has such a path itself.
    every |= {path: each for path, each in below.items() if path not in every}
    return every, well_known.below(by_path)


def mount(django_application: Asgi) -> Asgi:
    """Return an ASGI application with every MCP server at its path, and Django elsewhere.

    It also handles the lifespan messages of the ASGI server, and passes them on, unless the
    application rejects them as Django's does. It ends open streams properly, and finishes running
    calls, when the process is told to stop.
    """
    applications, metadata = _applications()
    paths = Paths(applications)
    django = _below_prefix(django_application)
    mounted: dict[str, Asgi] = {}
    """What is at plain paths; empty before the first request, and while the process stops."""

    def watch() -> None:
        _prepare_process(stop)
        mounted.update({"": django, **paths.plain})

    def stop(asgi_server: AsgiServer | None) -> asyncio.Future[None]:
        mounted.clear()
        return _begin_to_stop(asgi_server)

    def find(scope: Any) -> Asgi:
        path = path_in_site(scope)
        if f"{path}/".startswith(f"{WELL_KNOWN}/") and path not in paths.plain:
            return metadata
        found = paths.find(path)
        if found is None:
            return django
        found.enter(scope)
        return found.value

    def look_up(scope: Any) -> Asgi:
        found = find(scope)
        if not mounted:
            if _is_stopping():
                return _closing(found)
            watch()
        return found

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            endpoint = mounted.get(scope["path"]) or look_up(scope)
            await endpoint(scope, receive, send)
        elif scope["type"] == "lifespan":
            watch()
            await _lifespan(WrappedLifespan(django_application, scope), receive, send)
        else:
            await django(scope, receive, send)

    return application


def _below_prefix(django_application: Asgi) -> Asgi:
    """Return Django's application, which gets the path with the prefix of the site."""

    async def django(scope: Any, receive: Any, send: Any) -> None:
        await django_application(with_prefix(scope), receive, send)

    return django


def _prepare_process(stop: stop_signals.Begin) -> None:
    """Prepare the process to serve: at its first message, since daphne sets its signal handlers
    after it has imported the application."""
    stop_signals.watch(stop)
    garbage_collector.freeze()


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


async def _start_all() -> None:
    # The same event loop may have stopped before, as in a test.
    shutdown.here(asyncio.get_running_loop()).withdraw()
    for server in registry.servers():
        await lifespan.start(server)


async def _stop_all() -> None:
    await asyncio.shield(shutdown.here(asyncio.get_running_loop()).begin())
    await lifespan.stop_all()
    await bus.here().close()


def _is_stopping() -> bool:
    return shutdown.here(asyncio.get_running_loop()).has_begun


def _begin_to_stop(asgi_server: AsgiServer | None) -> asyncio.Future[None]:
    ending = shutdown.here(asyncio.get_running_loop()).begin()
    return ending if asgi_server is None else background.create_task(_stop(asgi_server, ending))


async def _stop(asgi_server: AsgiServer, ending: asyncio.Future[None]) -> None:
    """Prepare for the signal an ASGI server that is told of it afterwards."""
    await asgi_server.close_listeners()
    await asyncio.sleep(asgi_servers.ARRIVE_WITHIN)
    if not asgi_server.finishes_requests:
        await asyncio.shield(ending)
        await asgi_server.wait_for_requests(conf.get().shutdown_timeout)
        await lifespan.stop_all()


def _closing(application: Asgi) -> Asgi:
    """The application of a process that stops: clients open their next connection to another.

    Versions after HTTP/1 have no such header (RFC 9113, section 8.2.2).
    """

    async def closing(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_close(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        is_first = scope.get("http_version", "1.1").startswith("1")
        await application(scope, receive, send_and_close if is_first else send)

    return closing
