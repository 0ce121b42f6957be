"""The page that a browser gets at an endpoint: it explains how to connect programs.

It names nothing that the server offers: whoever opens it is not authenticated.
"""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.conf import settings
from django.template.loader import render_to_string
from django.urls import get_script_prefix

from django_mcp import conf
from django_mcp.auth.resource import base_url
from django_mcp.auth.token import TokenAuthentication
from django_mcp.core.auth.base import Scope
from django_mcp.core.server.server import Server
from django_mcp.runtime.pages import Page, PageLink, page_links, page_url
from django_mcp.transports.http.request import STREAM, HttpRequest, Send

HTML = b"text/html"
UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")
STATIC = Path(__file__).resolve().parents[2] / "static" / "django_mcp"

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept, accept-language, cookie"),
)


def is_wanted(request: HttpRequest) -> bool:
    """Whether a GET is from a browser: every client accepts event streams (HTTP-09)."""
    accept = request.headers.get(b"accept") or b""
    return HTML in accept and STREAM not in accept


async def send(server: Server, request: HttpRequest, send: Send) -> None:
    """Send the page. The host was checked before."""
    text = await sync_to_async(render_to_string)(
        "django_mcp/endpoint.html", _context(server, request)
    )
    body = text.encode()
    headers = [
        *HEADERS,
        (b"content-security-policy", _policy()),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _context(server: Server, request: HttpRequest) -> dict[str, Any]:
    scope = request.scope
    authentication = request.authentication
    authenticators = authentication.authenticators
    url = authentication.resource.url(scope)
    name = UNUSUAL.sub("-", str(server.info.get("name") or server.name)).strip("-") or "mcp"
    configuration = {"mcpServers": {name: {"type": "http", "url": url}}}
    takes_tokens = any(isinstance(item, TokenAuthentication) for item in authenticators)
    accepts_all = [getattr(item, "accepts_all", False) for item in authenticators]
    return {
        "page": Page(
            site_name=conf.get().title or urlsplit(url).netloc,
            home=f"{base_url(scope)}/",
            links=tuple(_links(scope)),
        ),
        "style": _static("pages.css"),
        "script": _static("pages.js"),
        "server_title": server.info.get("title") or name,
        "url": url,
        "command": f"claude mcp add --transport http {name} {shlex.quote(url)}",
        "configuration": json.dumps(configuration, indent=2),
        "logs_in": bool(authentication.issuers(scope)),
        "tokens_url": _url_of("django_mcp_tokens:list", scope) if takes_tokens else None,
        "access_url": _url_of("django_mcp_oauth:access", scope),
        "takes_credentials": not all(accepts_all),
        "is_open": any(accepts_all),
        "debug": settings.DEBUG,
    }


def _links(scope: Scope) -> Iterator[PageLink]:
    for link in page_links():
        yield replace(link, url=_absolute(link.url, scope))


def _url_of(view: str, scope: Scope) -> str | None:
    path = page_url(view)
    return None if path is None else _absolute(path, scope)


def _absolute(path: str, scope: Scope) -> str:
    # Outside a view of Django, no path has the prefix of the site.
    return f"{base_url(scope)}/{path.removeprefix(get_script_prefix())}"


@cache
def _policy() -> bytes:
    digest = b64encode(sha256(_static("pages.js").encode()).digest()).decode()
    return POLICY.format(digest).encode()


@cache
def _static(name: str) -> str:
    """Return a static file: the page can be read before a site serves them."""
    return (STATIC / name).read_text(encoding="utf-8")
