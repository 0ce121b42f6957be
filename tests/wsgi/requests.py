"""Requests to a WSGI application in this process, and calls on a connection that can break."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any
from wsgiref.util import setup_testing_defaults

from django_mcp.testing.asgi import Reply
from django_mcp.transports.wsgi import event_loop
from django_mcp.transports.wsgi.bridge import Bridge
from django_mcp.transports.wsgi.environ import RequestBody, scope_of
from django_mcp.transports.wsgi.event_loop import EventLoopThread
from tests.http_client import TIMEOUT, message


def environ(
    method: str = "POST",
    path: str = "/",
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The environment of a request, as a server makes it."""
    variables = {
        f"HTTP_{name.upper().replace('-', '_')}": value for name, value in (headers or {}).items()
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if f"HTTP_{name}" in variables:
            variables[name] = variables.pop(f"HTTP_{name}")
    made: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path.encode().decode("latin-1"),
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
        **variables,
        **(more or {}),
    }
    setup_testing_defaults(made)
    return made


class Response:
    """What an application passes to ``start_response``."""

    status = 0
    headers: Mapping[str, str]

    def start(self, status: str, headers: list[tuple[str, str]], error: Any = None) -> None:
        self.status = int(status.partition(" ")[0])
        self.headers = {name.lower(): value for name, value in headers}


def perform(application: Any, environ: Mapping[str, Any]) -> Reply:
    """The complete response."""
    response = Response()
    parts: Iterable[bytes] = application(environ, response.start)
    body = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    return Reply(status=response.status, headers=response.headers, body=body)


def sent_call(port: int, name: str, /, **arguments: Any) -> socket.socket:
    """Send a call to a server; return the connection, of which nothing is read."""
    body, headers = message(name, arguments)
    headers |= {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(body))}
    head = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    client = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    client.sendall("\r\n".join([*head, "", body]).encode())
    return client


HEADERS = [(b"x-a", b"1")]
START = {"type": "http.response.start", "status": 200, "headers": HEADERS}


def bridged(
    application: Any,
    more: Mapping[str, Any] | None = None,
    *,
    running: EventLoopThread | None = None,
) -> Any:
    """The WSGI application that an ASGI application becomes; ``more`` is added to the scope."""

    def call(variables: Any, start_response: Any) -> Any:
        body = RequestBody(variables)
        loop = running or event_loop.current()
        scope = {**scope_of(variables), **(more or {})}
        return Bridge(application, scope, body, loop).respond(start_response)

    return call


def part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def respond(send: Any, body: bytes) -> None:
    await send(START)
    await send(part(body, more=False))
