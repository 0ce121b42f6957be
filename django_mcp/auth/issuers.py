"""Requests to authorization servers: their metadata, their keys, and what they say of tokens.

Each runs in a thread, because the event loop must not wait, and is bounded in time and size.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import ssl
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Any, Generic, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit

logger = logging.getLogger("django_mcp")

T = TypeVar("T")
K = TypeVar("K")

FETCH_TIMEOUT = 5.0
"""Seconds for one response."""
LOAD_TIMEOUT = 10.0
"""Seconds for which a request waits for the keys of an issuer."""
MAX_DOCUMENT = 512 * 1024
"""Bytes of metadata or of a key set."""
REFRESH_AFTER = 10 * 60.0
"""Seconds after which keys are loaded again, while the present ones are used."""
KEYS_LIFETIME = 24 * 60 * 60.0
"""Seconds for which keys are used while they cannot be loaded again."""
RETRY_AFTER = 10.0
"""Seconds between two attempts to load keys, whatever key a token names."""


class Unavailable(Exception):
    """An issuer does not answer, or not as it should. ``retry_after`` is in seconds."""

    def __init__(self, message: str, *, retry_after: int = int(RETRY_AFTER)) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(Unavailable):
    """There is no such document."""


def is_secure(url: str) -> bool:
    """Whether requests to ``url`` are encrypted, or do not leave this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
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
    request = urllib.request.Request(url, data, {"Accept": "application/json", **(headers or {})})
    try:
        with _opener().open(request, timeout=timeout) as response:
            content = response.read(limit + 1)
        if len(content) > limit:
            raise Unavailable(f"{url} has more than {limit} bytes")
        document = json.loads(content)
    except HTTPError as error:
        error.close()
        # Not all sites answer 404 for what they do not have.
        kind = NotFound if error.code < 500 else Unavailable
        raise kind(f"{url} answers {error.code}") from None
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{url} cannot be read: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        # A site that serves its front page at any path has no document here.
        raise NotFound(f"{url} is not a JSON document") from None
    if not isinstance(document, dict):
        raise Unavailable(f"{url} is not a JSON object")
    return document


class _TimedSocket(io.RawIOBase):
    """A socket whose timeout is for all that is read, and not for each part of it."""

    def __init__(self, raw: Any, sock: Any) -> None:
        self._raw = raw
        self._socket = sock
        self._until = time.monotonic() + sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        read: int | None = self._raw.readinto(buffer)
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_TimedSocket(self.fp.detach(), sock))


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Connection, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_SecureConnection, req, context=_tls_context())


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


