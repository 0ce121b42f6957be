"""The page that a browser gets at an endpoint under DEBUG: what it is, and how clients connect.

It names nothing that the server offers: whoever opens it is not authenticated.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from django.conf import settings
from django.utils.html import format_html

from django_mcp.server.server import Server
from django_mcp.transports.http.request import STREAM, HttpRequest
from django_mcp.transports.http.response import Send

HTML = b"text/html"
UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>MCP server {name}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem }}
pre {{ background: #f3f4f6; padding: 1rem; overflow: auto; border-radius: 6px }}
</style>
</head>
<body>
<h1>This is an MCP server</h1>
<p>It answers clients of the Model Context Protocol, not browsers. Its URL is:</p>
<pre>{url}</pre>
<p>Claude Code:</p>
<pre>{command}</pre>
<p>Clients that read a JSON file:</p>
<pre>{configuration}</pre>
<p><code>python manage.py mcp_config</code> prints this for more clients,
<code>mcp_show</code> lists what the server offers, and <code>mcp_doctor</code> checks it as
clients do.</p>
<p>You see this page because <code>DEBUG</code> is True. Otherwise, browsers get an error.</p>
</body>
</html>
"""


def is_wanted(request: HttpRequest) -> bool:
    """Whether a GET is from a browser, to which the site shows details under DEBUG."""
    accept = request.headers.get(b"accept") or b""
    return bool(settings.DEBUG) and HTML in accept and STREAM not in accept


async def send(server: Server, request: HttpRequest, send: Send) -> None:
    """Send the page. The host was checked before."""
    url = request.authentication.resource.url(request.scope)
    name = UNUSUAL.sub("-", str(server.info.get("name") or server.name)).strip("-") or "mcp"
    servers: dict[str, Any] = {name: {"type": "http", "url": url}}
    page = format_html(
        PAGE,
        name=name,
        url=url,
        command=f"claude mcp add --transport http {name} {shlex.quote(url)}",
        configuration=json.dumps({"mcpServers": servers}, indent=2),
    )
    body = page.encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
