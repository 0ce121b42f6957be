"""A host of the internet: a server on loopback, with a certificate for its name."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from django_mcp.outbound.requests import tls_context

NAME = "hooks.example"
PUBLIC = "93.184.215.14"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nok"

Answer = Callable[[Any, bytes], None]
"""Answers the head of a request on its connection."""


class Host:
    """What its name resolves to, what it received, and how it answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.addresses = [PUBLIC]
        self.lookups: list[str] = []
        self.connected: list[str] = []
        self.server_names: list[str | None] = []
        self.requests: list[bytes] = []
        self.url = f"https://{NAME}/hook"
        self.answer: Answer = lambda connection, _: connection.sendall(OK)


@cache
def certificate(name: str) -> bytes:
    """Return a key and a certificate of its own for a name, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(pem)


def serve(listener: socket.socket, context: ssl.SSLContext, host: Host) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.settimeout(5)
            with context.wrap_socket(connection, server_side=True) as encrypted:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += encrypted.recv(65536)
                host.requests.append(head)
                host.answer(encrypted, head)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with a public address, whose connections lead to this machine."""
    pem = tmp_path / "host.pem"
    pem.write_bytes(certificate(NAME))
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    tls_context.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = Host(listener.getsockname()[1])
        context.sni_callback = lambda _, name, __: host.server_names.append(name)
        thread = threading.Thread(target=serve, args=(listener, context, host))
        thread.start()
        lead_here(host, monkeypatch)
        yield host
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    tls_context.cache_clear()


def lead_here(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def resolve(name: str, port: int, **_: Any) -> list[Any]:
        host.lookups.append(name)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in host.addresses
        ]

    def redirected(sock: socket.socket, address: Any) -> None:
        host.connected.append(address[0])
        connect(sock, ("127.0.0.1", host.port))

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", redirected)


class PlainHost:
    """A server on loopback without encryption, and the heads of its requests."""

    def __init__(self, address: str, port: int) -> None:
        self.address = address
        self.name = f"[{address}]" if ":" in address else address
        self.port = port
        self.requests: list[bytes] = []

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(5)
                self.requests.append(connection.recv(65536))
                connection.sendall(OK)


@pytest.fixture(params=["127.0.0.1", "::1"])
def plain_host(request: pytest.FixtureRequest) -> Iterator[PlainHost]:
    """A server at an IPv4 address, and one at an IPv6 address."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        listener = socket.create_server((request.param, 0), family=family)
    except OSError:
        pytest.skip(f"This machine has no address {request.param}")
    with listener:
        host = PlainHost(request.param, listener.getsockname()[1])
        thread = threading.Thread(target=host.serve, args=(listener,))
        thread.start()
        yield host
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
