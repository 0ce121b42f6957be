"""Applications and Channels URL patterns for the registered servers.

In ``wsgi.py``: ``application = mount(get_wsgi_application())``. In ``asgi.py``: ``application =
mount(get_asgi_application())``.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from functools import cache
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, overload

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.urls import URLPattern, re_path
from django.urls.resolvers import RoutePattern
from django.utils.autoreload import DJANGO_AUTORELOAD_ENV

from django_mcp import conf, registry
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import WELL_KNOWN, path_in_site, with_prefix
from django_mcp.core.server.server import Server, checked_server
from django_mcp.pubsub import bus, switches
from django_mcp.registry import Interface
from django_mcp.runtime import background, lifespan
from django_mcp.runtime.lifespan import WrappedLifespan
from django_mcp.runtime.process import asgi_servers, interpreter, stop_signals
from django_mcp.runtime.process.asgi_servers import AsgiServer
from django_mcp.transports import site
from django_mcp.transports.http import health, shutdown, well_known
from django_mcp.transports.http.endpoint import Endpoint
from django_mcp.transports.http.paths import Paths
from django_mcp.transports.http.request import WAITING_THREAD, Asgi

if TYPE_CHECKING:
    from django_mcp.transports.wsgi.event_loop import EventLoopThread

logger = logging.getLogger("django_mcp")

NOT_INSTALLED = (
    "django_mcp is not in INSTALLED_APPS, so that no mcp.py is imported and no server has "
    'components. Add "django_mcp" to INSTALLED_APPS, and run manage.py migrate.'
)
NEITHER = (
    "mount() takes the application of Django, and {!r} is neither an ASGI nor a WSGI application. "
    "In wsgi.py, write application = mount(get_wsgi_application()); in asgi.py, application = "
    "mount(get_asgi_application())."
)

Wsgi = Callable[[Any, Any], Iterable[bytes]]
"""A WSGI application."""
STOP_WITHIN = 5.0
"""Seconds besides SHUTDOWN_TIMEOUT for the servers of a WSGI process to stop."""


def endpoint(server: Server, authentication: Authentication | None = None) -> Asgi:
    """Return the ASGI application; raises ImproperlyConfigured without authenticators."""
    registry.configure(checked_server(server, "endpoint()"))
    return Endpoint(server, authentication or registry.authentication(server))


def endpoints(
    server: Server, authentication: Authentication | None = None, interface: Interface = "ASGI"
) -> dict[str, Asgi]:
    """Return the ASGI applications of ``server`` by path: one, with HTTP_SSE two more.

    A WSGI server cannot serve HTTP+SSE, because its streams stay open.
    """
    registry.configure(server)
    authentication = authentication or registry.authentication(server)
    registry.note_mounted(server, interface)
    path = authentication.resource.path
    applications: dict[str, Asgi] = {path: endpoint(server, authentication)}
    if conf.get().http_sse and interface == "ASGI":
        # Imported by the few sites that serve clients of the first revision: it takes 0.5 MB.
        from django_mcp.transports.http import http_sse

        for name in http_sse.VERBS:
            applications[f"{path.rstrip('/')}/{name}"] = http_sse.HttpSseEndpoint(
                server, authentication, name
            )
    return applications


def urlpatterns() -> list[URLPattern]:
    """Return the URL patterns of all endpoints and of their metadata, for a URLRouter."""
    applications, metadata = _applications("ASGI")
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
        endpoint_match = paths.find(path_in_site(scope))
        if endpoint_match is not None:
            endpoint_match.enter(scope)
        await application(scope, receive, send)

    route = path.strip("/")
    converted = RoutePattern(route, is_endpoint=True).regex.pattern.removesuffix(r"\Z")
    return re_path(converted + r"/?\Z", captured)  # type: ignore[arg-type]


def _applications(interface: Interface) -> tuple[dict[str, Asgi], Asgi]:
    """The ASGI applications by path, and one for the well-known path and all below it.

    Raises ImproperlyConfigured where no server of this site could work.
    """
    if not apps.is_installed("django_mcp"):
        raise ImproperlyConfigured(NOT_INSTALLED)
    interpreter.refuse_greenlets(interpreter.FOR_SERVERS)
    registry.raise_broken()
    applications: dict[str, Asgi] = {}
    below: dict[str, Asgi] = {}
    by_path: dict[str, Authentication] = {}
    authentications: dict[Server, Authentication] = {}
    for server in registry.mountable():
        registry.configure(server)
        # One object for all endpoints of the server: its authenticators may cache keys and tokens.
        authentication = registry.authentication(server)
        by_path[authentication.resource.path] = authentication
        authentications[server] = authentication
        below |= health.below(authentication.resource.path)
        applications |= endpoints(server, authentication, interface)
    published = [each for each in registry.published() if each in authentications]
    if published:
        # Imported by sites with a server for everybody.
        from django_mcp.transports.http import server_card

        below |= server_card.applications([(each, authentications[each]) for each in published])
    every = {**applications, **well_known.behind(by_path)}
    # Not in place of a server that has such a path itself.
    every |= {path: each for path, each in below.items() if path not in every}
    return every, well_known.below(by_path)


@overload
def mount(django_application: Asgi) -> Asgi: ...


@overload
def mount(django_application: Wsgi) -> Wsgi: ...


def mount(django_application: Any) -> Any:
    """Return an application with every MCP server at its path, and Django elsewhere.

    It is an ASGI or a WSGI application, as ``django_application`` is. When the process is told to
    stop, it ends open streams and finishes running calls.
    """
    mounts: dict[Interface, Callable[[Any], Any]] = {"ASGI": _mount_asgi, "WSGI": _mount_wsgi}
    return mounts[_interface_of(django_application)](django_application)


def _interface_of(application: Any) -> Interface:
    """The interface of an application; raises ImproperlyConfigured for anything else."""
    if isinstance(application, WSGIHandler):
        return "WSGI"
    call = getattr(application, "__call__", None)  # noqa: B004 - the method of the instance
    is_async = iscoroutinefunction(application) or iscoroutinefunction(call)
    if isinstance(application, ASGIHandler) or is_async:
        return "ASGI"
    is_wsgi = _takes(application, 2)
    if is_wsgi == _takes(application, 3):
        raise ImproperlyConfigured(NEITHER.format(application))
    return "WSGI" if is_wsgi else "ASGI"


def _takes(application: Any, arguments: int) -> bool:
    try:
        signature(application).bind(*range(arguments))
    except (TypeError, ValueError):
        return False
    return True


class _Endpoints:
    """The applications at the paths of MCP servers."""

    def __init__(self, interface: Interface) -> None:
        applications, self._metadata = _applications(interface)
        self._paths = Paths(applications)
        self.plain = self._paths.plain

    def find(self, scope: Any) -> Asgi | None:
        """Return the application of a path, and note the captured values in the scope."""
        path = path_in_site(scope)
        if f"{path}/".startswith(f"{WELL_KNOWN}/") and path not in self.plain:
            return self._metadata
        match = self._paths.find(path)
        if match is None:
            return None
        match.enter(scope)
        return match.value


def _mount_asgi(django_application: Asgi) -> Asgi:
    endpoints = _Endpoints("ASGI")
    mounted: dict[str, Asgi] = {}
    """The applications at plain paths; empty before the first request and during the stop."""

    async def django(scope: Any, receive: Any, send: Any) -> None:
        await django_application(with_prefix(scope), receive, send)

    def watch() -> None:
        _prepare_process(stop)
        mounted.update({"": django, **endpoints.plain})

    def stop(asgi_server: AsgiServer | None) -> asyncio.Future[None]:
        mounted.clear()
        return _begin_to_stop(asgi_server)

    def look_up(scope: Any) -> Asgi:
        application = endpoints.find(scope) or django
        if not mounted:
            if shutdown.here(asyncio.get_running_loop()).has_begun:
                return _closing(application)
            watch()
        return application

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


def _mount_wsgi(django_application: Wsgi) -> Wsgi:
    # Imported by sites under WSGI only.
    from django_mcp.transports.wsgi import bridge, environ, event_loop, waiting_thread

    endpoints = _Endpoints("WSGI")
    # Where only threads answer requests, this is the last code that runs in the main thread.
    _handle_signals()

    def application(variables: Any, start_response: Any) -> Iterable[bytes]:
        paths = environ.paths_of(variables)
        endpoint = endpoints.find(paths)
        if endpoint is None:
            return django_application(variables, start_response)
        scope = environ.scope_of(variables, paths)
        scope[WAITING_THREAD] = waiting_thread
        try:
            running = _prepared_loop(event_loop.current())
            body = environ.RequestBody(variables)
            request = bridge.Bridge(endpoint, scope, body, running)
            return request.respond(start_response)
        except event_loop.LoopEnded:
            return bridge.unavailable(start_response)

    return application


def _handle_signals() -> None:
    """Receive the signals to stop, if this is the thread that may: servers set their handlers
    before they import the application, or before they fork a process of it."""
    if threading.current_thread() is threading.main_thread():
        stop_signals.handle_signals()


@cache
def _prepared_loop(running: EventLoopThread) -> EventLoopThread:
    """Prepare the process at its first request: to be told to stop, and to exit."""
    interpreter.check_threads()
    running.call(_prepare_process, _begin_to_stop)
    _handle_signals()
    atexit.register(_stop_loop, running)
    return running


def _stop_loop(running: EventLoopThread) -> None:
    """Finish the work of the event loop when Python exits, such as tasks in this process."""
    # ``runserver`` ends its process after each change of a file.
    is_reloaded = os.environ.get(DJANGO_AUTORELOAD_ENV) == "true"
    if running.has_ended or is_reloaded:
        return
    stopping = asyncio.run_coroutine_threadsafe(_stop_all(), running.loop)
    try:
        stopping.result(conf.get().shutdown_timeout + STOP_WITHIN)
    except (CancelledError, TimeoutError):
        logger.warning("The MCP servers could not be stopped in time")
    except Exception:
        logger.exception("An MCP server could not be stopped")


def _prepare_process(stop: stop_signals.Begin) -> None:
    """Prepare the process to serve: at its first message, since daphne sets its signal handlers
    after it has imported the application."""
    stop_signals.watch(stop)
    switches.follow()
    interpreter.freeze()


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
            # The same event loop may have stopped before, as in a test.
            shutdown.here(asyncio.get_running_loop()).withdraw()
            for server in registry.servers():
                await site.start(server)
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


async def _stop_all() -> None:
    await asyncio.shield(shutdown.here(asyncio.get_running_loop()).begin())
    await lifespan.stop_all()
    await bus.here().close()


def _begin_to_stop(asgi_server: AsgiServer | None) -> asyncio.Future[None]:
    ending = shutdown.here(asyncio.get_running_loop()).begin()
    return ending if asgi_server is None else background.create_task(_stop(asgi_server, ending))


async def _stop(asgi_server: AsgiServer, ending: asyncio.Future[None]) -> None:
    """Prepare an ASGI server to stop, before it receives the signal itself."""
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
