"""Authentication by opaque access tokens, by asking the authorization server (RFC 7662)."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.bearer import (
    Claims,
    ClaimsAuthentication,
    InvalidToken,
    logger,
    number,
    require_access_token,
    require_secure,
    stated_issuer,
)
from django_mcp.auth.cache import Loaded
from django_mcp.auth.issuers.fetching import Unavailable, fetch_json, result_of, submit, thread_pool
from django_mcp.core.auth.base import Challenge, Scope
from django_mcp.core.protocol.limits import network_of

MAX_ANSWER = 16 * 1024
"""Bytes of one answer."""
MAX_THREADS = 8
"""Requests to an endpoint at the same time, in one process."""
MAX_WAITING = 200
"""Requests to an endpoint that wait for a thread, in one process."""
WAIT_TIMEOUT = 10.0
"""Seconds that a request waits for an answer."""
MAX_FAILURES = 3
"""Failures in a row that end requests to the endpoint for PAUSE seconds."""
PAUSE = 10.0
"""Seconds without requests to an endpoint that fails."""
MAX_UNKNOWN = 20
"""Tokens of one network that may turn out to be unknown within UNKNOWN_PERIOD seconds."""
UNKNOWN_PERIOD = 60.0
MAX_NETWORKS = 10_000
"""Networks for which unknown tokens are counted."""
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The syntax of a token (RFC 6750, section 2.1)."""


class IntrospectionAuthentication(ClaimsAuthentication):
    """Accepts access tokens that the introspection endpoint ``url`` calls active.

    It sends tokens that no authenticator before it has accepted, so list it last. Personal access
    tokens are never sent. A token must have an audience and a subject.
    """

    name = "introspection"
    sends_tokens = True
    url: str
    client_id = ""
    client_secret = ""
    cache_seconds: float = 30.0
    """How long an answer is kept, and so how long a token may be accepted after it was revoked."""
    max_cached = 1000
    """The number of answers that are kept."""

    def __init__(
        self,
        url: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        issuer: str | None = None,
        audience: str | Sequence[str] | None = None,
        leeway: float | None = None,
        user_claim: str | None = None,
        user_field: str | None = None,
        cache_seconds: float | None = None,
    ) -> None:
        super().__init__(
            url=url,
            client_id=client_id,
            client_secret=client_secret,
            issuer=issuer,
            audience=audience,
            leeway=leeway,
            user_claim=user_claim,
            user_field=user_field,
            cache_seconds=cache_seconds,
        )
        if not getattr(self, "url", "") or not self.client_id:
            raise ImproperlyConfigured(
                "IntrospectionAuthentication needs the url of the endpoint, and the client_id and "
                "the client_secret of this site there."
            )
        require_secure(self.url, "url")
        self._endpoint = _Endpoint(self.url, self.client_id, self.client_secret)
        self._active = _Answers(self.max_cached)
        # Made-up tokens do not take the places of real ones.
        self._inactive = _Answers(self.max_cached)
        self._unknown = _UnknownTokens()

    @property
    def namespace(self) -> str | None:
        """The URL within which subjects are unique."""
        return self.issuer or self.url

    async def _load(self, scope: Scope, token: str) -> Loaded | Challenge | None:
        """Load the principal, unless the network has sent too many unknown tokens."""
        digest = _digest(token)
        if not self._may_be_sent(token) or self._kept(digest) is not None:
            return await super()._load(scope, token)
        client = scope.get("client")
        network = network_of(client[0] if client else "")
        if not self._unknown.may_ask(network):
            return TOO_MANY_UNKNOWN
        loaded = await super()._load(scope, token)
        # Neither a token that is known counts, nor one that the endpoint has said nothing about.
        if self._inactive.get(digest) is None:
            self._unknown.was_not_unknown(network)
        return loaded

    def _may_be_sent(self, token: str) -> bool:
        """Whether the token is well-formed, and names no other issuer."""
        if TOKEN.fullmatch(token) is None:
            return False
        return self.issuer is None or stated_issuer(token) in (None, self.issuer)

    def _kept(self, digest: bytes) -> Claims | None:
        return self._active.get(digest) or self._inactive.get(digest)

    async def claims(self, token: str, /) -> Claims | None:
        """Return the endpoint's claims of an active token; None for any other."""
        if not self._may_be_sent(token):
            return None
        digest = _digest(token)
        claims = self._kept(digest)
        if claims is None:
            claims = await self._endpoint.ask(digest, token)
            answers = self._active if claims["active"] else self._inactive
            answers.put(digest, claims, self.cache_seconds)
        if not claims["active"]:
            return None
        self._require_valid(claims)
        # Without a subject, the user name identifies whoever allowed the access.
        return claims if "sub" in claims else {**claims, "sub": claims.get("username")}

    def valid_until(self, token: str, claims: Claims, /) -> float | None:
        """Return when the token expires, but not later than the answer does."""
        expires = super().valid_until(token, claims)
        left = self._active.lifetime_of(_digest(token))
        answer_ends = time.time() + left
        return answer_ends if expires is None else min(expires, answer_ends)

    def _require_valid(self, claims: Claims) -> None:
        """Raise InvalidToken for claims of another time, issuer or type."""
        now = time.time()
        expires = claims.get("exp")
        begins = claims.get("nbf")
        # A time must be a number.
        is_expired = expires is not None and (number(expires) or 0) + self.leeway <= now
        begin = number(begins)
        is_early = begins is not None and (begin is None or begin - self.leeway > now)
        is_other = self.issuer is not None and claims.get("iss", self.issuer) != self.issuer
        is_bearer = str(claims.get("token_type", "bearer")).lower() in TOKEN_TYPES
        if is_expired or is_early or is_other or not is_bearer:
            raise InvalidToken
        require_access_token(claims)


