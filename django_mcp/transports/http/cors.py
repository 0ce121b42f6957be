"""Cross-origin requests of web pages: preflights, and the headers which let a page read a response.

An Origin was checked before (``request.check_host``). Cookies are not allowed: a page of
another origin authenticates by a token.
"""

from __future__ import annotations

import re
from typing import Any

from django_mcp.core.protocol.headers import RequestHeaders
from django_mcp.transports.http.request import Send

ALLOWED_HEADERS = (
    b"authorization, content-type, accept, mcp-protocol-version, mcp-session-id, mcp-method, "
    b"mcp-name, last-event-id"
)
MAX_REQUESTED = 2_000
"""Bytes of ``Access-Control-Request-Headers`` which are read."""
EXPOSED_HEADERS = b"WWW-Authenticate, Mcp-Session-Id, Retry-After"
MAX_AGE = b"3600"
"""Seconds that a browser may cache a preflight."""


def allowing(origin: bytes, send: Send) -> Send:
    """Return ``send``, with headers which let a page of ``origin`` read the response."""
    headers = (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", EXPOSED_HEADERS),
        (b"vary", b"origin"),
    )

    async def send_allowed(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return send_allowed


async def preflight(request_headers: RequestHeaders, send: Send, methods: bytes) -> None:
    """Answer an OPTIONS request. It has no credentials, so that none are asked for."""
    requested = request_headers.get(b"access-control-request-headers") or b""
    # The names of tool parameters are the site's.
    names = map(bytes.strip, requested[:MAX_REQUESTED].lower().split(b","))
    parameters = filter(PARAMETER.fullmatch, names)
    headers = [
        (b"access-control-allow-methods", methods),
        (b"access-control-allow-headers", b", ".join([ALLOWED_HEADERS, *parameters])),
        (b"access-control-max-age", MAX_AGE),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


PARAMETER = re.compile(rb"mcp-param-[a-z0-9-]+")
