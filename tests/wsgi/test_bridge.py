"""One WSGI request, answered by an ASGI application in the event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest

from django_mcp.transports.wsgi import environ as wsgi_environ
from django_mcp.transports.wsgi import event_loop
from django_mcp.transports.wsgi.bridge import Bridge, ResponseParts
from django_mcp.transports.wsgi.environ import READ_AT_ONCE, scope_of
from django_mcp.transports.wsgi.event_loop import EventLoopThread, LoopEnded
from tests.waiting import SECONDS
from tests.wsgi.requests import HEADERS, START, Response, bridged, environ, part, perform, respond


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it has received."""
    parts = []
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", message["type"].encode()))
    await respond(send, b"".join(parts))


class CountedInput(BytesIO):
    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


@pytest.mark.parametrize("size", [0, 1, READ_AT_ONCE, READ_AT_ONCE + 1, 1_000_000])
def test_body_arrives_whole(size: int) -> None:
    body = b"x" * size
    assert perform(bridged(echo), environ(body=body)).body == body


def test_response_without_a_wait_passes_nothing_between_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Bridge, "next_part")
    monkeypatch.delattr(EventLoopThread, "call")
    assert perform(bridged(echo), environ(body=b"short")).body == b"short"


def test_chunked_body_arrives_whole() -> None:
    body = b"x" * 100_000
    variables = environ(body=body, more={"CONTENT_LENGTH": "", "wsgi.input_terminated": True})
    assert perform(bridged(echo), variables).body == body


def test_long_body_is_read_only_as_the_application_asks_for_it() -> None:
    content = CountedInput(b"x" * 1_000_000)
    reads = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reads.append(content.reads)
        await receive()
        reads.append(content.reads)
        await respond(send, b"")

    variables = environ(more={"CONTENT_LENGTH": "1000000", "wsgi.input": content})
    perform(bridged(application), variables)
    assert reads == [0, 1]


def test_client_that_breaks_off_its_body_has_disconnected() -> None:
    received = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        received.append(await receive())
        received.append(await receive())

    variables = environ(more={"CONTENT_LENGTH": "1000000", "wsgi.input": BytesIO(b"x" * 10)})
    with pytest.raises(ConnectionResetError):
        perform(bridged(application), variables)
    assert [message["type"] for message in received] == ["http.request", "http.disconnect"]


def test_short_body_that_is_broken_off_reaches_no_application() -> None:
    with pytest.raises(ConnectionResetError):
        perform(bridged(echo), environ(more={"CONTENT_LENGTH": "10"}))


def test_application_waits_until_a_part_is_written() -> None:
    accepted = threading.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(part(b"one", more=True))
        accepted.set()
        await send(part(b"two", more=False))

    parts = iter(bridged(application)(environ(), Response().start))
    assert next(parts) == b"one"
    assert not accepted.is_set()
    assert next(parts) == b"two"
    assert accepted.is_set()
    assert list(parts) == []


def test_application_learns_that_its_client_has_gone() -> None:
    outcome: list[Any] = []
    is_over = threading.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        try:
            await send(part(b"one", more=True))
        except OSError as error:
            outcome.append(type(error))
        outcome.append(await receive())
        is_over.set()

    parts = bridged(application)(environ(), Response().start)
    assert isinstance(parts, ResponseParts)
    next(parts)
    parts.close()
    assert is_over.wait(SECONDS)
    assert outcome == [ConnectionResetError, {"type": "http.disconnect"}]


def test_exception_of_the_application_is_raised_for_the_server() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("nothing here")

    with pytest.raises(LookupError, match="nothing here"):
        perform(bridged(application), environ())


