"""A page with the official AppBridge, which reaches an endpoint of a site as one of its users."""

from __future__ import annotations

import json
import mimetypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from tests.clients import environments
from tests.waiting import SECONDS

PAGE = Path(__file__).with_name("app_bridge.html")
REQUEST_HEADERS = ("accept", "content-type", "last-event-id", "mcp-session-id")
RESPONSE_HEADERS = ("content-type", "mcp-session-id")
TIMEOUT = SECONDS


class AppBridgePages(ThreadingHTTPServer):
    """The page, the modules that it imports, and the endpoints of the site below its own origin."""

    daemon_threads = True

    def __init__(self, site: str, headers: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.modules = environments.made("app_bridge") / "node_modules"
        self.site = site
        self.headers = headers
        """What the proxy adds to each request, such as a token."""

    def url(self, endpoint: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """The URL at which the view of a tool is shown."""
        query = {"endpoint": endpoint, "tool": tool, "arguments": json.dumps(arguments)}
        return f"http://127.0.0.1:{self.server_port}/?{urlencode(query)}"


@contextmanager
def app_bridge(site: str, **headers: str) -> Iterator[AppBridgePages]:
    """Serve the page within the block."""
    pages = AppBridgePages(site, headers)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    try:
        yield pages
    finally:
        pages.shutdown()
        pages.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: AppBridgePages
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/":
            self._file(PAGE)
        elif path.startswith("/node_modules/"):
            self._file(self.server.modules / path.removeprefix("/node_modules/"))
        else:
            self._forward()

    def do_POST(self) -> None:
        self._forward()

    def do_DELETE(self) -> None:
        self._forward()

    def log_message(self, *args: Any) -> None:
        """Nothing is logged."""

    def _file(self, file: Path) -> None:
        if not file.is_file():
            return self.send_error(404)
        body = file.read_bytes()
        kind = "text/javascript" if file.suffix in (".js", ".mjs") else None
        self.send_response(200)
        self.send_header("Content-Type", kind or mimetypes.guess_type(file.name)[0] or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _forward(self) -> None:
        """Send the request to the site, and its response back as it arrives."""
        self.close_connection = True
        # The site, or the page, may end while a stream is open.
        with suppress(httpx.TransportError, OSError):
            self._relay()

    def _relay(self) -> None:
        given = self.headers.items()
        headers = {name: value for name, value in given if _is_forwarded(name.lower())}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with httpx.stream(
            self.command,
            f"{self.server.site}{self.path}",
            headers={**headers, **self.server.headers},
            content=body,
            timeout=TIMEOUT,
            trust_env=False,
        ) as response:
            self.send_response(response.status_code)
            for name in RESPONSE_HEADERS:
                if name in response.headers:
                    self.send_header(name, response.headers[name])
            self.send_header("Connection", "close")
            self.end_headers()
            for part in response.iter_bytes():
                self.wfile.write(part)
                self.wfile.flush()


def _is_forwarded(name: str) -> bool:
    return name in REQUEST_HEADERS or name.startswith("mcp-")
