"""Channels URL patterns for the registered servers, and one line to mount them.

In ``asgi.py``: ``application = mount(get_asgi_application())``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.urls import URLPattern, re_path

from django_mcp import registry
from django_mcp.server import Server
from django_mcp.transports.streamable_http import StreamableHttpConsumer

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


def urlpatterns() -> list[URLPattern]:
    """Patterns of every server's endpoint, for a URLRouter of your own."""
    return [
        re_path(rf"^{server.path.strip('/')}/?$", endpoint(server))  # type: ignore[arg-type]
        for server in registry.mountable()
    ]


def mount(django_application: Asgi) -> Asgi:
    """An ASGI application: every MCP server at its path, the Django application elsewhere.

    It also answers the server's lifespan messages, which Django's own application refuses.
    """
    endpoints: Mapping[str, Asgi] = {
        "/" + server.path.strip("/"): endpoint(server) for server in registry.mountable()
    }

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        path = scope.get("path", "")
        found = endpoints.get(path) or endpoints.get(path.rstrip("/"))
        use = found if found is not None and scope["type"] == "http" else django_application
        await use(scope, receive, send)

    return application


async def _lifespan(receive: Any, send: Any) -> None:
    """Acknowledge start and stop."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
