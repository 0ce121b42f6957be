"""An HTTP request as an ASGI server passes it, and its checks: Host, Origin, media types, size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.utils.functional import SimpleLazyObject

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.auth.django_session import browser_session
from django_mcp.frame.transport import HttpTransport
from django_mcp.protocol import origins
from django_mcp.protocol.headers import PROTOCOL_VERSION, RequestHeaders
from django_mcp.transports.frames import RequestOrigin

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
HeaderPairs = Sequence[tuple[bytes, bytes]]

MAX_ORIGIN_LENGTH = 300
"""Bytes of a Host or an Origin. A DNS name has at most 253; longer values are not cached."""
LOCAL_HOSTS = (".localhost", "127.0.0.1", "[::1]")
"""The hosts which Django serves under DEBUG if ALLOWED_HOSTS is empty."""


class HttpError(Exception):
    """The HTTP request is rejected with a status, a message and headers."""

    def __init__(self, status: int, message: str, headers: HeaderPairs = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class HttpRequest:
    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.headers = RequestHeaders(scope["headers"])

    def header(self, name: bytes) -> str | None:
        """The trimmed value of a header; ``name`` is in lower case."""
        value = self.headers.get(name)
        return None if value is None else _text(value)

    @property
    def version(self) -> str | None:
        return self.header(PROTOCOL_VERSION)

    def check_origin(self) -> None:
        """Reject requests from pages of other sites, also after DNS rebinding (HTTP-02)."""
        host, origin = self.headers.get(b"host", b""), self.headers.get(b"origin")
        if len(host) > MAX_ORIGIN_LENGTH or len(origin or b"") > MAX_ORIGIN_LENGTH:
            raise HttpError(403, "The Host or the Origin is too long")
        if error := _origin_error(host, origin, self.scope.get("scheme", "http")):
            raise HttpError(403, error)

    def check_media_types(self) -> bool:
        """Reject other media types than JSON; return whether the client accepts a stream."""
        content_type = self.headers.get(b"content-type") or b""
        if content_type != JSON and content_type.partition(b";")[0].strip().lower() != JSON:
            raise HttpError(415, "Send JSON: Content-Type: application/json")
        accept = self.headers.get(b"accept") or b"*/*"
        if accept == USUAL_ACCEPT:
            return True
        if not any(kind in accept for kind in ACCEPTABLE):
            raise HttpError(406, "Accept application/json and text/event-stream")
        return STREAM in accept or b"*/*" in accept

    def check_accepts_stream(self) -> None:
        accept = self.headers.get(b"accept") or b""
        if not any(kind in accept for kind in (STREAM, b"text/*", b"*/*")):
            raise HttpError(406, "Accept text/event-stream")

    async def body(self, limit: int) -> bytes:
        """The body; raises HttpError if it is longer than ``limit`` bytes."""
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body = await self._rest(body, limit)
        if len(body) > limit:
            raise HttpError(413, f"A message may have at most {limit} bytes")
        return body

    async def _rest(self, first: bytes, limit: int) -> bytes:
        parts, size, more = [first], len(first), True
        while more and size <= limit:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise asyncio.CancelledError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
        return b"".join(parts)

    def caller(self, principal: Principal) -> RequestOrigin:
        """The origin of the request. Its Django session, if any, is loaded on first access."""
        scope, session = self.scope, None
        if self.headers.get(b"cookie") is not None or "session" in scope:
            session = SimpleLazyObject(lambda: browser_session(scope))
        return RequestOrigin(principal, ScopeTransport(scope), session)


JSON = b"application/json"
STREAM = b"text/event-stream"
USUAL_ACCEPT = b"application/json, text/event-stream"
ACCEPTABLE = (JSON, b"application/*", b"*/*")


@lru_cache(maxsize=1024)
def _origin_error(host: bytes, origin: bytes | None, scheme: str) -> str | None:
    """The error for a Host and an Origin, or None. A site receives few different ones."""
    hostname = _text(host)
    default_hosts = LOCAL_HOSTS if django_settings.DEBUG else ()
    allowed_hosts = tuple(django_settings.ALLOWED_HOSTS) or default_hosts
    if not origins.host_allowed(hostname, allowed_hosts):
        return "This Host is not served here: see ALLOWED_HOSTS"
    if not origins.allows(
        None if origin is None else _text(origin),
        host=hostname,
        scheme=scheme,
        allowed_hosts=allowed_hosts,
        allowed_origins=conf.get().allowed_origins,
    ):
        return "This Origin may not talk to this server: see ALLOWED_ORIGINS"
    return None


def _text(value: bytes) -> str:
    return value.strip(b" \t").decode("latin-1")


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
    if colon and port.isdigit():
        return host, int(port)
    return header, 443 if scope.get("scheme") == "https" else 80


FIELDS: Mapping[str, Callable[[Scope], Any]] = {
    "req_headers": _req_headers,
    "query_params": _query_params,
    "remote_ip": lambda scope: (scope.get("client") or (None,))[0],
    "scheme": lambda scope: str(scope.get("scheme", "http")),
    "host": lambda scope: _host_and_port(scope)[0],
    "port": lambda scope: _host_and_port(scope)[1],
    "request_path": lambda scope: str(scope["path"]),
    "type": lambda _: "http",
}
