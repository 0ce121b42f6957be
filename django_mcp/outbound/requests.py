"""The requests: bounded in time and size, without redirects, to addresses that were checked.

A URL that a client names is *untrusted*: its host is resolved once, all of its addresses have to be
of the internet, and the connection is made to one of these addresses, so that DNS cannot name
another one afterwards. ``Host``, SNI and the certificate still belong to the name. A URL of the
site's configuration is ``trusted``: it may be private, and takes the proxy of the process.

All functions block; call them in a thread.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from django_mcp import conf
from django_mcp.core.protocol import limits

HEADERS = {"User-Agent": "django-mcp"}
TIMEOUT = 10.0
"""Seconds for a request and its response, after its host was resolved."""
CHUNK = 64 * 1024
"""Bytes that are read at once."""
HTTPS = 443
HTTP = 80

Reason = Literal[
    "invalid_url",
    "not_resolved",
    "not_public",
    "connection_refused",
    "timeout",
    "tls_error",
    "invalid_response",
    "too_large",
]


class OutboundError(Exception):
    """A request that was not sent, or has no usable response. Its text names no address."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


Errors: TypeAlias = "Callable[[], AbstractContextManager[None]]"
"""A context that turns the errors of a connection into OutboundError."""


class Response:
    """The response to a request; its body is still to be read."""

    def __init__(self, response: HTTPResponse, errors: Errors) -> None:
        self.status = response.status
        self.headers: Message = response.headers
        self._response = response
        self._errors = errors

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``; b"" at the end. Raises OutboundError."""
        part = bytearray(size)
        with self._errors():
            # Its read() reads to the end, or raises ValueError, where a chunk has a negative size.
            length = self._response.readinto(part)
        return bytes(part[:length])

    def chunks(self, max_bytes: int) -> Iterator[bytes]:
        """Yield the body; raises OutboundError if it is larger, or shorter than announced."""
        announced = limits.natural(self.headers.get("Content-Length", "")) or 0
        if announced > max_bytes:
            raise OutboundError("too_large", f"The response has more than {max_bytes} bytes")
        size = 0
        while chunk := self.read(CHUNK):
            size += len(chunk)
            if size > max_bytes:
                raise OutboundError("too_large", f"The response has more than {max_bytes} bytes")
            yield chunk
        if size < announced:
            raise OutboundError("invalid_response", "The response ends early")


@dataclass(frozen=True, slots=True)
class Document:
    """A response without its connection."""

    status: int
    headers: Message
    content: bytes
    """The body; b"" of one that ``download`` has written to a file."""
    size: int

    @property
    def content_type(self) -> str:
        """The media type without parameters, or "" if the response names none."""
        given = self.headers.get("Content-Type", "")
        return given.partition(";")[0].strip().lower()


def fetch(url: str, *, max_bytes: int, **options: Any) -> Document:
    """Return the response to a request as ``open_url`` sends it; raises OutboundError."""
    with open_url(url, **options) as response:
        content = b"".join(response.chunks(max_bytes))
    return Document(response.status, response.headers, content, len(content))


class Sink(Protocol):
    """A target of a body."""

    def write(self, data: bytes, /) -> int: ...


def download(url: str, file: Sink, *, max_bytes: int, **options: Any) -> Document:
    """Write the body at ``url`` to a file, or a like object; raises OutboundError.

    Only status 200 is valid. After an error the file has a part of the body.
    """
    size = 0
    with open_url(url, **options) as response:
        if response.status != 200:
            raise OutboundError("invalid_response", f"The host answers {response.status}")
        for chunk in response.chunks(max_bytes):
            size += file.write(chunk)
    return Document(response.status, response.headers, b"", size)


@contextmanager
def open_url(
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    trusted: bool = False,
) -> Iterator[Response]:
    """Send a GET request, or a POST request of ``body``; read the response within the context.

    Redirects are not followed: they are responses like others. ``trusted`` is for URLs which the
    site configured. Raises OutboundError.
    """
    parts = check_url(url, trusted=trusted)
    until = time.monotonic() + timeout
    has_ended = threading.Event()
    errors = partial(_errors, has_ended)
    with errors():
        connection = _connected(parts, until, trusted=trusted)
    # A connection forgets its socket while the response is still read from it.
    end = partial(_end, connection.sock, has_ended)
    # The timeout of a socket is for each read: one byte a second never exceeds it.
    timer = threading.Timer(max(until - time.monotonic(), 0), end)
    timer.daemon = True
    timer.start()
    response: HTTPResponse | None = None
    try:
        with errors():
            method = "GET" if body is None else "POST"
            # In origin-form, which begins with a path (RFC 9112, section 3.2.1).
            query = f"?{parts.query}" if parts.query else ""
            target = f"{parts.path or '/'}{query}"
            connection.request(method, target, body, {**HEADERS, **(headers or {})})
            response = connection.getresponse()
        yield Response(response, errors)
    finally:
        timer.cancel()
        connection.close()
        if response is not None:
            response.close()


def check_url(url: str, *, trusted: bool = False) -> SplitResult:
    """Return the parts of a URL that requests may be sent to; raises OutboundError.

    It uses https, or is one of this machine that is trusted or of PRIVATE_HOSTS.
    """
    if not is_secure(url):
        raise OutboundError("invalid_url", "The URL must begin with https:// and name a host")
    parts = urlsplit(url)
    if not f"{parts.path}{parts.query}".isascii():
        raise OutboundError("invalid_url", "The path of the URL is not encoded")
    if parts.scheme != "https" and not trusted and not _may_be_private(parts.hostname or ""):
        raise OutboundError("invalid_url", "The URL must begin with https://")
    return parts


def _may_be_private(host: str) -> bool:
    return host in conf.get().private_hosts


@contextmanager
def _errors(has_ended: threading.Event) -> Iterator[None]:
    """Raise OutboundError for the errors of a connection, and after it was ended."""
    reason: Reason | None = None
    try:
        yield
    except ssl.SSLError:
        reason = "tls_error"
    except TimeoutError:
        reason = "timeout"
    except OSError:
        reason = "connection_refused"
    except HTTPException:
        reason = "invalid_response"
    if has_ended.is_set():
        reason = "timeout"
    if reason is not None:
        raise OutboundError(reason, MESSAGES[reason]) from None


MESSAGES: Mapping[str, str] = {
    "tls_error": "The host has no valid certificate",
    "timeout": "The host does not answer in time",
    "connection_refused": "The host cannot be reached",
    "invalid_response": "The host does not answer by HTTP",
}


def _end(sock: socket.socket, has_ended: threading.Event) -> None:
    has_ended.set()
    with suppress(OSError):
        # An SSLSocket's would let its reader take encrypted bytes for plain ones.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


# Connections.


def _connected(parts: SplitResult, until: float, *, trusted: bool) -> HTTPConnection:
    """Return an open connection to the host of a URL."""
    host = parts.hostname or ""
    is_https = parts.scheme == "https"
    # Without a port, http.client would look for one in the host, also in an IPv6 address.
    port = parts.port or (HTTPS if is_https else HTTP)
    proxy = urlsplit(getproxies().get("https", "")) if trusted and is_https else None
    if proxy is not None and proxy.hostname and not proxy_bypass(parts.netloc):
        tunnel = HTTPSConnection(
            proxy.hostname, proxy.port or HTTPS, timeout=_left(until), context=tls_context()
        )
        credentials = {}
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            credentials["Proxy-Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        tunnel.set_tunnel(host, port, credentials)
        tunnel.connect()
        return tunnel
    sock = _connected_socket(_resolved(host, port, trusted=trusted), until)
    try:
        if not is_https:
            plain = HTTPConnection(host, port)
            plain.sock = sock
            return plain
        encrypted = HTTPSConnection(host, port, context=tls_context())
        sock.settimeout(_left(until))
        encrypted.sock = tls_context().wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    return encrypted


Address: TypeAlias = "tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]"
"""What ``getaddrinfo`` returns: family, type, protocol, name, and the address to connect to."""


def _resolved(host: str, port: int, *, trusted: bool) -> list[Address]:
    """Return the addresses of a host; raises OutboundError if one of them must not be used.

    One address that is not public condemns the others, since a host of the internet has none.
    """
    try:
        addresses: list[Address] = [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise OutboundError("not_resolved", "The host has no address") from None
    if trusted or _may_be_private(host):
        return addresses
    if not addresses or not all(is_public(str(address[4][0])) for address in addresses):
        raise OutboundError("not_public", "The host has no public address")
    return addresses


def _connected_socket(addresses: list[Address], until: float) -> socket.socket:
    """Try one address after the other, each for its share of the time."""
    error: OSError = TimeoutError()
    for index, address in enumerate(addresses):
        share = _left(until) / (len(addresses) - index)
        try:
            sock = _connected_to(address, share)
        except OSError as failed:
            error = failed
        else:
            sock.settimeout(_left(until))
            return sock
    raise error


def _connected_to(address: Address, timeout: float) -> socket.socket:
    family, kind, protocol, _, target = address
    # It raises OSError as well: this machine may have no IPv6, whatever DNS says of the host.
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(timeout)
        sock.connect(target)
    except OSError:
        sock.close()
        raise
    return sock


def _left(until: float) -> float:
    """Return the seconds that are left; raises TimeoutError."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@cache
