"""The metadata of a server as a protected resource (RFC 9728), at its well-known paths.

Clients look at three: the well-known path before that of the endpoint, the same behind it, and the
well-known path alone. A server which accepts no access tokens answers 404 as JSON at all of them:
an HTML page makes clients fail, and a document would make them start a login.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import WELL_KNOWN
from django_mcp.protocol import jsonrpc
from django_mcp.transports.http import cors
from django_mcp.transports.http.request import HttpError, HttpRequest
from django_mcp.transports.http.response import JSON_HEADERS

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

METHODS = b"GET, HEAD, OPTIONS"
NOT_FOUND = {"error": "not_found", "error_description": "No access tokens are accepted here"}


def applications(by_path: Mapping[str, Authentication]) -> dict[str, Asgi]:
    """Return the ASGI applications of the metadata by path, for servers by the paths of theirs.

    The path without an endpoint is answered for the only server which accepts access tokens, or
    for the first of several.
    """
    found: dict[str, Asgi] = {}
    for path, authentication in by_path.items():
        application = metadata(authentication)
        # An endpoint at the root has no path of its own.
        found[f"{WELL_KNOWN}{path}".rstrip("/")] = application
        found[f"{path.rstrip('/')}{WELL_KNOWN}"] = application
    found[WELL_KNOWN] = metadata(*by_path.values())
    return found


def metadata(*authentications: Authentication) -> Asgi:
    """Return the ASGI application which serves the metadata of the first with an issuer."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        request = HttpRequest(scope, receive)
        try:
            request.check_origin()
        except HttpError as error:
            await _respond(send, scope, error.status, {"error": error.message})
            return
        origin = request.headers.get(b"origin")
        if origin is not None:
            send = cors.allowing(origin, send)
        if scope["method"] == "OPTIONS":
            await cors.preflight(request, send, b"GET")
        elif scope["method"] not in ("GET", "HEAD"):
            await _respond(send, scope, 405, {"error": "Use GET"}, (b"allow", METHODS))
        else:
            document = _document(authentications, scope)
            await _respond(send, scope, 200 if document else 404, document or NOT_FOUND)

    return application


def _document(authentications: tuple[Authentication, ...], scope: Any) -> dict[str, Any] | None:
    for authentication in authentications:
        issuers = authentication.issuers(scope)
        if issuers:
            return authentication.resource.metadata(scope, issuers)
    return None


async def _respond(
    send: Any, scope: Any, status: int, content: dict[str, Any], *headers: tuple[bytes, bytes]
) -> None:
    body = jsonrpc.encode(content)
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [*JSON_HEADERS, length, *headers]})
    sent = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent})
