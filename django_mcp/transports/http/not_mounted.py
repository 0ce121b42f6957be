"""The page of a request for an MCP server that reached Django instead, under DEBUG."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.html import format_html
from django.views import debug

from django_mcp import registry
from django_mcp.transports.http.paths import Paths

logger = logging.getLogger("django_mcp")

NOT_MOUNTED = (
    "This is the path of the MCP server {name!r}, but the request reached Django: the ASGI "
    "application does not mount the server. In asgi.py, write: from django_mcp.routing import "
    "mount, and application = mount(get_asgi_application())."
)
WSGI = (
    "This is the path of the MCP server {name!r}, but a WSGI server has answered, which cannot "
    "serve MCP. Run an ASGI server, such as: daphne mysite.asgi:application. For runserver, put "
    '"daphne" at the top of INSTALLED_APPS and set ASGI_APPLICATION.'
)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>MCP server not mounted</title>
<body style="font: 16px/1.5 sans-serif; max-width: 46rem; margin: 3rem auto">
<h1>404: MCP server not mounted</h1><p>{}</p>
<p>You see this page because <code>DEBUG</code> is True.</p></body></html>"""


def install() -> None:
    """Answer such requests with the remedy instead of Django's technical 404 page.

    Django has no setting for that page. It is called only under DEBUG, and only for a 404.
    """
    if getattr(debug.technical_404_response, "knows_mcp", False):
        return
    replaced: Any = _with_remedy(debug.technical_404_response)
    replaced.knows_mcp = True
    debug.technical_404_response = replaced


def _with_remedy(original: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @wraps(original)
    def respond(request: HttpRequest, exception: Exception) -> HttpResponse:
        name = _server_at(request.path_info)
        return original(request, exception) if name is None else _explained(request, name)

    return respond


def _server_at(path: str) -> str | None:
    served = {"/" + registry.path(each).strip("/"): each.name for each in registry.servers()}
    found = Paths(served).find(path)
    return None if found is None else found.value


def _explained(request: HttpRequest, name: str) -> HttpResponse:
    text = (NOT_MOUNTED if isinstance(request, ASGIRequest) else WSGI).format(name=name)
    logger.warning(text)
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        return HttpResponse(format_html(PAGE, text), status=404)
    error = {"jsonrpc": "2.0", "error": {"code": -32600, "message": text}}
    return JsonResponse(error, status=404)
