"""Cross-origin requests of web pages to the endpoints for clients.

The origins are the ones that MCP servers accept: of ALLOWED_HOSTS and ALLOWED_ORIGINS.
Cookies are not allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from django_mcp import conf
from django_mcp.core.protocol import origins

View = Callable[..., HttpResponseBase]

ALLOWED_HEADERS = "Authorization, Content-Type, Accept, MCP-Protocol-Version"
MAX_AGE = "3600"
"""Seconds that a browser may cache a preflight."""


def cross_origin(methods: str) -> Callable[[View], View]:
    """Return a decorator: it answers preflights, and lets pages of these origins read responses."""

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            is_preflight = request.method == "OPTIONS"
            response = HttpResponse(status=204) if is_preflight else view(request, *args, **kwargs)
            origin = request.headers.get("Origin")
            if origin is not None and is_allowed(request, origin):
                response["Access-Control-Allow-Origin"] = origin
                if is_preflight:
                    response["Access-Control-Allow-Methods"] = methods
                    response["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
                    response["Access-Control-Max-Age"] = MAX_AGE
            patch_vary_headers(response, ["Origin"])
            return response

        return wrapped

    return decorate


def is_allowed(request: HttpRequest, origin: str) -> bool:
    """Whether pages of ``origin`` may read answers of the endpoints."""
    return origins.allows(
        origin,
        host=request.get_host(),
        scheme=request.scheme or "http",
        allowed_hosts=settings.ALLOWED_HOSTS,
        allowed_origins=conf.get().allowed_origins,
    )
