"""Tests of events: emissions of a block of code, and a receiver of webhooks."""

from __future__ import annotations

import json
import secrets
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import router
from django.test import override_settings
from standardwebhooks import Webhook

from django_mcp.contrib.events import interest
from django_mcp.contrib.events.declaration import Event
from django_mcp.contrib.events.models import Occurrence


class Emitted:
    """The occurrences of a block, once it has ended."""

    def __init__(self) -> None:
        self.occurrences: list[Occurrence] = []

    @property
    def data(self) -> list[dict[str, Any]]:
        """The payloads; of events with a model, there are none before they are delivered."""
        stored = (each.data for each in self.occurrences if not each.object_key)
        return [json.loads(data) for data in stored]

    @property
    def keys(self) -> list[str]:
        """The primary keys of the objects, as strings."""
        return [each.object_key for each in self.occurrences]


@contextmanager
def assert_event_sent(event: Event | type, times: int = 1) -> Iterator[Emitted]:
    """Fail unless the block emits an event so many times, as if somebody listened.

    Emissions that are rolled back in the block do not count.
    """
    if not isinstance(event, Event):
        raise TypeError(f"{event!r} is no event")
    if event.server is None:
        raise AssertionError(f"The event {event.name} is not registered on a server")
    server = event.server.name
    interest.begin(server, event.name)
    interest.HERE.read()
    alias = router.db_for_write(Occurrence)
    rows = Occurrence._default_manager.using(alias).filter(server=server, event=event.name)
    rows = rows.order_by("id")
    before = set(rows.values_list("pk", flat=True))
    emitted = Emitted()
    yield emitted
    emitted.occurrences = list(rows.exclude(pk__in=before))
    count = len(emitted.occurrences)
    if count != times:
        raise AssertionError(f"{event.name} was emitted {count} times, not {times}")


HOST = "127.0.0.1"


class Received(NamedTuple):
    """A request with a valid signature."""

    id: str
    subscription: str
    body: dict[str, Any]
    headers: dict[str, str]


class FakeReceiver:
    """A receiver of webhooks on this machine. Its address is allowed within the context.

    It answers challenges, and refuses requests that its ``secret`` has not signed. ``events`` are
    the occurrences that it has accepted, and ``controls`` the other messages. ``status`` is its
    answer: an integer, or a function of Received that returns one.
    """

    def __init__(self) -> None:
        self.secret = new_secret()
        self.status: int | Callable[[Received], int] = 200
        self.headers: dict[str, str] = {}
        """Of its answers."""
        self.answers_challenges = True
        self.requests: list[Received] = []
        self.events: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []
        self.refused: list[str] = []
        """Why requests were refused."""
        self._stack = ExitStack()

    def __enter__(self) -> FakeReceiver:
        server = self._stack.enter_context(_Server((HOST, 0), _Handler))
        server.receiver = self
        self.url = f"http://{HOST}:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.shutdown)
        given = dict(getattr(settings, "DJANGO_MCP", {}))
        hosts = [*given.get("PRIVATE_HOSTS", ()), HOST]
        self._stack.enter_context(override_settings(DJANGO_MCP={**given, "PRIVATE_HOSTS": hosts}))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def receive(self, headers: dict[str, str], content: bytes) -> tuple[int, Any]:
        """Return the status and the JSON for a request."""
        try:
            body = Webhook(self.secret).verify(content, headers)
        except Exception as error:
            self.refused.append(str(error))
            return 401, None
        received = Received(
            headers["webhook-id"], headers.get("x-mcp-subscription-id", ""), body, headers
        )
        self.requests.append(received)
        if body.get("type") == "verification":
            challenge = body["challenge"] if self.answers_challenges else "wrong"
            return 200, {"challenge": challenge}
        status = self.status(received) if callable(self.status) else self.status
        if 200 <= status < 300:
            (self.controls if "type" in body else self.events).append(body)
        return status, None


def new_secret() -> str:
    """Return a secret such as clients send."""
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode()


def deliver() -> None:
    """Deliver due occurrences to webhooks, and return when nothing is due."""
    from django_mcp.contrib.events import delivery

    async_to_sync(delivery.run)()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: FakeReceiver


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answer = self.server.receiver.receive(headers, content)
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in self.server.receiver.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""
