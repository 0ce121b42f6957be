"""Requests to other hosts: to addresses that were checked, bounded in time and size."""

from __future__ import annotations

import errno
import io
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.request import getproxies

import pytest
from pytest_django import Settings

from django_mcp.outbound import (
    OutboundError,
    Reason,
    download,
    fetch,
    is_public,
    is_secure,
    open_url,
)
from tests.outbound.conftest import NAME, OK, PUBLIC, Host, PlainHost
from tests.rows import rows
from tests.spec import spec


def reason_of(function: Callable[..., Any], *arguments: Any, **options: Any) -> Reason:
    """Return why a request fails."""
    with pytest.raises(OutboundError) as caught:
        function(*arguments, **options)
    return caught.value.reason


def test_get_request_returns_status_headers_and_body(host: Host) -> None:
    document = fetch(f"{host.url}?a=1", max_bytes=100)

    assert (document.status, document.content, document.size) == (200, b"ok", 2)
    assert document.content_type == "text/plain"
    assert host.requests[0].startswith(b"GET /hook?a=1 HTTP/1.1\r\n")


def test_post_request_sends_body_and_headers(host: Host) -> None:
    received: list[bytes] = []

    def answer(connection: Any, head: bytes) -> None:
        received.append(connection.recv(100) if head.endswith(b"\r\n\r\n") else head[-4:])
        connection.sendall(OK)

    host.answer = answer
    fetch(host.url, body=b"body", headers={"webhook-id": "1"}, max_bytes=100)

    assert host.requests[0].startswith(b"POST /hook HTTP/1.1\r\n")
    assert b"\r\nwebhook-id: 1\r\n" in host.requests[0]
    assert received == [b"body"]


# Request lines and hosts.


@pytest.mark.parametrize(
    ("rest", "target"),
    [("", "/"), ("?sig=1", "/?sig=1"), ("/hook?sig=1#top", "/hook?sig=1"), ("//a/b", "//a/b")],
)
def test_target_of_a_request_begins_with_the_path(
    plain_host: PlainHost, rest: str, target: str
) -> None:
    authority = f"{plain_host.name}:{plain_host.port}"

    assert fetch(f"http://{authority}{rest}", max_bytes=100, trusted=True).status == 200
    line, *headers = plain_host.requests[0].decode().split("\r\n")
    assert line == f"GET {target} HTTP/1.1"
    assert f"Host: {authority}" in headers


