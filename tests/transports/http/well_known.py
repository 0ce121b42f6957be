"""A site with the metadata of its servers."""

from __future__ import annotations

from typing import Any

import pytest
from channels.routing import URLRouter

from django_mcp import Server, registry, routing
from django_mcp.testing.asgi import Application, Reply, http_scope, perform


def site(monkeypatch: pytest.MonkeyPatch, how: str, *servers: Server) -> Application:
    """Return the application of a site with these servers."""
    monkeypatch.setattr(registry, "mountable", lambda: servers)
    if how == "urlpatterns":
        return URLRouter(routing.urlpatterns())  # type: ignore[arg-type]
    return routing.mount(pages)


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """The other pages of the site."""
    start = {"type": "http.response.start", "status": 404}
    await send({**start, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<h1>Not found</h1>"})


async def get(
    application: Application, path: str, method: str = "GET", *, root: str = "", **headers: str
) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {**http_scope(method, path, headers=named), "root_path": root}
    return await perform(application, scope)