TOKEN_TYPES = ("bearer", "access_token")
TOO_MANY_UNKNOWN = Challenge(
    status=429,
    headers=((b"retry-after", str(int(UNKNOWN_PERIOD)).encode()),),
    message="Too many unknown access tokens were sent from this network. Try again later",
)


class _UnknownTokens:
    """How many tokens of each network were sent to the endpoint and not known there.

    A token is counted before it is sent, so that tokens which are sent at once are bounded as well.
    The count is taken back unless the token is unknown. A token with a kept answer is not sent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._period_ends = 0.0
        self._numbers: Counter[str] = Counter()

    def may_ask(self, network: str) -> bool:
        """Count a token, unless there were too many of this network."""
        now = time.monotonic()
        with self._lock:
            if now >= self._period_ends:
                self._period_ends = now + UNKNOWN_PERIOD
                self._numbers.clear()
            is_full = network not in self._numbers and len(self._numbers) >= MAX_NETWORKS
            if is_full or self._numbers[network] >= MAX_UNKNOWN:
                return False
            self._numbers[network] += 1
            return True

    def was_not_unknown(self, network: str) -> None:
        with self._lock:
            if self._numbers[network] > 0:
                self._numbers[network] -= 1


class _Endpoint:
    """An introspection endpoint. Requests that wait for the same token are sent as one.

    ========= ===================================== ===========================================
    state     requests to it                        what moves it there
    ========= ===================================== ===========================================
    answering are sent                              an answer, whatever it says
    failing   are refused, until ``_retry_at``      MAX_FAILURES failures in a row, or one more
    tried     one is sent, all others are refused   the first request after ``_retry_at``
    ========= ===================================== ===========================================
    """

    def __init__(self, url: str, client_id: str, client_secret: str) -> None:
        self._url = url
        # RFC 6749, section 2.3.1.
        pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._pool = thread_pool(MAX_THREADS, max_waiting=MAX_WAITING)
        self._lock = threading.Lock()
        self._pending: dict[bytes, Future[Claims | Unavailable]] = {}
        self._failures = 0
        self._failed_at = 0.0
        self._retry_at = 0.0

    async def ask(self, digest: bytes, token: str) -> Claims:
        """Return the answer for a token; raises Unavailable."""
        with self._lock:
            future = self._pending.get(digest)
            if future is None:
                begun_at = self._begin()
                future = submit(self._pool, partial(self._fetch, digest, token, begun_at))
                self._pending[digest] = future
        return await result_of(future, WAIT_TIMEOUT)

    def _begin(self) -> float:
        """Return the time when a request begins; raises Unavailable if it is refused."""
        now = time.monotonic()
        if self._failures >= MAX_FAILURES:
            if now < self._retry_at:
                raise self._unavailable()
            self._retry_at = now + PAUSE  # This request tries. The others do not wait for it.
        return now

    def _fetch(self, digest: bytes, token: str, begun_at: float) -> Claims:
        try:
            if self._failures >= MAX_FAILURES and begun_at <= self._failed_at:
                raise self._unavailable()  # It waited for a thread while the others failed.
            return self._answer(token)
        finally:
            with self._lock:
                self._pending.pop(digest, None)

    def _answer(self, token: str) -> Claims:
        data = urlencode({"token": token, "token_type_hint": "access_token"}).encode()
        headers = {"Authorization": self._authorization}
        try:
            answer = fetch_json(self._url, data=data, headers=headers, limit=MAX_ANSWER)
            if not isinstance(answer.get("active"), bool):
                raise Unavailable(f"{self._url} does not say whether a token is active")
        except Unavailable as error:
            with self._lock:
                self._failures += 1
                self._failed_at = time.monotonic()
                self._retry_at = self._failed_at + PAUSE
            logger.error("A token cannot be introspected: %s", error)
            raise
        self._failures = 0
        return answer if answer["active"] else INACTIVE

    def _unavailable(self) -> Unavailable:
        return Unavailable(f"{self._url} does not answer", retry_after=int(PAUSE))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


INACTIVE: Claims = {"active": False}


class _Answer(NamedTuple):
    claims: Claims
    until: float


class _Answers:
    """Answers by the digest of their token; the one that was used least recently is dropped."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> Claims | None:
        with self._lock:
            answer = self._answers.get(digest)
            if answer is None or answer.until <= time.monotonic():
                self._answers.pop(digest, None)
                return None
            self._answers.move_to_end(digest)
            return answer.claims

    def lifetime_of(self, digest: bytes) -> float:
        """Return for how many seconds an answer is still kept."""
        answer = self._answers.get(digest)
        return 0.0 if answer is None else answer.until - time.monotonic()

    def put(self, digest: bytes, claims: Claims, seconds: float) -> None:
        with self._lock:
            self._answers[digest] = _Answer(claims, time.monotonic() + seconds)
            while len(self._answers) > self._size:
                self._answers.popitem(last=False)