def test_headers_of_the_connection_are_left_to_the_server() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "headers": [*HEADERS, (b"Connection", b"close")]})
        await send(part(b"", more=False))

    assert perform(bridged(application), environ()).headers == {"x-a": "1"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_end_of_the_event_loop_fails_the_requests_that_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = EventLoopThread()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise SystemExit

    for _ in range(2):  # The second request finds the loop ended.
        with pytest.raises(LoopEnded):
            perform(bridged(application, running=running), environ())
    assert "The event loop of the MCP servers has ended" in caplog.text


@pytest.mark.parametrize("error", [GeneratorExit, asyncio.CancelledError, BaseException])
def test_application_that_ends_with_no_exception_is_answered(error: type[BaseException]) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise error

    with pytest.raises(RuntimeError, match="The request"):
        perform(bridged(application), environ())
    assert perform(bridged(echo), environ(body=b"next")).body == b"next"


def test_ended_event_loop_is_replaced() -> None:
    running = event_loop.current()
    assert event_loop.current() is running
    running.has_ended = True
    assert event_loop.current() is not running
    running.loop.call_soon_threadsafe(running.loop.stop)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({"REMOTE_PORT": ""}, {"client": ("127.0.0.1", 0)}, id="client without port"),
        pytest.param({"REMOTE_ADDR": ""}, {"client": None}, id="unix socket"),
        pytest.param({"PATH_INFO": "/\xff"}, {"path": "/\ufffd"}, id="path that is no UTF-8"),
        pytest.param({"PATH_INFO": "/\xc3\xa9"}, {"path": "/é"}, id="path in UTF-8"),
        pytest.param({"QUERY_STRING": "\xe9"}, {"query_string": b"\xe9"}, id="raw query"),
        pytest.param(
            {"SCRIPT_NAME": "/app", "PATH_INFO": "/mcp"},
            {"path": "/app/mcp", "root_path": "/app"},
            id="prefix",
        ),
        pytest.param({"SERVER_PORT": ""}, {"server": ("127.0.0.1", 0)}, id="no port"),
        pytest.param({"SERVER_PORT": "9" * 5000}, {"server": ("127.0.0.1", 0)}, id="digits"),
        pytest.param({"SERVER_PROTOCOL": "HTTP/1.0"}, {"http_version": "1.0"}, id="version"),
    ],
)
def test_scope_is_that_of_an_asgi_server(
    variables: dict[str, str], expected: dict[str, Any]
) -> None:
    scope = scope_of(environ(more=variables))
    assert {name: scope[name] for name in expected} == expected


def test_headers_are_those_of_the_request() -> None:
    headers = {"Host": "a.example", "Content-Type": "a/b", "Mcp-Session-Id": "s"}
    scope = scope_of(environ(headers=headers, body=b"12", more={"HTTP_CONTENT_LENGTH": "9"}))
    assert sorted(scope["headers"]) == [
        (b"content-length", b"2"),
        (b"content-type", b"a/b"),
        (b"host", b"a.example"),
        (b"mcp-session-id", b"s"),
    ]


class SocketInput:
    """The body of a request as gunicorn reads it: all of the bytes that are asked for."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read(self, size: int) -> bytes:
        content = b""
        while len(content) < size and (part := self._connection.recv(size - len(content))):
            content += part
        return content


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    server_side, client_side = socket.socketpair()
    with server_side, client_side:
        yield server_side, client_side


def of_socket(connection: socket.socket, length: int) -> dict[str, Any]:
    more = {"CONTENT_LENGTH": str(length), "wsgi.input": SocketInput(connection)}
    return environ(more={**more, "gunicorn.socket": connection})


@pytest.mark.parametrize("length", [10_000, READ_AT_ONCE + 1])
def test_thread_does_not_wait_for_a_client_that_sends_its_body_slowly(
    length: int, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "MAX_READING", 0.3)
    monkeypatch.setattr(event_loop, "LOOK_EVERY", 0.05)
    running = EventLoopThread()
    server_side, client_side = pair
    has_ended = threading.Event()

    def trickle() -> None:
        with suppress(OSError):
            while not has_ended.wait(0.05):
                client_side.send(b"x")

    sender = threading.Thread(target=trickle)
    sender.start()
    answers: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        answers.append(message["type"])

    try:
        with pytest.raises(ConnectionResetError):
            perform(bridged(application, running=running), of_socket(server_side, length))
        assert answers == ["http.disconnect"]
    finally:
        has_ended.set()
        sender.join(SECONDS)
        running.loop.call_soon_threadsafe(running.loop.stop)


def test_thread_does_not_wait_for_a_client_that_sends_nothing(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wsgi_environ, "IDLE", 0.1)
    with pytest.raises(ConnectionResetError):
        perform(bridged(echo), of_socket(pair[0], 10))


def test_write_to_a_client_that_does_not_read_ends(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wsgi_environ, "IDLE", 0.1)
    disconnected = threading.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        try:
            while True:
                await send(part(b"x" * 1_000_000, more=True))
        except OSError:
            disconnected.set()

    parts = bridged(application)(of_socket(pair[0], 0), Response().start)
    with pytest.raises(TimeoutError):
        deque(map(pair[0].sendall, parts))  # As the server does.
    parts.close()
    assert disconnected.wait(SECONDS)
