"""The two HTTP servers of the preview, on 127.0.0.1: the host page, and the view in its sandbox.

============ ==================================== ==================================================
server       path, after its secret               answer
============ ==================================== ==================================================
host         ``/`` and the files of FILES         the page, which runs no other script
host         ``/facts``                           the tool, its arguments, the view and its policy
host         ``POST /call``                       the response to the call that the page makes
host         ``POST /forward``                    the response to a request of the view
host         ``/violations``                      what the policy has blocked, as events
sandbox      ``/view``                            the HTML of the view, with its policy as a header
sandbox      ``POST /violation``                  204: the browser reports what it has blocked
============ ==================================== ==================================================

Each server has a random secret in its URLs, so that no other user of the machine and no other page
reaches it. A request that names another host, or comes from a page of another origin, is answered
404. Different ports are different origins, so that the view cannot read the host page.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from django_mcp.admin.try_it.view_requests import NoView
from django_mcp.ui.mcp_apps import blocked, policy
from tests.browser.view_host.requests import SiteRequests

ADDRESS = "127.0.0.1"
MAX_BODY = 10_000_000
"""Bytes of a request."""
EVENT_PAUSE = 15.0
"""Seconds after which an event stream without an event sends a comment."""

FILES: Mapping[str, tuple[str, str]] = {
    "/": ("host.html", "text/html; charset=utf-8"),
    "/host.js": ("host.js", "text/javascript; charset=utf-8"),
    "/themes.js": ("themes.js", "text/javascript; charset=utf-8"),
    "/host.css": ("host.css", "text/css; charset=utf-8"),
}

SANDBOX = {
    "opaque": "allow-scripts",
    "own": "allow-scripts allow-forms allow-same-origin",
}
"""What hosts allow a view, the least first: without an origin of its own, it has neither storage
nor cookies, and without forms, the browser sends it no event of one."""

PERMISSIONS = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboardWrite": "clipboard-write",
}
"""The features of an iframe's ``allow``, by the members of ``permissions``."""


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


NOT_FOUND = Answer(404, "text/plain", b"Not found")


