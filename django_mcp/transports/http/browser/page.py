"""The page that a browser gets at an endpoint: how to connect programs, and the user's tools.

A user who is logged in to the site sees the tools that their programs are listed, and can download
them as a document. To anybody else, the page names nothing that the server offers.
"""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from asgiref.sync import sync_to_async
from django.conf import settings
from django.shortcuts import resolve_url
from django.template.loader import render_to_string
from django.urls import Resolver404, get_script_prefix, resolve

from django_mcp import conf
from django_mcp.auth.resource import base_url
from django_mcp.auth.token import TokenAuthentication
from django_mcp.core.auth.base import Principal, Scope
from django_mcp.runtime.pages import Page, page_links, page_url
from django_mcp.transports.http.browser import tools
from django_mcp.transports.http.browser.documents import DOCUMENTS, Described
from django_mcp.transports.http.browser.tools import ListedTool
from django_mcp.transports.http.exchange import HttpExchange
from django_mcp.transports.http.request import STREAM, Send

HTML = b"text/html"
UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")
STATIC = Path(__file__).resolve().parents[3] / "static" / "django_mcp"

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept, accept-language, cookie"),
)


def is_wanted(request: HttpExchange) -> bool:
    """Whether a GET is from a browser: every client accepts event streams (HTTP-09)."""
    accept = request.headers.get(b"accept") or b""
    return HTML in accept and STREAM not in accept


async def send(request: HttpExchange, send: Send) -> None:
    """Send the page, or the document that its URL names. The host was checked before."""
    query = dict(parse_qsl(request.scope.get("query_string", b"").decode("latin-1")))
    caller = await tools.caller_of(request)
    listed = [] if caller is None else await tools.listed_to(request, caller)
    document = None if caller is None else DOCUMENTS.get(query.get("format", ""))
    text: str
    if document is None:
        context = {**_context(request), **_of_user(request, caller, listed, query)}
        text = await sync_to_async(render_to_string)("django_mcp/endpoint.html", context)
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", _policy()),
        ]
    else:
        version = str(request.server.info.get("version") or "0")
        url = request.authentication.resource.url(request.scope)
        text = document.write(Described(_title(request), version, url, listed))
        file = f'attachment; filename="{_name(request)}.{document.suffix}"'
        headers = [
            (b"content-type", document.media_type.encode()),
            (b"content-disposition", file.encode()),
        ]
    body = text.encode()
    length = (b"content-length", b"%d" % len(body))
    start = {"type": "http.response.start", "status": 200}
    await send({**start, "headers": [*headers, *HEADERS, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _name(request: HttpExchange) -> str:
    """The name of the server in a configuration, a command or the name of a file."""
    server = request.server
    return UNUSUAL.sub("-", str(server.info.get("name") or server.name)).strip("-") or "mcp"


def _title(request: HttpExchange) -> str:
    return str(request.server.info.get("title") or _name(request))


def _of_user(
    request: HttpExchange,
    caller: Principal | None,
    listed: list[ListedTool],
    query: dict[str, str],
) -> dict[str, Any]:
    """The part of the page about its user: their tools, or a link to log in."""
    if caller is None:
        return {"login_url": _login_url(request)} if tools.has_site_users(request) else {}
    words = query.pop("q", "").split()
    return {
        "username": caller.user.get_username(),
        "tools": [tool for tool in listed if tool.matches([word.casefold() for word in words])],
        "count": len(listed),
        "search": " ".join(words),
        # The selection of a connection, which the page keeps.
        "selected": [(name, value) for name, value in query.items() if name != "format"],
    }


def _login_url(request: HttpExchange) -> str | None:
    """The login of the site; None where its URL is none of the site, or leads nowhere."""
    path = resolve_url(settings.LOGIN_URL)
    try:
        resolve(path)
    except Resolver404:
        return None
    here = urlsplit(request.authentication.resource.url(request.scope)).path
    return f"{_absolute(path, request.scope)}?next={quote(here)}"


def _context(request: HttpExchange) -> dict[str, Any]:
    scope = request.scope
    authentication = request.authentication
    authenticators = authentication.authenticators
    url = authentication.resource.url(scope)
    name = _name(request)
    configuration = {"mcpServers": {name: {"type": "http", "url": url}}}
    takes_tokens = any(isinstance(item, TokenAuthentication) for item in authenticators)
    accepts_all = [getattr(item, "accepts_all", False) for item in authenticators]
    return {
        "page": Page(
            site_name=conf.get().title or urlsplit(url).netloc,
            home=f"{base_url(scope)}/",
            links=tuple(replace(link, url=_absolute(link.url, scope)) for link in page_links()),
        ),
        "style": _static("pages.css"),
        "script": _static("pages.js"),
        "server_title": _title(request),
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
