"""Requests to authorization servers: bounded in time, and encrypted."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPSConnection

import pytest

from django_mcp.auth.issuers import fetching
from django_mcp.auth.issuers.discovery import metadata_urls
from django_mcp.auth.issuers.fetching import Unavailable, fetch_json, is_secure
from tests.auth.issuer import running_issuer
from tests.rows import rows
from tests.spec import spec


@contextmanager
def dripping(*parts: bytes) -> Iterator[str]:
    """A server that sends the first part, and then the others for ever, a byte at a time."""
    is_over = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(parts[0])
                while not is_over.wait(0.02):
                    connection.sendall(parts[1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        is_over.set()
    thread.join()


@pytest.mark.parametrize(
    "parts",
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"a"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["status", "header", "body", "length", "chunks"],
)
def test_response_that_never_ends_is_given_up(parts: tuple[bytes, bytes]) -> None:
    with dripping(*parts) as url:
        started = time.monotonic()
        with pytest.raises(Unavailable, match="TimeoutError"):
            fetch_json(url, timeout=0.3)
        assert time.monotonic() - started < 2


def test_longer_document_is_not_read() -> None:
    with running_issuer() as issuer:
        issuer.answers["/long"] = lambda _: (200, {}, b" " * 10_000_000)
        with pytest.raises(Unavailable, match="more than 100 bytes"):
            fetch_json(f"{issuer.url}/long", limit=100)


@pytest.fixture
def used_contexts(monkeypatch: pytest.MonkeyPatch) -> list[ssl.SSLContext]:
    """What the connections verify certificates with; none of them reaches a server."""
    used: list[ssl.SSLContext] = []

    def connect(connection: HTTPSConnection) -> None:
        used.append(connection._context)  # type: ignore[attr-defined]
        raise OSError("No network in tests")

    monkeypatch.setattr(HTTPSConnection, "connect", connect)
    return used


@spec("AUTH-RS-33")
def test_certificates_are_verified(used_contexts: list[ssl.SSLContext]) -> None:
    with pytest.raises(Unavailable):
        fetch_json("https://issuer.example/keys")

    assert used_contexts[0].verify_mode == ssl.CERT_REQUIRED
    assert used_contexts[0].check_hostname


def test_certificates_of_authorities_are_read_once(used_contexts: list[ssl.SSLContext]) -> None:
    for issuer in ("https://issuer.example", "https://other.example"):
        with pytest.raises(Unavailable):
            fetch_json(f"{issuer}/keys")

    first, second = used_contexts
    assert first is second


@spec("AUTH-RS-33")
@rows(
    ("url", "expected"),
    [
        ("https://issuer.example", True),
        ("http://localhost:8000/a", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:9000", True),
        ("http://issuer.example", False),
        ("http://localhost.evil.example", False),
        ("http://0.0.0.0", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://a b", False),
        ("https://a:port", False),
        ("https://user@issuer.example", False),
        ("issuer.example", False),
    ],
)
def test_only_encrypted_or_local_urls_are_secure(url: str, expected: bool) -> None:
    assert is_secure(url) is expected


def test_metadata_of_an_issuer_without_a_path_has_two_places() -> None:
    assert [*metadata_urls("https://issuer.example/")] == [
        "https://issuer.example/.well-known/oauth-authorization-server",
        "https://issuer.example/.well-known/openid-configuration",
    ]


async def test_fault_of_a_request_is_logged_and_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("A fault")

    with pytest.raises(Unavailable):
        await fetching.result_of(fetching.submit(fetching.thread_pool(1, max_waiting=0), fail), 5)

    assert "A fault" in caplog.text


async def test_submitted_requests_beyond_the_bound_are_rejected() -> None:
    is_over = threading.Event()
    pool = fetching.thread_pool(1, max_waiting=1)
    running = [fetching.submit(pool, is_over.wait) for _ in range(2)]

    with pytest.raises(Unavailable, match="Too many"):
        fetching.submit(pool, is_over.wait)

    is_over.set()
    for future in running:
        assert await fetching.result_of(future, 5)