def lead_to(plain_host: PlainHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all connections lead to a host, whatever their port is."""
    connect = socket.socket.connect

    def redirected(sock: socket.socket, address: Any) -> None:
        connect(sock, (plain_host.address, plain_host.port))

    monkeypatch.setattr(socket.socket, "connect", redirected)


def test_host_of_a_url_without_a_port_has_none(
    plain_host: PlainHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(plain_host, monkeypatch)
    fetch(f"http://{plain_host.name}/hook", max_bytes=100, trusted=True)

    assert f"\r\nHost: {plain_host.name}\r\n".encode() in plain_host.requests[0]


def test_encrypted_connection_to_an_address_without_a_port_is_made(
    plain_host: PlainHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(plain_host, monkeypatch)
    url = "https://[fd00::abcd]/" if ":" in plain_host.address else "https://127.0.0.1/"

    assert reason_of(fetch, url, max_bytes=100, trusted=True) == "tls_error"


# Addresses.


def test_connection_is_made_to_the_checked_address_with_the_name_of_the_host(host: Host) -> None:
    fetch(host.url, max_bytes=100)

    assert host.lookups == [NAME]
    assert host.connected == [PUBLIC]
    assert host.server_names == [NAME]
    assert f"\r\nHost: {NAME}\r\n".encode() in host.requests[0]


@spec("isolation-25")
def test_name_that_leads_elsewhere_after_the_check_is_not_followed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def rebound(*arguments: Any, **options: Any) -> Any:
        found = resolve(*arguments, **options)
        host.addresses = ["127.0.0.1"]
        return found

    monkeypatch.setattr(socket, "getaddrinfo", rebound)

    assert fetch(host.url, max_bytes=100).status == 200
    assert host.connected == [PUBLIC]
    assert reason_of(fetch, host.url, max_bytes=100) == "not_public"
    assert host.connected == [PUBLIC]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"],
)
def test_host_with_a_private_address_is_not_connected_to(host: Host, address: str) -> None:
    host.addresses = [PUBLIC, address]

    assert reason_of(fetch, host.url, max_bytes=100) == "not_public"
    assert host.connected == []


def test_address_in_a_url_is_checked(host: Host) -> None:
    host.addresses = ["127.0.0.1"]

    assert reason_of(fetch, f"https://127.0.0.1:{host.port}/", max_bytes=100) == "not_public"
    assert reason_of(fetch, "https://2130706433/", max_bytes=100) == "not_public"


def test_host_without_an_address_is_not_resolved(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert reason_of(fetch, host.url, max_bytes=100) == "not_resolved"


def test_private_host_of_the_settings_is_reached(host: Host, settings: Settings) -> None:
    host.addresses = ["127.0.0.1"]
    settings.DJANGO_MCP = {"PRIVATE_HOSTS": [NAME.upper()]}

    assert fetch(host.url, max_bytes=100).status == 200
    assert reason_of(fetch, "https://other.example/", max_bytes=100) == "not_public"


def test_trusted_url_may_be_private(host: Host) -> None:
    host.addresses = ["127.0.0.1"]

    assert fetch(host.url, max_bytes=100, trusted=True).status == 200


def test_next_address_is_tried_after_one_that_refuses(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.addresses = ["93.184.215.15", PUBLIC]
    connect = socket.socket.connect
    refused: list[str] = []

    def half_broken(sock: socket.socket, address: Any) -> None:
        if address[0] != PUBLIC:
            refused.append(address[0])
            raise ConnectionRefusedError
        connect(sock, address)

    monkeypatch.setattr(socket.socket, "connect", half_broken)

    assert fetch(host.url, max_bytes=100).status == 200
    assert refused == ["93.184.215.15"]
    host.addresses = ["93.184.215.15"]
    assert reason_of(fetch, host.url, max_bytes=100) == "connection_refused"


def test_address_of_a_family_that_this_machine_lacks_is_skipped(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.addresses = ["2606:4700::1111", PUBLIC]
    resolve = socket.getaddrinfo
    create = socket.socket.__init__

    def with_families(name: str, port: int, **options: Any) -> list[Any]:
        first, second = resolve(name, port, **options)
        return [(socket.AF_INET6, *first[1:]), second]

    def without_ipv6(sock: socket.socket, family: int = -1, *arguments: Any, **others: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        create(sock, family, *arguments, **others)

    monkeypatch.setattr(socket, "getaddrinfo", with_families)
    monkeypatch.setattr(socket.socket, "__init__", without_ipv6)

    assert fetch(host.url, max_bytes=100).status == 200
    assert host.connected == [PUBLIC]


# URLs and certificates.


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/",
        "http://localhost/",
        "ftp://hooks.example/",
        "https:///path",
        "https://user@hooks.example/",
        "https://@hooks.example/",
        "https://hooks.example:port/",
        "https://hooks.example/\r\nX: y",
        "https://hooks.example/ä",
        "https://[hooks.example/",
    ],
)
def test_url_that_is_not_secure_is_not_requested(host: Host, url: str) -> None:
    assert reason_of(fetch, url, max_bytes=100) == "invalid_url"
    assert host.lookups == []


@spec("AUTH-RS-33")
def test_certificate_of_another_name_is_rejected(host: Host) -> None:
    assert reason_of(fetch, "https://other.example/", max_bytes=100) == "tls_error"
    assert host.requests == []


@spec("AUTH-RS-33")
def test_certificate_of_an_unknown_authority_is_rejected(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.outbound.requests import tls_context

    monkeypatch.delenv("SSL_CERT_FILE")
    tls_context.cache_clear()

    assert reason_of(fetch, host.url, max_bytes=100, trusted=True) == "tls_error"
    assert host.requests == []


# Responses.


def test_redirect_is_not_followed(host: Host) -> None:
    host.answer = lambda connection, _: connection.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: https://other.example/\r\nContent-Length: 0\r\n\r\n"
    )

    assert fetch(host.url, max_bytes=100).status == 302
    assert host.lookups == [NAME]


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
def test_response_that_never_ends_is_given_up(host: Host, parts: tuple[bytes, bytes]) -> None:
    def drip(connection: Any, _: bytes) -> None:
        connection.sendall(parts[0])
        while True:
            connection.sendall(parts[1])
            time.sleep(0.02)

    host.answer = drip
    started = time.monotonic()

    assert reason_of(fetch, host.url, max_bytes=100_000, timeout=0.5) == "timeout"
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("length", ["²".encode("latin-1"), b"2" * 5000, b"-1"])
def test_announced_size_that_is_no_number_is_ignored(host: Host, length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: " + length
    host.answer = lambda connection, _: connection.sendall(head + b"\r\n\r\nok")

    assert fetch(host.url, max_bytes=100).content == b"ok"


@pytest.mark.parametrize("head", [b"Content-Length: 1000000", b"X: y"])
def test_body_that_is_too_large_is_not_read(host: Host, head: bytes) -> None:
    host.answer = lambda connection, _: connection.sendall(
        b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + b" " * 1_000_000
    )

    assert reason_of(fetch, host.url, max_bytes=1000) == "too_large"


@pytest.mark.parametrize("size", [b"-1", b"-2", b"-ffffffff"])
def test_chunk_of_a_negative_size_is_not_read_without_bound(host: Host, size: bytes) -> None:
    sent: list[int] = []

    def send(connection: Any, request: bytes) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n"
        )
        for _ in range(50):
            connection.sendall(b"x" * 1_000_000)
            sent.append(1_000_000)

    host.answer = send

    assert reason_of(fetch, host.url, max_bytes=1000) in ("too_large", "invalid_response")
    assert sum(sent) < 50_000_000


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"],
    ids=["protocol", "length"],
)
def test_invalid_response_is_an_error(host: Host, answer: bytes) -> None:
    host.answer = lambda connection, _: connection.sendall(answer)

    assert reason_of(fetch, host.url, max_bytes=1000) == "invalid_response"


def test_error_of_the_reader_is_not_one_of_the_host(host: Host) -> None:
    with pytest.raises(OSError, match="disk"), open_url(host.url):
        raise OSError("The disk is full")


def test_download_writes_the_body_to_a_file(host: Host) -> None:
    body = b"row\n" * 100_000
    host.answer = lambda connection, _: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\n\r\n" + body
    )
    file = io.BytesIO()

    document = download(host.url, file, max_bytes=len(body))

    assert file.getvalue() == body
    assert (document.content_type, document.size) == ("text/csv", len(body))
    assert reason_of(download, host.url, io.BytesIO(), max_bytes=len(body) - 1) == "too_large"


def test_download_of_what_is_not_found_is_an_error(host: Host) -> None:
    host.answer = lambda connection, _: connection.sendall(
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
    )
    file = io.BytesIO()

    assert reason_of(download, host.url, file, max_bytes=100) == "invalid_response"
    assert file.getvalue() == b""


# Proxies.


@pytest.mark.parametrize(("trusted", "connected"), [(True, []), (False, [PUBLIC])])
def test_only_trusted_urls_take_the_proxy_of_the_process(
    host: Host, monkeypatch: pytest.MonkeyPatch, trusted: bool, connected: list[str]
) -> None:
    monkeypatch.setenv("https_proxy", "http://ada:secret@127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    proxied: list[Any] = []

    def create_connection(address: Any, *_: Any, **__: Any) -> None:
        proxied.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", create_connection)
    assert "https" in getproxies()
    if trusted:
        assert reason_of(fetch, host.url, max_bytes=100, trusted=True) == "connection_refused"
    else:
        assert fetch(host.url, max_bytes=100).status == 200

    assert host.connected == connected
    assert proxied == ([("127.0.0.1", 9)] if trusted else [])


@pytest.mark.parametrize(
    ("host", "target"), [(NAME, (NAME, 443)), ("[fd00::abcd]", ("fd00::abcd", 443))]
)
def test_tunnel_leads_to_the_host_and_its_port(
    monkeypatch: pytest.MonkeyPatch, host: str, target: tuple[str, int]
) -> None:
    monkeypatch.setenv("https_proxy", "http://[::1]")
    monkeypatch.delenv("no_proxy", raising=False)
    tunnels: list[Any] = []

    def connect(connection: Any) -> None:
        tunnels.append((connection.host, connection.port))
        tunnels.append((connection._tunnel_host, connection._tunnel_port))
        raise ConnectionRefusedError

    monkeypatch.setattr("http.client.HTTPSConnection.connect", connect)

    assert reason_of(fetch, f"https://{host}/", max_bytes=100, trusted=True) == "connection_refused"
    assert tunnels == [("::1", 443), target]


@rows(
    "address",
    [
        "64:ff9b:1::a00:1",
        "64:ff9b:1:ffff::1",
        "64:ff9b::a00:1",
        "fec0::1",
        "feff::1",
        "::10.0.0.1",
        "::93.184.215.14",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::ffff:224.0.0.1",
        "2002:a00:1::1",
        "2002:e000:1::1",
        "2001:0:a00:1::f5ff:fffe",
        "ff02::1",
        "ff0e::1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "2001:db8::1",
        "224.0.0.1",
        "239.1.1.1",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.0.2.1",
        "240.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "localhost",
    ],
)
def test_reserved_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@rows(
    "address",
    ["93.184.215.14", "2606:2800:21f:cb07::1", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"],
)
def test_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


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
