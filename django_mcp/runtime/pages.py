"""What the pages of the package for users have in common: protection, and their URLs."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_protect

from django_mcp import conf
from django_mcp.auth.resource import base_url
from django_mcp.frame.transport import HttpTransport, Transport

SECURITY_POLICY = "frame-ancestors 'none'; base-uri 'none'"
"""No ``form-action``: browsers apply it to the redirect, whose scheme may be a program's own."""


@method_decorator([xframe_options_deny, csrf_protect], name="dispatch")
class ProtectedPage:
    """A page which no other site may show in a frame or post to, and which is not cached."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        response.headers["Content-Security-Policy"] = SECURITY_POLICY
        response.headers["Referrer-Policy"] = "same-origin"
        add_never_cache_headers(response)
        return response


def absolute_url(transport: Transport | None, view: str, **kwargs: str) -> str:
    """Return the URL of a page of the site, for the client whose message ``transport`` brought.

    Raises NoReverseMatch, and ImproperlyConfigured where neither BASE_URL nor a request over HTTP
    says at which host the site is.
    """
    path = reverse(view, kwargs=kwargs)[len(get_script_prefix()) :]
    return f"{_base_url(transport)}/{path}"


def _base_url(transport: Transport | None) -> str:
    if isinstance(transport, HttpTransport):
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in transport.req_headers
        ]
        return base_url({"headers": headers, "scheme": transport.scheme})
    configured = conf.get().base_url
    if configured is None:
        raise ImproperlyConfigured(
            'A URL is sent to a client that does not use HTTP: set DJANGO_MCP["BASE_URL"] to the '
            "public URL of the site."
        )
    return configured
