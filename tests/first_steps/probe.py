"""Sends one request to the application of the project in the working directory.

``python probe.py asgi|wsgi METHOD PATH [header=value …]`` prints the status and the message.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
from typing import Any

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
STATELESS = {"mcp-protocol-version": "2026-07-28"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "probe", "version": "1"},
}


def message(method: str, name: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """A JSON-RPC request, and the headers that repeat it."""
    if method == "initialize":
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": INITIALIZE}, {}
    params = {"_meta": META} if name is None else {"_meta": META, "name": name, "arguments": {}}
    named = {} if name is None else {"mcp-name": name}
    headers = {**STATELESS, "mcp-method": method, **named}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers


def through_asgi(verb: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    from mysite.asgi import application  # type: ignore[import-not-found]

    from django_mcp.testing.asgi import http_scope, perform

    scope = http_scope(verb, path, headers=headers)
    reply = asyncio.run(perform(application, scope, body))
    return reply.status, reply.body


def through_wsgi(verb: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    from mysite.wsgi import application  # type: ignore[import-not-found]

    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": verb,
        "PATH_INFO": path,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": headers["content-type"],
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http",
    }
    parts = application(environ, lambda status, _: statuses.append(status))
    return int(statuses[0].partition(" ")[0]), b"".join(parts)


def main() -> None:
    sys.path.insert(0, os.getcwd())
    gateway, verb, path, *options = sys.argv[1:]
    given = dict(option.split("=", 1) for option in options)
    method, name = given.pop("method", "tools/list"), given.pop("name", None)
    request, repeated = message(method, name)
    body = json.dumps(request).encode() if verb == "POST" else b""
    headers = {**HEADERS, **(repeated if verb == "POST" else {}), **given}
    send = {"asgi": through_asgi, "wsgi": through_wsgi}[gateway]
    status, content = send(verb, path, headers, body)
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", content.decode(), flags=re.DOTALL)
    print(status, " ".join(text.split()))


if __name__ == "__main__":
    main()
