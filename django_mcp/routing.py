"""Channels URL patterns for the registered servers, and one line to mount them.

In ``asgi.py``: ``application = mount(get_asgi_application())``.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.urls import URLPattern, re_path

from django_mcp import conf, registry
from django_mcp.runtime import lifespan
from django_mcp.server.server import Server
from django_mcp.transports.http import http_sse, sse_stream
from django_mcp.transports.http.consumer import StreamableHttpConsumer
from django_mcp.transports.http.http_sse import HttpSseConsumer

logger = logging.getLogger("django_mcp")

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def endpoint(server: Server) -> Asgi:
    """The ASGI application which answers for ``server``.

    Raises ImproperlyConfigured when nobody was named who tells who calls.
    """
    registry.configure(server)
    consumer: Asgi = StreamableHttpConsumer.as_asgi(
        server=server, authenticators=registry.authenticators(server)
    )
    return consumer


def endpoints(server: Server) -> dict[str, Asgi]:
    """The ASGI applications which answer for ``server``, by path.

    There is one, and with HTTP_SSE beside it the two of the first revision.
    """
    path = "/" + server.path.strip("/")
    found = {path: endpoint(server)}
    if conf.get().http_sse:
        facts = {"server": server, "authenticators": registry.authenticators(server)}
        for name in http_sse.VERBS:
            found[f"{path.rstrip('/')}/{name}"] = HttpSseConsumer.as_asgi(endpoint=name, **facts)
    return found


def urlpatterns() -> list[URLPattern]:
    """Patterns of every server's endpoints, for a URLRouter of your own."""
    return [
        re_path(rf"^{path.strip('/')}/?$", application)  # type: ignore[arg-type]
        for server in registry.mountable()
        for path, application in endpoints(server).items()
    ]


def mount(django_application: Asgi) -> Asgi:
    """An ASGI application: every MCP server at its path, the Django application elsewhere.

    It also answers the server's lifespan messages, which Django's own application refuses, and
    ends open streams properly when the server is told to stop.
    """
    mounted = {
        path: application
        for server in registry.mountable()
        for path, application in endpoints(server).items()
    }

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            answer = mounted.get(path) or mounted.get(path.rstrip("/"))
            await (answer or django_application)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await django_application(scope, receive, send)

    return application


async def _lifespan(receive: Any, send: Any) -> None:
    """Start the servers, without any of which nothing is served, and stop them."""
    while True:
        message = await receive()
        try:
            await STEPS[message["type"]]()
        except Exception as error:
            logger.exception("An MCP server could not be started")
            await send({"type": f"{message['type']}.failed", "message": repr(error)})
            return
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _end_streams_on_signals() -> None:
    """End open streams when the process is told to stop, before the server does what it does then.

    Servers wait until every response has ended before they send ``lifespan.shutdown``, and a
    stream would keep them waiting for as long as its client stays.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, _then(before, loop))


def _then(before: Callable[[int, Any], Any], loop: asyncio.AbstractEventLoop) -> Any:
    """A signal handler which ends the streams of ``loop`` and does what was done before."""

    def handle(number: int, frame: Any) -> Any:
        if not loop.is_closed():
            loop.call_soon_threadsafe(sse_stream.end_all)
        return before(number, frame)

    return handle


async def _start_all() -> None:
    _end_streams_on_signals()
    for server in registry.servers():
        await lifespan.start(server)


async def _stop_all() -> None:
    sse_stream.end_all()
    await lifespan.stop_all()


STEPS: Mapping[str, Callable[[], Awaitable[None]]] = {
    "lifespan.startup": _start_all,
    "lifespan.shutdown": _stop_all,
}