@cache
def _opener() -> urllib.request.OpenerDirector:
    """Without a handler of redirects, files and other schemes; with the proxies of the process."""
    opener = urllib.request.OpenerDirector()
    opener.addheaders = [("User-Agent", "django-mcp")]
    for handler in (
        urllib.request.ProxyHandler(),
        _HttpHandler(),
        _HttpsHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


class Workers:
    """At most ``limit`` threads for requests that block, and at most ``waiting`` further requests.

    Each thread ends when nothing is left to do, and none keeps the process from ending.
    """

    def __init__(self, limit: int, waiting: int = 0) -> None:
        self._limit = limit
        self._most = limit + waiting
        self._unfinished = 0
        self._running = 0
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._lock = threading.Lock()

    def submit(self, function: Callable[[], T]) -> Future[T | Unavailable]:
        """Return the future result, which is an Unavailable for any exception that is raised.

        Raises Unavailable if too many are waiting.
        """
        future: Future[T | Unavailable] = Future()
        future.set_running_or_notify_cancel()  # Others wait for it, too: nobody cancels it.
        with self._lock:
            if self._unfinished >= self._most:
                raise Unavailable("Too many requests are waiting for an authorization server")
            self._unfinished += 1
            self._queue.append((future, function))
            if self._running < self._limit:
                self._running += 1
                threading.Thread(target=self._work, name="django-mcp-issuer", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._running -= 1
                    return
                future, function = self._queue.popleft()
            outcome = _outcome(function)
            with self._lock:
                self._unfinished -= 1
            future.set_result(outcome)


def _outcome(function: Callable[[], T]) -> T | Unavailable:
    try:
        return function()
    except Unavailable as error:
        return error
    except Exception:
        logger.exception("An authorization server could not be asked")
        return Unavailable("An authorization server could not be asked")


async def result_of(future: Future[T | Unavailable], timeout: float) -> T:
    """Wait for a future of Workers; raises Unavailable, also after ``timeout`` seconds."""
    try:
        async with asyncio.timeout(timeout):
            found = await asyncio.shield(asyncio.wrap_future(future))
    except TimeoutError:
        raise Unavailable("An authorization server takes too long") from None
    if isinstance(found, Unavailable):
        raise found
    return found


class KeySet(Generic[K]):
    """The keys of an issuer: loaded when the first token arrives, and kept.

    ``load`` returns them, in a thread. One load runs at a time, at most one every RETRY_AFTER
    seconds, so that tokens with unknown keys cause few.
    """

    def __init__(self, load: Callable[[], Sequence[K]]) -> None:
        self._load = load
        self._workers = Workers(1)
        self._lock = threading.Lock()
        self._keys: Sequence[K] = ()
        self._error: Unavailable | None = None
        self._started_at = -RETRY_AFTER  # The clock may start at 0.
        self._expires_at = self._due_at = 0.0
        self._loading: Future[None | Unavailable] | None = None

    async def find(self, choose: Callable[[Sequence[K]], K | None]) -> K | None:
        """Return the key that ``choose`` finds; raises Unavailable if the keys cannot be loaded."""
        now = time.monotonic()
        found = choose(self._keys) if now < self._expires_at else None
        if found is not None and now < self._due_at:
            return found
        loading = self._start(now)
        if found is not None:
            return found
        if loading is not None:
            await result_of(loading, self._started_at + LOAD_TIMEOUT - now)
        elif self._error is not None:
            raise self._error
        return choose(self._keys)

    def _start(self, now: float) -> Future[None | Unavailable] | None:
        """Return the load that is running or is due, or None."""
        with self._lock:
            if self._loading is not None and not self._loading.done():
                return self._loading
            if now < self._started_at + RETRY_AFTER:
                return None
            self._started_at = now
            self._loading = self._workers.submit(self._reload)
            return self._loading

    def _reload(self) -> None:
        found = _outcome(self._load)
        if isinstance(found, Unavailable):
            self._error = found
            logger.error("The keys of an issuer cannot be loaded: %s", found)
            raise found
        now = time.monotonic()
        self._keys, self._error = found, None
        self._due_at, self._expires_at = now + REFRESH_AFTER, now + KEYS_LIFETIME


def discover(issuer: str) -> Mapping[str, Any]:
    """Return the metadata of ``issuer`` (RFC 8414, OpenID Connect Discovery); raises Unavailable.

    It blocks. Metadata that names another issuer is not used (RFC 8414, section 3.3).
    """
    until = time.monotonic() + LOAD_TIMEOUT
    problem: Unavailable = NotFound(f"{issuer} has no metadata: name its jwks_url")
    for url in metadata_urls(issuer):
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            document = fetch_json(url, timeout=min(FETCH_TIMEOUT, left))
        except NotFound:
            continue
        if document.get("issuer") == issuer:
            return document
        problem = Unavailable(f"{url} does not name the issuer {issuer}")
    raise problem


def metadata_urls(issuer: str) -> Iterator[str]:
    """The URLs at which issuers publish metadata: before their path, and after it."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    paths = [f"/.well-known/{name}{path}" for name in names]
    paths += [f"{path}/.well-known/{name}" for name in reversed(names)]
    for each in dict.fromkeys(paths):
        yield urlunsplit(parts._replace(path=each, query=""))
