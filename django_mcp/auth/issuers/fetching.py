"""Requests to authorization servers, which are bounded in time and size.

They block, so each runs in a thread: the event loop must not wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from django_mcp.core.concurrency.thread_pool import ThreadPool

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

FETCH_TIMEOUT = 5.0
"""Seconds for one response."""
MAX_DOCUMENT = 512 * 1024
"""Bytes of metadata or of a key set."""
RETRY_AFTER = 10.0
"""Seconds after which it is worth asking an authorization server again."""
HEADERS = {"Accept": "application/json", "User-Agent": "django-mcp"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Unavailable(Exception):
    """An issuer does not answer, or its answer is not usable. ``retry_after`` is in seconds."""

    def __init__(self, message: str, *, retry_after: int = int(RETRY_AFTER)) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(Unavailable):
    """There is no such document."""


def is_secure(url: str) -> bool:
    """Whether requests to ``url`` are encrypted, or do not leave this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port  # It raises ValueError for what is no port.
    except ValueError:
        return False
    if not host or any(character <= " " for character in url) or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def fetch_json(
    url: str,
    *,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    limit: int = MAX_DOCUMENT,
    timeout: float = FETCH_TIMEOUT,
) -> Mapping[str, Any]:
    """Return the JSON object at ``url``, or the response to a POST of ``data``; it blocks.

    Redirects are not followed. Raises Unavailable.
    """
    try:
        status, content = _fetch(url, data, headers or {}, limit, timeout)
    except TimeoutError:
        raise Unavailable(f"{url} cannot be read: TimeoutError") from None
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{url} cannot be read: {type(error).__name__}") from None
    if not 200 <= status < 300:
        # Not all sites answer 404 for a page that they do not have.
        error_class = NotFound if status < 500 else Unavailable
        raise error_class(f"{url} answers {status}")
    if len(content) > limit:
        raise Unavailable(f"{url} has more than {limit} bytes")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        # A site that serves its front page at any path has no document here.
        raise NotFound(f"{url} is not a JSON document") from None
    if not isinstance(document, dict):
        raise Unavailable(f"{url} is not a JSON object")
    return document


def _fetch(
    url: str, data: bytes | None, headers: Mapping[str, str], limit: int, timeout: float
) -> tuple[int, bytes]:
    """Return the status, and the content up to one byte more than ``limit``."""
    parts = urlsplit(url)
    target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    method = "GET" if data is None else "POST"
    form_headers = {} if data is None else FORM
    all_headers = {**HEADERS, **form_headers, **headers}
    with _ended_after(timeout, _connection(parts, timeout)) as connection:
        connection.request(method, target, data, all_headers)
        response = connection.getresponse()
        return response.status, response.read(limit + 1)


def _connection(parts: SplitResult, timeout: float) -> HTTPConnection:
    """Return a connection to a host, through the proxy of the process if it has one."""
    host = parts.hostname or ""
    if parts.scheme != "https":
        return HTTPConnection(host, parts.port, timeout=timeout)
    proxy = urlsplit(getproxies().get("https", ""))
    if not proxy.hostname or proxy_bypass(parts.netloc):
        return HTTPSConnection(host, parts.port, timeout=timeout, context=_tls_context())
    connection = HTTPSConnection(
        proxy.hostname, proxy.port, timeout=timeout, context=_tls_context()
    )
    connection.set_tunnel(host, parts.port, _proxy_headers(proxy))
    return connection


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


@contextmanager
def _ended_after(timeout: float, connection: HTTPConnection) -> Iterator[HTTPConnection]:
    """Connect, and end the connection after ``timeout`` seconds; raises TimeoutError then.

    The timeout of a socket is for each read: a server that sends one byte a second never exceeds
    it.
    """
    has_ended = threading.Event()
    connection.connect()
    # A connection forgets its socket while the response is still read from it.
    sock: socket.socket = connection.sock

    def end() -> None:
        has_ended.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        yield connection
    except (OSError, HTTPException):
        if has_ended.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
        connection.close()
    if has_ended.is_set():
        raise TimeoutError


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def thread_pool(size: int, *, max_waiting: int) -> ThreadPool:
    """Return threads for requests that block; at most ``max_waiting`` further requests wait."""
    return ThreadPool(size, "django-mcp-issuer", max_waiting=max_waiting, not_started=_too_many)


def _too_many() -> Unavailable:
    return Unavailable("Too many requests are waiting for an authorization server")


def submit(pool: ThreadPool, function: Callable[[], T]) -> Future[T | Unavailable]:
    """Return the future result, which is an Unavailable for any exception that is raised.

    Raises Unavailable if too many are waiting.
    """
    return pool.submit(outcome_of, function)


def outcome_of(function: Callable[[], T]) -> T | Unavailable:
    """Return what a function returns, or the Unavailable for what it raises."""
    try:
        return function()
    except Unavailable as error:
        return error
    except Exception:
        logger.exception("An authorization server could not be asked")
        return Unavailable("An authorization server could not be asked")


async def result_of(future: Future[T | Unavailable], timeout: float) -> T:
    """Wait for a future of ``submit``; raises Unavailable, also after ``timeout`` seconds."""
    try:
        async with asyncio.timeout(timeout):
            outcome = await asyncio.shield(asyncio.wrap_future(future))
    except TimeoutError:
        raise Unavailable("An authorization server takes too long") from None
    if isinstance(outcome, Unavailable):
        raise outcome
    return outcome
