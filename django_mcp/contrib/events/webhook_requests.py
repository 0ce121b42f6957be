"""Webhooks: signed requests to a receiver, and the challenge that verifies it.

Signatures follow Standard Webhooks (https://www.standardwebhooks.com). Requests go through
``django_mcp.outbound``: addresses are checked at each of them, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from django_mcp import conf
from django_mcp.contrib.events import errors
from django_mcp.contrib.events.models import LastError
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.protocol import jsonrpc, limits
from django_mcp.core.protocol.errors import InvalidParams, Json, ServerBusy
from django_mcp.outbound import OutboundError, Reason, Response, check_url, open_url
from django_mcp.runtime import pools
from django_mcp.stores.base import StoreBusy
from django_mcp.stores.cache_counts import PeriodCount

try:
    from standardwebhooks import Webhook
except ImportError:
    raise ImproperlyConfigured(
        "Webhooks need the package standardwebhooks: pip install 'django-mcp-channels[events]'"
    ) from None

MAX_BODY = 256 * 1024
"""Bytes of a body."""
MAX_ANSWER = 64 * 1024
"""Bytes that are read of an answer."""
TIMEOUT = 10.0
"""Seconds for an answer."""
MAX_CHALLENGES = 20
"""Challenges that are sent to one host in a minute, for all callers."""
CHALLENGES = PeriodCount("events.challenges", 60)
THREADS = 16
"""Requests that a process sends at once."""
THREADS_OF_QUERIES = "events"
"""The threads for queries and counts: a receiver that hangs holds up none of them."""
MAX_WAITING = 64
"""Further requests that wait for a thread."""
DROPPED = frozenset({410, 413})
"""Statuses that end a delivery without a repetition. The subscription goes on."""

ERRORS: dict[Reason, LastError] = {
    "timeout": LastError.TIMEOUT,
    "tls_error": LastError.TLS_ERROR,
}
"""Errors of requests. All others are a refused connection: clients learn nothing of addresses."""


class Message(NamedTuple):
    """A message to a receiver, which may be sent repeatedly."""

    id: str
    """The id of an event is its occurrence's: receivers recognize repetitions by it."""
    body: bytes

    @classmethod
    def control(cls, kind: str, **members: object) -> Message:
        """Return a message that is not an event: ``verification``, ``gap`` or ``terminated``."""
        body = jsonrpc.encode({"type": kind, **members})
        return cls(f"msg_{kind}_{secrets.token_urlsafe(16)}", body)


class Outcome(NamedTuple):
    """What became of an attempt."""

    is_accepted: bool
    error: str = ""
    """One of LastError, or "" for a message that cannot be sent: its body is too large."""
    is_final: bool = False
    """Whether a further attempt is pointless."""
    retry_after: float = 0.0
    """Seconds that the receiver asks to wait."""
    answer: bytes = b""


def send(url: str, keys: Sequence[str], subscription_id: str, message: Message) -> Outcome:
    """Make one attempt; it blocks. ``keys`` are the secrets: each of them signs."""
    # Rows of former versions may have an id that no header can have.
    if len(message.body) > MAX_BODY or not (message.id.isascii() and message.id.isprintable()):
        return Outcome(False, is_final=True)
    headers = {
        "Content-Type": "application/json",
        "X-MCP-Subscription-Id": subscription_id,
        **signed(keys, message),
    }
    try:
        with open_url(url, body=message.body, headers=headers, timeout=TIMEOUT) as reply:
            answer = _beginning_of(reply)
    except OutboundError as error:
        return Outcome(False, ERRORS.get(error.reason, LastError.CONNECTION_REFUSED))
    if 200 <= reply.status < 300:
        return Outcome(True, answer=answer)
    kind = LastError.HTTP_5XX if reply.status >= 500 else LastError.HTTP_4XX
    wait = limits.natural(reply.headers.get("Retry-After", "")) or 0
    return Outcome(False, kind, is_final=reply.status in DROPPED, retry_after=wait)


def _beginning_of(reply: Response) -> bytes:
    """Return what arrives of the body; the status alone decides what became of the attempt."""
    content = b""
    with suppress(OutboundError):
        while chunk := reply.read(MAX_ANSWER - len(content)):
            content += chunk
    return content


def signed(keys: Sequence[str], message: Message) -> dict[str, str]:
    """Return the headers of an attempt, which is signed now."""
    now = datetime.now(UTC)
    text = message.body.decode()
    signatures = [Webhook(key).sign(message.id, now, text) for key in keys]
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


async def send_in_thread(
    url: str, keys: Sequence[str], subscription_id: str, message: Message
) -> Outcome:
    """``send`` on a thread of its own; raises ServerBusy if too many requests wait for one."""
    call = partial(send, url, keys, subscription_id, message)
    return await asyncio.wrap_future(_pool.submit(call))


_pool = ThreadPool(THREADS, "django-mcp-webhooks", max_waiting=MAX_WAITING, not_started=ServerBusy)


# Verification.


async def verify(url: str, secret: str, subscription_id: str) -> None:
    """Send a challenge to a receiver, and compare its answer.

    Raises InvalidParams for a URL without https, ResourceExhausted if its host was sent too
    many challenges, and CallbackEndpointError for a receiver that does not answer as it should.
    """
    try:
        check_url(url)
    except OutboundError as error:
        raise InvalidParams(f"delivery.url: {error}") from None
    await pools.run_in_threads_of(THREADS_OF_QUERIES, partial(_count_challenge, url))
    challenge = secrets.token_urlsafe(32)
    message = Message.control("verification", challenge=challenge)
    outcome = await send_in_thread(url, [secret], subscription_id, message)
    if not outcome.is_accepted:
        raise errors.CallbackEndpointError(outcome.error)
    answered = _challenge_of(outcome.answer)
    if not hmac.compare_digest(answered.encode(errors="replace"), challenge.encode()):
        raise errors.CallbackEndpointError(LastError.CHALLENGE_FAILED)


def _count_challenge(url: str) -> None:
    """Count a challenge for its host; raises ResourceExhausted if there were too many."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in conf.get().private_hosts:
        host = parts.netloc  # Receivers of a test, or several within the network of the site.
    try:
        count = CHALLENGES.add(host)
    except StoreBusy:  # What cannot be counted is not sent.
        count = MAX_CHALLENGES + 1
    if count > MAX_CHALLENGES:
        raise errors.ResourceExhausted.of("challenges of one host in a minute", MAX_CHALLENGES)


def _challenge_of(answer: bytes) -> str:
    try:
        content: Json = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    challenge = content.get("challenge") if isinstance(content, dict) else None
    return challenge if isinstance(challenge, str) else ""
