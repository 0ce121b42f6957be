"""An HTTP request as an ASGI server passes it, and its checks: Host, Origin, media types, size."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import parse_qsl

from django.core.signals import setting_changed
from django.utils.functional import SimpleLazyObject

from django_mcp import conf
from django_mcp.auth.authentication import Authentication, AuthenticationFailed
from django_mcp.auth.django_session import browser_session
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.core.frame.transport import HttpTransport, Transport
from django_mcp.core.protocol import origins
from django_mcp.core.protocol.errors import AuthenticationRequired
from django_mcp.core.protocol.headers import ACCEPT, RequestHeaders, trimmed
from django_mcp.core.protocol.revisions import Revision

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
BODY_TIMEOUT = 30.0
"""Seconds for the arrival of a request's body."""
SINGLE_VALUED = (b"host", b"origin", b"authorization", b"content-type", b"sec-fetch-site")
"""Headers for the checks before the body. One with two values is rejected, because
a gateway may have checked the other value."""
OTHER_SITES = frozenset({b"cross-site", b"same-site"})
"""Values of Sec-Fetch-Site for a request that a page of another site makes."""


class HttpError(Exception):
    """The HTTP request is rejected with a status, a message and headers."""

    def __init__(self, status: int, message: str, headers: HeaderPairs = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class ClientDisconnected(Exception):
    """The client has disconnected before its message was complete."""


class HttpRequest:
    """The headers and body of a client's request, and their checks."""

    authentication: Authentication
    content = b""
    """The body, from when it is read until it is parsed."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.headers = RequestHeaders.of(scope["headers"])

    async def authenticate(self) -> Principal:
        """The caller; raises HttpError with a challenge."""
        try:
            return await self.authentication.authenticate(self.scope)
        except AuthenticationFailed as failed:
            raise self.rejection(failed) from None

    def rejection(self, failed: AuthenticationFailed) -> HttpError:
        """The HTTP error, with its challenge, for a caller who could not be authenticated."""
        challenge = failed.challenge
        headers = self.authentication.headers(self.scope, challenge)
        return HttpError(challenge.status, challenge.message, headers)

    def challenge(self, error: AuthenticationRequired, revision: Revision) -> HeaderPairs:
        """The headers of a response with ``error``, which name the rights that the caller needs."""
        status = revision.http_status(error)
        name = error.reason if status == 403 else ""
        challenge = Challenge(status=status, message=error.message, error=name, scopes=error.scopes)
        return self.authentication.headers(self.scope, challenge)

    @property
    def occupies_thread(self) -> bool:
        """Whether a thread of the server waits for the response, as under WSGI."""
        return WAITING_THREAD in self.scope

    @property
    def may_stay_open(self) -> bool:
        """Whether the response may be a stream without an end of its own."""
        return not self.occupies_thread or conf.get().wsgi_streams > 0

    def check_may_stay_open(self) -> None:
        if not self.may_stay_open:
            message = "This server has no streams besides those of calls: poll instead"
            raise HttpError(405, message, ((b"allow", b"POST, DELETE"),))

    def check_host(self, origin: bytes | None = None) -> None:
        """Reject requests for another host, also after DNS rebinding (HTTP-02).

        With ``origin``, the value of the header, requests from pages of other sites are rejected as
        well. Pages of all origins may read some responses, which pass none. Raises HttpError, and
        InvalidRequest for a header with different values.
        """
        if self.headers.conflicting:
            for name in SINGLE_VALUED:
                self.headers.text(name)
        host = self.headers.get(b"host", b"")
        if len(host) > MAX_ORIGIN_LENGTH or (origin and len(origin) > MAX_ORIGIN_LENGTH):
            raise HttpError(403, "The Host or the Origin is too long")
        error = _origin_error(host, origin, self.scope.get("scheme", "http"))
        if error is not None:
            raise HttpError(403, error)

    def check_media_types(self) -> bool:
        """Return whether the client accepts a stream.

        Raises HttpError for a body that is not JSON, and for a client that does not accept JSON.
        """
        content_type = self.headers.get(b"content-type") or b""
        if content_type != JSON and content_type.partition(b";")[0].strip().lower() != JSON:
            raise HttpError(415, "Send JSON: Content-Type: application/json")
        accept = self.headers.get(ACCEPT) or b"*/*"
        if accept == USUAL_ACCEPT:
            return True
        if not accepts(accept, JSON):
            raise HttpError(406, "Accept application/json and text/event-stream")
        return accepts(accept, STREAM)

    def check_get(self) -> None:
        """Reject a GET which accepts no stream, or which a page of another site makes.

        For an image, a script or a link, a browser sends cookies, but no Origin.
        """
        headers = self.headers
        is_of_other_site = headers.get(b"sec-fetch-site") in OTHER_SITES
        has_cookie = headers.get(b"cookie") is not None
        if is_of_other_site and has_cookie and headers.get(b"origin") is None:
            raise HttpError(403, "A page of another site may not open a stream with cookies")
        if not accepts(headers.get(ACCEPT) or b"", STREAM):
            raise HttpError(406, "Accept text/event-stream")

    def body_timeout(self) -> HttpError:
        """The error for a client that has not sent its whole message in time."""
        # Versions other than 1 have no such header (RFC 9113, section 8.2.2).
        is_first_version = self.scope.get("http_version", "1.1").startswith("1")
        headers = ((b"connection", b"close"),) if is_first_version else ()
        return HttpError(408, f"Send the body within {BODY_TIMEOUT:g} s", headers)

    async def read_parts(self, message: Mapping[str, Any], limit: int) -> bytes:
        """The body, with ``message`` as its first part; ends early above ``limit``."""
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit or not message.get("more_body"):
                return b"".join(parts)
            message = await self.receive()

    @cached_property
    def transport(self) -> Transport | None:
        return ScopeTransport(self.scope)

    @cached_property
    def session(self) -> Any:
        """The Django session, if there is one. It is loaded on first access."""
        scope = self.scope
        if self.headers.get(b"cookie") is None and "session" not in scope:
            return None
        return SimpleLazyObject(lambda: browser_session(scope))


JSON = b"application/json"
STREAM = b"text/event-stream"
USUAL_ACCEPT = b"application/json, text/event-stream"
"""The value that most clients send; it is compared before anything is parsed."""
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
def _origin_error(host: bytes, origin: bytes | None, scheme: str) -> str | None:
    """The error for a Host and an Origin, or None. A site receives few different ones."""
    hostname = trimmed(host)
    allowed_hosts = conf.allowed_hosts()
    if not origins.host_allowed(hostname, allowed_hosts):
        return "Host not allowed: see ALLOWED_HOSTS"
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
    if colon and port.isdigit():
        return host, int(port)
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
