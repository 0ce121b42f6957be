"""The pages of a client on loopback: its metadata document, and where it is redirected to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from urllib.parse import parse_qsl, urlsplit

CLIENT_ID = "https://assistant.example/client.json"
WEB_REDIRECT_URI = "https://assistant.example/callback"
"""Where nobody listens: the other redirect URI of the client."""
TIMEOUT = 20
"""Seconds within which a user is redirected."""


class ClientPages(ThreadingHTTPServer):
    """The server of these pages."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.redirects: Queue[dict[str, str]] = Queue()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def redirect_uri(self) -> str:
        return f"{self.origin}/callback"

    @property
    def document(self) -> dict[str, object]:
        """What the client publishes at its client id."""
        return {
            "client_id": CLIENT_ID,
            "client_name": "Ticket assistant",
            "redirect_uris": [self.redirect_uri, WEB_REDIRECT_URI],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    def next_redirect(self) -> dict[str, str]:
        """Wait for a redirect, and return its parameters."""
        return self.redirects.get(timeout=TIMEOUT)


class _Handler(BaseHTTPRequestHandler):
    server: ClientPages

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        answers = {"/callback": self._redirected, urlsplit(CLIENT_ID).path: self._published}
        if url.path in answers:
            answers[url.path]()
        else:
            self.send_error(404)

    def _redirected(self) -> None:
        self.server.redirects.put(dict(parse_qsl(urlsplit(self.path).query)))
        self._send("text/html", "<title>Connected</title>You can close this page.")

    def _published(self) -> None:
        self._send("application/json", json.dumps(self.server.document))

    def _send(self, media_type: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: the query has codes."""


@contextmanager
def client_pages() -> Iterator[ClientPages]:
    """Serve the pages within the block."""
    with ClientPages() as pages:
        thread = threading.Thread(target=pages.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield pages
        finally:
            pages.shutdown()
            thread.join()
