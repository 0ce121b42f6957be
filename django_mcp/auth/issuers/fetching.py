"""Requests to authorization servers, which are bounded in time and size; their metadata.

They block, so each runs in a thread: the event loop must not wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from django_mcp import outbound
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.outbound import OutboundError

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

FETCH_TIMEOUT = 5.0
"""Seconds for one response."""
DISCOVERY_TIMEOUT = 10.0
"""Seconds for all possible URLs of metadata."""
MAX_DOCUMENT = 512 * 1024
"""Bytes of metadata or of a key set."""
RETRY_AFTER = 10.0
"""Seconds until an authorization server that has failed is asked again."""
HEADERS = {"Accept": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Unavailable(Exception):
    """An issuer does not answer, or its answer is not usable. ``retry_after`` is in seconds."""

    def __init__(self, message: str, *, retry_after: int = int(RETRY_AFTER)) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(Unavailable):
    """The server has no document at this URL."""


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
    form_headers = {} if data is None else FORM
    all_headers = {**HEADERS, **form_headers, **(headers or {})}
    try:
        with outbound.open_url(
            url, body=data, headers=all_headers, timeout=timeout, trusted=True
        ) as response:
            if not 200 <= response.status < 300:
                # Not all sites answer 404 for a page that they do not have.
                error_class = NotFound if response.status < 500 else Unavailable
                raise error_class(f"{url} answers {response.status}")
            content = b"".join(response.chunks(limit))
    except OutboundError as error:
        if error.reason == "too_large":
            raise Unavailable(f"{url} has more than {limit} bytes") from None
        raise Unavailable(f"{url} cannot be read: {error.reason}") from None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        # A site that serves its front page at any path has no document here.
        raise NotFound(f"{url} is not a JSON document") from None
    if not isinstance(document, dict):
        raise Unavailable(f"{url} is not a JSON object")
    return document


def discover(issuer: str) -> Mapping[str, Any]:
    """Return the metadata of ``issuer`` (RFC 8414, OpenID Connect Discovery); raises Unavailable.

    It blocks. Metadata that names another issuer is not used (RFC 8414, section 3.3).
    """
    until = time.monotonic() + DISCOVERY_TIMEOUT
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
    """The URLs of issuers' metadata: before their path, and after it."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    paths = [f"/.well-known/{name}{path}" for name in names]
    paths += [f"{path}/.well-known/{name}" for name in reversed(names)]
    for place in dict.fromkeys(paths):
        yield urlunsplit(parts._replace(path=place, query=""))


def thread_pool(size: int, *, max_waiting: int) -> ThreadPool:
    """Return threads for requests that block; at most ``max_waiting`` further requests wait."""
    refused = partial(Unavailable, "Too many requests are waiting for an authorization server")
    return ThreadPool(size, "django-mcp-issuer", max_waiting=max_waiting, not_started=refused)


def submit(pool: ThreadPool, function: Callable[[], T]) -> Future[T | Unavailable]:
    """Return the future result, which is an Unavailable for any exception that is raised.

    Raises Unavailable if too many are waiting.
    """
    return pool.submit(outcome_of, function)


def outcome_of(function: Callable[[], T]) -> T | Unavailable:
    """Return the result of a function, or Unavailable for any exception."""
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