def tls_context() -> ssl.SSLContext:
    """Return the context of all connections: reading the authorities takes a while."""
    return ssl.create_default_context()


# Addresses.

NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Its addresses end with an IPv4 address (RFC 6052)."""
RESERVED = [*map(ipaddress.ip_network, ("64:ff9b:1::/48", "fec0::/10", "::/96"))]
"""NAT64 within a site (RFC 8215), the site-local and the IPv4-compatible addresses of the past,
which Python takes for global ones."""


def is_public(text: str) -> bool:
    """Whether an address is one of the internet, and so is the IPv4 address that it contains."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    contained = _contained(address) if isinstance(address, IPv6Address) else []
    return all(map(_is_global, contained or [address]))


def _contained(address: IPv6Address) -> Sequence[IPv4Address | IPv6Address]:
    if address.teredo is not None:
        return address.teredo
    if address in NAT64:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    mapped = address.ipv4_mapped or address.sixtofour
    return [] if mapped is None else [mapped]


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    is_reserved = address.is_multicast or any(address in network for network in RESERVED)
    return address.is_global and not is_reserved


def is_secure(url: str) -> bool:
    """Whether requests to ``url`` are encrypted, or do not leave this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port  # It raises ValueError unless it is a number.
    except ValueError:
        return False
    if not host or any(character <= " " for character in url) or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is named localhost or is a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