class Violations:
    """What the browser has reported, for all event streams; safe for threads."""

    def __init__(self) -> None:
        self._reports: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def add(self, report: dict[str, Any]) -> None:
        with self._changed:
            self._reports.append(report)
            self._changed.notify_all()

    def after(self, count: int) -> list[dict[str, Any]]:
        """Return the reports that follow the first ones; waits for one for EVENT_PAUSE."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._reports) > count, EVENT_PAUSE)
            return self._reports[count:]


class Preview:
    """One tool with its view, as the servers show it."""

    def __init__(self, requests: SiteRequests, tool: str, arguments: dict[str, Any]) -> None:
        self.requests = requests
        self.tool = tool
        self.arguments = arguments
        self.violations = Violations()
        self.host = _Server(self._host_answer)
        self.host.events["/violations"] = self.violations.after
        self.sandbox = _Server(self._sandbox_answer)

    @property
    def url(self) -> str:
        """The URL of the host page."""
        return f"{self.host.url}/"

    def _host_answer(self, request: _Request) -> Answer:
        if request.method == "GET" and request.path in FILES:
            return self._file(request.path)
        if request.method == "GET" and request.path == "/facts":
            return _json(self._facts())
        if request.method == "POST" and request.path == "/call":
            params = {"name": self.tool, "arguments": request.json().get("arguments", {})}
            return _json(self.requests.send("tools/call", params))
        if request.method == "POST" and request.path == "/forward":
            message = request.json()
            return _json(self.requests.forward(str(message["method"]), message["params"]))
        return NOT_FOUND

    def _file(self, path: str) -> Answer:
        name, content_type = FILES[path]
        body = Path(__file__).with_name(name).read_bytes()
        return Answer(200, content_type, body, {"Content-Security-Policy": self._host_policy()})

    def _host_policy(self) -> str:
        """The host page loads its own files; its frame shows the sandbox, and nothing else."""
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "img-src data:; "
            f"frame-src {self.sandbox.origin}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )

    def _facts(self) -> dict[str, Any]:
        """What the host page has to know; read anew each time, since an author edits the view."""
        principal = self.requests.principal
        facts = {
            "arguments": self.arguments,
            "server": self.requests.server.name,
            "user": None if principal.is_anonymous else str(principal.user),
            "sandboxUrl": f"{self.sandbox.url}/view",
            "sandboxOrigin": self.sandbox.origin,
            "sandbox": SANDBOX,
        }
        try:
            tool = self.requests.tool(self.tool)
            view = self.requests.view(tool)
        except NoView as error:
            return {**facts, "error": str(error)}
        csp = view.meta.get("csp")
        return {
            **facts,
            "tool": tool,
            "uri": view.uri,
            "meta": view.meta,
            "policy": policy.header(csp),
            "blocked": [str(each) for each in blocked.find(view.html, csp)],
            "allow": "; ".join(_features(view.meta.get("permissions"))),
        }

    def _sandbox_answer(self, request: _Request) -> Answer:
        if request.method == "GET" and request.path == "/view":
            return self._view(SANDBOX.get(request.query.get("origin", ""), SANDBOX["opaque"]))
        if request.method == "POST" and request.path == "/violation":
            report = request.json().get("csp-report")
            if isinstance(report, dict):
                self.violations.add(report)
            return Answer(204, "text/plain", b"")
        return NOT_FOUND

    def _view(self, sandbox: str) -> Answer:
        try:
            view = self.requests.view(self.requests.tool(self.tool))
        except NoView as error:
            return Answer(404, "text/plain; charset=utf-8", str(error).encode())
        header = (
            f"{policy.header(view.meta.get('csp'))}; frame-ancestors {self.host.origin}; "
            f"sandbox {sandbox}; report-uri {self.sandbox.url}/violation"
        )
        body = view.html.encode()
        return Answer(200, "text/html; charset=utf-8", body, {"Content-Security-Policy": header})


@contextmanager
def running(preview: Preview, *, port: int = 0) -> Iterator[None]:
    """Serve within the block: the host page on ``port``, the sandbox on the next one.

    0 chooses two free ports. Raises OSError if a port is occupied.
    """
    preview.host.bind(port)
    try:
        preview.sandbox.bind(port and port + 1)
        try:
            yield
        finally:
            preview.sandbox.stop()
    finally:
        preview.host.stop()


class _Request(NamedTuple):
    method: str
    path: str
    """The path after the secret."""
    query: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the object of the body; raises ValueError."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError("The body is no object")
        return value


class _Server:
    """A server on one port, with its secret."""

    def __init__(self, answer: Callable[[_Request], Answer]) -> None:
        self.answer = answer
        self.secret = secrets.token_urlsafe(24)
        self.events: dict[str, Callable[[int], list[dict[str, Any]]]] = {}
        """Paths of event streams, with functions that return what follows the first events."""
        self.port = 0
        self._http: ThreadingHTTPServer | None = None

    @property
    def origin(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/{self.secret}"

    def bind(self, port: int) -> None:
        """Start to answer; port 0 is any free one."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer((ADDRESS, port), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def stop(self) -> None:
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: _Server
    server_version = "view_host"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their URLs contain the secret."""

    def _answer(self) -> None:
        request = self._read()
        if request is None:
            self._send(NOT_FOUND)
        elif request.method == "GET" and request.path in self.owner.events:
            self._stream(self.owner.events[request.path])
        else:
            self._send(self._answer_to(request))

    def _read(self) -> _Request | None:
        """Return the request; None unless it is one of the preview's own pages."""
        if self.headers.get("Host") != f"{ADDRESS}:{self.owner.port}":
            return None
        parts = urlsplit(self.path)
        secret, _, path = parts.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self.owner.secret.encode()):
            return None
        if not self._is_own_origin(path):
            return None
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= MAX_BODY:
            return None
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return _Request(self.command, f"/{path}", query, self.rfile.read(length))

    def _is_own_origin(self, path: str) -> bool:
        """Whether the request is of a page of this origin; reports are of views without one."""
        origin = self.headers.get("Origin")
        if path == "violation":
            return True
        if origin is None:
            return self.command == "GET"
        return origin == self.owner.origin

    def _answer_to(self, request: _Request) -> Answer:
        try:
            return self.owner.answer(request)
        except (ValueError, KeyError):
            return Answer(400, "text/plain", b"Bad request")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self._send_headers(answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _send_headers(self, content_type: str) -> None:
        self.send_header("Content-Type", content_type)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")

    def _stream(self, events_after: Callable[[int], list[dict[str, Any]]]) -> None:
        """Send events until the page is closed."""
        self.send_response(200)
        self._send_headers("text/event-stream")
        self.end_headers()
        sent = 0
        try:
            while True:
                events = events_after(sent)
                sent += len(events)
                lines = [f"data: {json.dumps(event)}\n\n" for event in events] or [":\n\n"]
                self.wfile.write("".join(lines).encode())
                self.wfile.flush()
        except OSError:
            self.close_connection = True


def _features(permissions: Any) -> list[str]:
    names = permissions if isinstance(permissions, dict) else {}
    return [feature for name, feature in PERMISSIONS.items() if name in names]


def _json(value: Any) -> Answer:
    return Answer(200, "application/json", json.dumps(value).encode())
