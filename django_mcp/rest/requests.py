"""The request with which a tool calls its view: a Django request in the name of the caller.

Nothing of the caller's own HTTP request is passed on, except the host for absolute URLs and the
IP address for throttles. Credentials do not reach the view: the caller is set.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.files.uploadedfile import UploadedFile
from django.core.handlers.asgi import ASGIRequest
from django.urls import ResolverMatch
from rest_framework.renderers import MultiPartRenderer

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.frame.frame import Frame
from django_mcp.frame.transport import HttpTransport
from django_mcp.rest.operations import force_user

JSON = "application/json"
ACCEPT = f"{JSON}, */*;q=0.1"


class ToolRequest(ASGIRequest):
    """A request that a tool makes. ``mcp_frame`` is the Frame of the call."""

    mcp_frame: Frame
    mcp_response: Any = None


class CallerAuth:
    """``request.auth`` of a view: what the access token of the caller allows.

    Its attributes are those by which permission classes read access tokens.
    """

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.scopes = principal.scopes
        self.claims = principal.claims

    @property
    def scope(self) -> str:
        """The scopes, separated by spaces."""
        return " ".join(sorted(self.scopes))

    def allow_scopes(self, scopes: Any) -> bool:
        """Return whether the token has all of ``scopes``."""
        return set(scopes) <= self.scopes

    is_valid = allow_scopes

    def is_expired(self) -> bool:
        """Return False: the authenticator of the server rejects an expired token."""
        return False


def build(
    method: str,
    path: str,
    match: ResolverMatch,
    frame: Frame,
    *,
    query: str = "",
    accept: str = ACCEPT,
    content_type: str = "",
    body: bytes = b"",
) -> ToolRequest:
    """Return the request of a call."""
    headers = {"host": host_of(frame), "accept": accept}
    if content_type:
        headers |= {"content-type": content_type, "content-length": str(len(body))}
    scope: Any = {
        "type": "http",
        "http_version": "1.1",
        "method": method.upper(),
        "scheme": scheme_of(frame),
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": (address_of(frame), 0),
    }
    request = ToolRequest(scope, io.BytesIO(body))
    request.resolver_match = match
    request.mcp_frame = frame
    # No browser sends this request: there is nothing to forge.
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    set_caller(request, frame)
    return request


def set_caller(request: Any, frame: Frame) -> None:
    """Set the user of the Frame, as AuthenticationMiddleware and an authenticator would do."""
    user = AnonymousUser() if frame.user is None else frame.user
    force_user(request, user, None if frame.auth is None else CallerAuth(frame.auth))

    async def auser() -> Any:
        return user

    request.auser = auser


def encode_json(data: Any) -> bytes:
    return json.dumps(data).encode()


def encode_multipart(data: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the content type and the body of a form with files."""
    renderer = MultiPartRenderer()
    kept = {name: _part(value) for name, value in data.items() if value is not None}
    return str(renderer.media_type), renderer.render(kept)


def _part(value: Any) -> Any:
    is_text = isinstance(value, bool)
    return value if isinstance(value, UploadedFile) or not is_text else str(value).lower()


def host_of(frame: Frame) -> str:
    """Return the host for absolute URLs: of BASE_URL, of the caller's request, or of the site."""
    if base := conf.get().base_url:
        return urlsplit(base).netloc
    transport = frame.transport
    if isinstance(transport, HttpTransport) and transport.host:
        is_default = transport.port == DEFAULT_PORTS.get(transport.scheme)
        return transport.host if is_default else f"{transport.host}:{transport.port}"
    named = (host.lstrip(".") for host in settings.ALLOWED_HOSTS if "*" not in host)
    return next(named, "localhost")


DEFAULT_PORTS = {"http": 80, "https": 443}


def scheme_of(frame: Frame) -> str:
    if base := conf.get().base_url:
        return urlsplit(base).scheme
    return frame.transport.scheme if isinstance(frame.transport, HttpTransport) else "http"


def address_of(frame: Frame) -> str:
    """Return the IP address by which throttles count anonymous callers."""
    transport = frame.transport
    remote = transport.remote_ip if isinstance(transport, HttpTransport) else None
    return remote or "127.0.0.1"
