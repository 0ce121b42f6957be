"""Facts of an HTTP request as an ASGI server passes it: its host, its media types, its scope."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from django.core.handlers.asgi import ASGIRequest
from django.core.signals import setting_changed

from django_mcp import conf
from django_mcp.auth.resource import request_origin
from django_mcp.core.frame.transport import HttpTransport
from django_mcp.core.protocol import origins
from django_mcp.core.protocol.headers import RequestHeaders, trimmed
from django_mcp.core.protocol.limits import natural
from django_mcp.runtime.django_types import requests as django_requests

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""
HeaderPairs = Sequence[tuple[bytes, bytes]]

WAITING_THREAD = "django_mcp.waiting_thread"
"""The key of ``wsgi.waiting_thread`` in the scope of a request for which a thread of its server
waits, and may run its handler."""

MAX_ORIGIN_LENGTH = 300
"""Bytes of a Host or an Origin. A DNS name has at most 253; longer values are not cached."""
SINGLE_VALUED = (b"host", b"origin", b"authorization", b"content-type", b"sec-fetch-site")
"""Headers for the checks before the body. One with two values is rejected, because
a gateway may have checked the other value."""


class HttpError(Exception):
    """The HTTP request is rejected with a status, a message and headers."""

    def __init__(self, status: int, message: str, headers: HeaderPairs = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class ClientDisconnected(Exception):
    """The client has disconnected before its message was complete."""


def check_host(headers: RequestHeaders, scope: Scope, origin: bytes | None = None) -> None:
    """Reject a request for another host, also after DNS rebinding (HTTP-02).

    With ``origin``, the value of the header, requests from pages of other sites are rejected as
    well: the site's own origin is the one that browsers have, also behind a proxy. Pages of all
    origins may read some responses, which pass none. Raises HttpError, and InvalidRequest for a
    header with different values.
    """
    if headers.conflicting:
        for name in SINGLE_VALUED:
            headers.text(name)
    host = headers.get(b"host", b"")
    if len(host) > MAX_ORIGIN_LENGTH or (origin and len(origin) > MAX_ORIGIN_LENGTH):
        raise HttpError(403, "The Host or the Origin is too long")
    own_origin = "" if origin is None else request_origin(scope)
    error = _origin_error(host, origin, own_origin)
    if error is not None:
        raise HttpError(403, error)


def django_request(scope: Scope) -> ASGIRequest:
    """The request for functions of Django; raises HttpError for an invalid query string."""
    try:
        return django_requests.of_scope(scope)
    except UnicodeDecodeError:
        raise HttpError(400, "The query string is not valid UTF-8") from None


JSON = b"application/json"
STREAM = b"text/event-stream"
QUALITY_ZERO = re.compile(rb"q=0(\.0*)?")


def accepts(header: bytes, media_type: bytes) -> bool:
    """Whether an Accept header accepts a media type (RFC 9110, section 12.5.1).

    The most specific range that matches decides. A quality of zero excludes the type.
    """
    ranges: dict[bytes, bool] = {}
    for item in header.lower().split(b","):
        name, *parameters = map(bytes.strip, item.split(b";"))
        is_accepted = not any(map(QUALITY_ZERO.fullmatch, parameters))
        ranges[name] = is_accepted or ranges.get(name, False)
    for name in (media_type, media_type.partition(b"/")[0] + b"/*", b"*/*"):
        if name in ranges:
            return ranges[name]
    return False


@lru_cache(maxsize=1024)
def _origin_error(host: bytes, origin: bytes | None, own_origin: str) -> str | None:
    """The error for a Host and an Origin, or None. A site receives few different ones."""
    allowed_hosts = conf.allowed_hosts()
    if not origins.host_allowed(trimmed(host), allowed_hosts):
        return "Host not allowed: see ALLOWED_HOSTS"
    scheme, _, hostname = own_origin.partition("://")
    if not origins.allows(
        None if origin is None else trimmed(origin),
        host=hostname,
        scheme=scheme,
        allowed_hosts=allowed_hosts,
        allowed_origins=conf.get().allowed_origins,
    ):
        return "Origin not allowed: see ALLOWED_ORIGINS"
    return None


def _clear_cache(*, setting: str, **_: Any) -> None:
    if setting in {"ALLOWED_HOSTS", "DEBUG", "DJANGO_MCP"}:
        _origin_error.cache_clear()


setting_changed.connect(_clear_cache, dispatch_uid="django_mcp.http_request")


class ScopeTransport(HttpTransport):
    """The ASGI scope for a Frame, read on access: decoding it costs as much as the message."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        object.__setattr__(self, "_scope", scope)

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(name)
        return FIELDS[name](object.__getattribute__(self, "_scope"))


def _req_headers(scope: Scope) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


def _query_params(scope: Scope) -> dict[str, str]:
    query: bytes = scope.get("query_string", b"")
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))


def _host_and_port(scope: Scope) -> tuple[str, int]:
    header = dict(_req_headers(scope)).get("host", "")
    host, colon, port = header.rpartition(":")
    number = natural(port)
    if colon and number is not None:
        return host, number
    return header, 443 if scope.get("scheme") == "https" else 80


def _remote_ip(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


def _scheme(scope: Scope) -> str:
    return str(scope.get("scheme", "http"))


def _host(scope: Scope) -> str:
    return _host_and_port(scope)[0]


def _port(scope: Scope) -> int:
    return _host_and_port(scope)[1]


def _path_params(scope: Scope) -> Any:
    return scope.get("url_route", {}).get("kwargs")


FIELDS: Mapping[str, Callable[[Scope], Any]] = {
    "req_headers": _req_headers,
    "query_params": _query_params,
    "remote_ip": _remote_ip,
    "scheme": _scheme,
    "host": _host,
    "port": _port,
    "request_path": lambda scope: str(scope["path"]),
    "path_params": _path_params,
    "scope": lambda scope: scope,
    "type": lambda _: "http",
}
