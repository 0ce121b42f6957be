"""The metadata of a server as a protected resource (RFC 9728), at its well-known paths.

Clients look at three: the well-known path before the endpoint's, the same behind it, and the
well-known path alone. A server which accepts no access tokens answers 404 as JSON at all of them:
an HTML page makes clients fail, and a document would make them start a login.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import WELL_KNOWN, base_url
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidRequest
from django_mcp.core.protocol.headers import RequestHeaders
from django_mcp.transports.http import cors, paths
from django_mcp.transports.http.exchange import JSON_HEADERS
from django_mcp.transports.http.paths import Paths
from django_mcp.transports.http.request import Asgi, HttpError, check_host

Find = Callable[[Any], Sequence[Authentication]]
"""Returns the servers whose metadata a request asks for: the first with an issuer has one."""

METHODS = b"GET, HEAD, OPTIONS"
NOT_FOUND = {"error": "not_found", "error_description": "No access tokens are accepted here"}


def behind(by_path: Mapping[str, Authentication]) -> dict[str, Asgi]:
    """Return the ASGI applications of the metadata behind the paths of the endpoints."""
    return {
        f"{path}{WELL_KNOWN}": _serve(_only(authentication))
        for path, authentication in by_path.items()
        if path != "/"  # It is below the well-known path already.
    }


def below(by_path: Mapping[str, Authentication]) -> Asgi:
    """Return the ASGI application of the well-known path and of all paths below it.

    The path alone belongs to an endpoint at the root; without one, it is answered for the first
    server which accepts access tokens.
    """
    servers = tuple(by_path.values())
    endpoints = Paths(by_path)

    def find(scope: Any) -> Sequence[Authentication]:
        path = scope["path"].partition(WELL_KNOWN)[2].rstrip("/")
        if not path:
            return (by_path["/"],) if "/" in by_path else servers
        # The URL of the endpoint may have a path in front which is not part of the request's.
        prefix = urlsplit(base_url(scope)).path
        inner = path[len(prefix) :] if prefix and f"{path}/".startswith(f"{prefix}/") else path
        endpoint = endpoints.find(inner or "/") or endpoints.find(path)
        if endpoint is None:
            return ()
        endpoint.enter(scope)
        return (endpoint.value,)

    return _serve(find)


def _only(authentication: Authentication) -> Find:
    def find(scope: Any) -> Sequence[Authentication]:
        paths.leave(scope, WELL_KNOWN)
        return (authentication,)

    return find


def _serve(find: Find) -> Asgi:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = RequestHeaders.of(scope["headers"])
        try:
            check_host(headers, scope, headers.get(b"origin"))
        except HttpError as error:
            await _respond(send, scope, error.status, {"error": error.message})
            return
        except InvalidRequest as error:
            await _respond(send, scope, 400, {"error": error.message})
            return
        origin = headers.get(b"origin")
        if origin is not None:
            send = cors.allowing(origin, send)
        if scope["method"] == "OPTIONS":
            await cors.preflight(headers, send, b"GET")
        elif scope["method"] not in ("GET", "HEAD"):
            content = {"error": "Method not allowed: use GET"}
            await _respond(send, scope, 405, content, (b"allow", METHODS))
        else:
            document = _document(find(scope), scope)
            await _respond(send, scope, 200 if document else 404, document or NOT_FOUND)

    return application


def _document(authentications: Sequence[Authentication], scope: Any) -> dict[str, Any] | None:
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
