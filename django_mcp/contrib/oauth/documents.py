"""Metadata documents: fetched for users who log in, from public addresses, and kept for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from threading import Lock
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.http import HttpRequest
from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher
from oauth2_provider.settings import oauth2_settings

from django_mcp.contrib.oauth.clients import without_unsupported
from django_mcp.core.protocol.limits import network_of
from django_mcp.outbound import OutboundError, open_url
from django_mcp.stores.base import StoreBusy
from django_mcp.stores.cache_counts import PeriodCount

CALLER = "django_mcp.caller"
"""The key in ``request.META`` that passes ``caller_of`` to the permission below. No client can send
it."""
MAX_FETCHES = 30
"""Documents that are fetched in an hour for one user, or for anonymous requests of one network."""
FETCHES = PeriodCount("oauth.fetches", 60 * 60)
KEPT = 10 * 60
"""Seconds that a document is kept in the cache, while its user reads the consent page."""


def caller_of(request: HttpRequest) -> str:
    """Return the user, or the network of an anonymous request, for whom fetches are counted."""
    user = getattr(request, "user", None) or AnonymousUser()
    if user.is_authenticated:
        return f"user {user.pk}"
    return f"network {network_of(request.META.get('REMOTE_ADDR', ''))}"


class FetchPermission:
    """Allows fetches for authorization requests only, and a number of them for each caller.

    Requests to the other endpoints fetch nothing: the client of a code or token is stored.
    """

    def has_permission(self, request: Any, client_id: str) -> bool:
        caller = request.headers.get(CALLER)
        at_hand = _at_hand.get()
        if caller is None or (at_hand is not None and at_hand[1] is BUSY):
            return False
        if cache.get(_key(client_id)) is not None:
            return True
        try:
            return FETCHES.add(caller) <= MAX_FETCHES
        except StoreBusy:  # What cannot be counted is not fetched.
            return False


@contextmanager
def fetched_before(client_id: str, request: Any) -> Iterator[None]:
    """Fetch a document now, so that the toolkit does not fetch it within this context.

    The toolkit would fetch it in the transaction that stores the client, and other writers would
    wait for a server of somebody else. ``request`` is the one of oauthlib.
    """
    token = _at_hand.set((client_id, _fetched(client_id, request)))
    try:
        yield
    finally:
        _at_hand.reset(token)


Fetched: TypeAlias = "tuple[dict[str, Any], int] | CIMDError"
BUSY = CIMDError("too many documents are being fetched")
"""Instead of a document. The toolkit is told that it may not fetch it: after an error, it would not
look for the document for a minute."""
_at_hand: ContextVar[tuple[str, Fetched | None] | None] = ContextVar(
    "django_mcp.oauth.document", default=None
)


def _fetched(client_id: str, request: Any) -> Fetched | None:
    """Return the document, or its error; None where the toolkit would not fetch it."""
    fetcher = oauth2_settings.CIMD_METADATA_FETCHER()
    permissions = oauth2_settings.CIMD_REGISTRATION_PERMISSION_CLASSES
    is_ours = isinstance(fetcher, ClientMetadataFetcher)
    if not (oauth2_settings.CIMD_ENABLED and is_ours and permissions):
        return None
    if not all(each().has_permission(request, client_id) for each in permissions):
        return None
    if cache.get(_failed_key(client_id)):
        return CIMDError("the document could not be fetched a moment ago")
    most = oauth2_settings.CIMD_MAX_CONCURRENT_FETCHES
    if not _running.begin(most):
        return BUSY
    try:
        document: Fetched = fetcher.fetch(client_id)
    except Exception as error:  # A stranger wrote it, and reading it may raise anything.
        cache.set(_failed_key(client_id), True, oauth2_settings.CIMD_FAILURE_BACKOFF_SECONDS)
        if isinstance(error, CIMDError):
            return error
        return CIMDError(f"the document cannot be read: {type(error).__name__}")
    finally:
        _running.end()
    return document


class _Running:
    """The fetches of this process: strangers choose the servers that threads wait for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0

    def begin(self, most: int | None) -> bool:
        """Count a fetch, unless there are ``most``; whether it may begin."""
        with self._lock:
            is_free = not most or self._count < most
            self._count += is_free
            return is_free

    def end(self) -> None:
        with self._lock:
            self._count -= 1


_running = _Running()


class ClientMetadataFetcher(SafeMetadataFetcher):
    """Fetches a metadata document over HTTPS, from public addresses only, and keeps it.

    The toolkit's own fetcher lets some reserved addresses through, and has no hook for the check.
    """

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and its lifetime in seconds; raises CIMDError."""
        at_hand = _at_hand.get()
        if at_hand is not None and at_hand[0] == client_id and at_hand[1] is not None:
            if isinstance(at_hand[1], CIMDError):
                raise at_hand[1]
            return at_hand[1]
        kept = cache.get(_key(client_id))
        if kept is not None:
            document, max_age = kept
            return document, max_age
        document, max_age = self.download(client_id)
        document = without_unsupported(document)
        cache.set(_key(client_id), [document, max_age], min(max_age, KEPT))
        return document, max_age

    def download(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document at a public address, and its lifetime; raises CIMDError."""
        _check(client_id)
        try:
            with open_url(
                client_id,
                headers={"Accept": "application/json, application/*+json"},
                timeout=oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS,
            ) as response:
                document, max_age = self._read_document(response)
        except OutboundError as error:
            raise CIMDError(f"could not fetch client_id document: {error}") from None
        return document, max_age


def _key(client_id: str) -> str:
    return f"django_mcp.oauth.document:{sha256(client_id.encode()).hexdigest()}"


def _failed_key(client_id: str) -> str:
    return f"{_key(client_id)}:failed"


def _check(client_id: str) -> None:
    """Raise CIMDError unless a client_id follows the draft (section 3)."""
    if not client_id.isascii():  # Users see its host, and letters of two alphabets look alike.
        raise CIMDError("client_id has other characters than those of ASCII")
    try:
        url = urlsplit(client_id)
        _ = url.port
    except ValueError as error:
        raise CIMDError(f"client_id is no URL: {error}") from None
    if url.scheme != "https" or not url.hostname or not url.path:
        raise CIMDError("client_id needs https, a host and a path")
    if "@" in url.netloc or url.fragment:
        raise CIMDError("client_id has a user or a fragment")
    if {".", ".."} & {*url.path.split("/")}:
        raise CIMDError("client_id has dot segments")
