"""The cards of servers, and the AI catalogue of the site (SEP-2127): for everybody, and cached.

A card is behind the path of its endpoint, at ``/server-card``. The catalogue is at its well-known
path. Neither depends on the caller, so that any web page may read them, and caches store them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from django_mcp import conf
from django_mcp.auth.authentication import Authentication
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidRequest
from django_mcp.core.protocol.headers import RequestHeaders
from django_mcp.core.server import card
from django_mcp.core.server.server import Server
from django_mcp.transports.http import paths
from django_mcp.transports.http.request import Asgi, HttpError, check_host

CARD = "/server-card"
CATALOG = "/.well-known/ai-catalog.json"
MAX_AGE = b"max-age=3600"
"""Seconds for which clients and caches use a document without asking again."""
METHODS = b"GET, HEAD, OPTIONS"
CORS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", METHODS),
    (b"access-control-allow-headers", b"content-type, if-none-match"),
    (b"access-control-expose-headers", b"ETag"),
)
NO_CARD = {"error": "not_found", "error_description": "Nothing is published here"}

Document = Callable[[Any], "dict[str, Any] | None"]
"""Returns the document for the scope of a request, or None where there is none."""
Published = Sequence[tuple[Server, Authentication]]


def applications(published: Published) -> dict[str, Asgi]:
    """Return the ASGI applications of the cards, and that of the catalogue, by path."""
    cards = {
        f"{authentication.resource.path.rstrip('/')}{CARD}": _serve(
            card.CARD_TYPE, _card_of(server, authentication)
        )
        for server, authentication in published
    }
    return {**cards, CATALOG: _serve(card.CATALOG_TYPE, _catalog_of(published))}


def _card_of(server: Server, authentication: Authentication) -> Document:
    def read(scope: Any) -> dict[str, Any] | None:
        paths.leave(scope, CARD)
        if any(card.problems(server)):
            return None
        return card.describe(server, authentication.resource.url(scope))

    return read


def _catalog_of(published: Published) -> Document:
    def read(scope: Any) -> dict[str, Any] | None:
        # An endpoint whose path captures values is at as many URLs as there are values.
        urls = {
            authentication.resource.url(scope): server
            for server, authentication in published
            if "<" not in authentication.resource.path and not any(card.problems(server))
        }
        cards = {f"{url.rstrip('/')}{CARD}": (server, url) for url, server in urls.items()}
        return card.catalog(cards) if cards else None

    return read


def _serve(media_type: str, read: Document) -> Asgi:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = RequestHeaders.of(scope["headers"])
        try:
            check_host(headers, scope)
        except HttpError as error:
            await _refuse(send, scope, error.status, {"error": error.message})
            return
        except InvalidRequest as error:
            await _refuse(send, scope, 400, {"error": error.message})
            return
        if scope["method"] == "OPTIONS":
            await _send(send, scope, 204, b"", (b"access-control-max-age", b"3600"))
        elif scope["method"] not in ("GET", "HEAD"):
            content = {"error": "Method not allowed: use GET"}
            await _refuse(send, scope, 405, content, (b"allow", METHODS))
        elif (document := read(scope)) is None:
            await _refuse(send, scope, 404, NO_CARD)
        else:
            await _answer(send, scope, headers, media_type, jsonrpc.encode(document))

    return application


async def _answer(
    send: Any, scope: Any, headers: RequestHeaders, media_type: str, body: bytes
) -> None:
    """Send a document, or 304 to a client that has it (RFC 9110, section 13.1.2)."""
    etag = b'"%s"' % sha256(body).hexdigest()[:32].encode()
    # Stored only by its client where a header of a request, which is no part of a cache's key, may
    # decide which host its URLs have.
    is_of_header = conf.get().base_url is None and conf.proxy().uses_forwarded_host
    stored_by = b"private, " if is_of_header else b"public, "
    cached = ((b"etag", etag), (b"cache-control", stored_by + MAX_AGE))
    if_none_match = headers.get(b"if-none-match") or b""
    tags = [tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b",")]
    if etag in tags or tags == [b"*"]:
        await _send(send, scope, 304, b"", *cached)
        return
    content_type = (b"content-type", media_type.encode())
    length = (b"content-length", b"%d" % len(body))
    await _send(send, scope, 200, body, content_type, length, *cached)


async def _refuse(
    send: Any, scope: Any, status: int, content: Mapping[str, Any], *more: tuple[bytes, bytes]
) -> None:
    body = jsonrpc.encode(content)
    length = (b"content-length", b"%d" % len(body))
    content_type = (b"content-type", b"application/json")
    await _send(
        send, scope, status, body, content_type, length, (b"cache-control", b"no-store"), *more
    )


async def _send(
    send: Any, scope: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]
) -> None:
    start = {"type": "http.response.start", "status": status}
    nosniff = (b"x-content-type-options", b"nosniff")
    await send({**start, "headers": [*CORS, nosniff, *headers]})
    sent = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent})
