"""The methods ``events/subscribe`` and ``events/unsubscribe``: webhooks of a caller."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, router
from django.utils import timezone
from pydantic import Field

from django_mcp import Frame, InvalidParams, conf, registry
from django_mcp.contrib.events import (
    delivery,
    interest,
    occurrences,
    recipients,
    webhook_requests,
)
from django_mcp.contrib.events.errors import Forbidden, NotFound, ResourceExhausted, Unsupported
from django_mcp.contrib.events.methods.polling import (
    NamedParams,
    Params,
    PositionParams,
    in_thread,
    outside_transactions,
    position_of,
)
from django_mcp.contrib.events.models import Status, Subscription
from django_mcp.core.protocol.limits import MAX_URI
from django_mcp.core.server.server import server_of
from django_mcp.models import PRINCIPAL_LENGTH
from django_mcp.outbound import OutboundError, check_url
from django_mcp.stores.base import digest
from django_mcp.tasks import calls
from django_mcp.transports import frames
from django_mcp.transports.http import paths

MAX_ARGUMENTS = 8 * 1024
"""Characters of the arguments of a subscription, as JSON."""
MIN_TTL = timedelta(minutes=1)
DEFAULT_TTL = timedelta(hours=12)
MAX_TTL = timedelta(days=7)
UNASKED_TTL = timedelta(hours=1)
"""For callers of an issuer that does not tell the site when it revokes their access."""


WRITTEN = frozenset(
    {
        "version",
        "user_key",
        "counted_by",
        "client",
        "secret",
        "old_secret",
        "old_secret_until",
        "caller",
        "status",
        "end_error",
        "refreshed_at",
        "expires_at",
        "verified_at",
        "next_attempt_at",
        "attempts",
        "last_error",
        "failed_since",
    }
)
"""The columns of a subscription that a refresh writes. ``position`` is one only with a cursor."""


class Address(Params):
    url: str = Field(max_length=MAX_URI)


class Receiver(Address):
    mode: str
    secret: str = Field(max_length=200)


class SubscribeParams(PositionParams):
    delivery: Receiver
    ttl_ms: int | None = Field(None, ge=0)


class UnsubscribeParams(NamedParams):
    delivery: Address


@outside_transactions
async def subscribe(params: SubscribeParams, frame: Frame) -> dict[str, Any]:
    """``events/subscribe``: have events sent to a URL, or go on with it."""
    _require_principal(frame)
    component = await recipients.find_event(frame, params.name, "webhook")
    component.event.read_arguments(params.arguments)
    url = params.delivery.url
    if params.delivery.mode != "webhook":
        raise Unsupported.of("delivery", params.delivery.mode)
    _check_url(url)
    _check_secret(params.delivery.secret)
    start = position_of(frame, params)
    key = subscription_id(frame, params.name, params.arguments, url)
    principal = await recipients.reauthenticated(server_of(frame), frame.principal)
    longest = MAX_TTL if principal is not None else UNASKED_TTL
    is_verified = await in_thread(frame, _prepare, frame, key, url)
    if not is_verified:
        await webhook_requests.verify(url, params.delivery.secret, key)
    is_new = await in_thread(frame, interest.begin_subscription, frame.server.name, params.name)
    ttl = _ttl(params, longest)
    try:
        saved = await in_thread(frame, _save, frame, params, key, start, ttl)
    except IntegrityError:  # The same request came twice at the same time.
        saved = await in_thread(frame, _save, frame, params, key, start, ttl)
    subscription, is_truncated = saved
    interest.HERE.forget()
    if is_new:
        await asyncio.sleep(interest.FRESH)
    delivery.wake()
    return {
        "id": key,
        "refreshBefore": _iso(subscription.expires_at),
        "cursor": occurrences.cursor_of_subscription(subscription, subscription.position),
        "truncated": is_truncated,
        "deliveryStatus": _delivery_status(subscription),
    }


def _require_principal(frame: Frame) -> None:
    if frame.principal.is_anonymous:
        raise Forbidden("Webhooks are for authenticated callers")


def _check_url(url: str) -> None:
    try:
        check_url(url)
    except OutboundError as error:
        raise InvalidParams(f"delivery.url must be an https URL: {error}") from error
    if "#" in url:
        raise InvalidParams("delivery.url must have no fragment")


def _check_secret(secret: str) -> None:
    prefix, mark, encoded = secret.partition("_")
    try:
        length = len(b64decode(encoded, validate=True))
    except ValueError:
        length = 0
    if (prefix, mark) != ("whsec", "_") or not 24 <= length <= 64:
        raise InvalidParams("delivery.secret must be whsec_ and the base64 of 24 to 64 bytes")


def subscription_id(frame: Frame, name: str, arguments: dict[str, Any], url: str) -> str:
    """Return the id of a subscription: the same whenever the same caller subscribes again."""
    canonical = canonical_json(arguments)
    server = frame.server
    return digest("event", server.name, server.path, frame.principal.key, url, name, canonical)


def canonical_json(arguments: dict[str, Any]) -> str:
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if len(text) > MAX_ARGUMENTS:
        raise InvalidParams(f"The arguments may have at most {MAX_ARGUMENTS} characters of JSON")
    return text


def owner_of(frame: Frame) -> str:
    return digest("event", frame.server.name, frame.server.path, frame.principal.key)


def counted_by(frame: Frame) -> str:
    return digest(frames.counted_as(frame.server, frame.principal, frame.transport))


def _own(frame: Frame) -> Any:
    return Subscription.objects.current().filter(owner=owner_of(frame))


def _prepare(frame: Frame, key: str, url: str) -> bool:
    """Return whether the receiver was verified; raises ResourceExhausted for a new one too many."""
    most = conf.get().events_max_subscriptions
    counted = Subscription.objects.current().live().filter(counted_by=counted_by(frame))
    if counted.exclude(pk=key).count() >= most:
        raise ResourceExhausted.of("subscriptions", most)
    return bool(_own(frame).filter(url=url, verified_at__isnull=False).exists())


def _ttl(params: SubscribeParams, longest: timedelta) -> timedelta:
    """Return the granted time: the requested one, within bounds."""
    if params.ttl_ms is None:
        is_endless = "ttl_ms" in params.model_fields_set
        return longest if is_endless else min(DEFAULT_TTL, longest)
    requested = timedelta(milliseconds=min(params.ttl_ms, 10**12))
    return min(max(requested, MIN_TTL), longest)


def _save(
    frame: Frame, params: SubscribeParams, key: str, start: int | None, ttl: timedelta
) -> tuple[Subscription, bool]:
    """Store a subscription, or refresh it; return it, and whether events are missing."""
    registry.remember(server_of(frame))
    now = timezone.now()
    alias = router.db_for_write(Subscription)
    present = Subscription.objects.current().filter(pk=key).first()
    is_live = present is not None and present.is_live(now)
    row = present or Subscription(id=key, created_at=now)
    is_truncated = False
    if start is not None:
        row.position, is_truncated = _first_position(frame, params, start)
    elif not is_live:
        row.position = occurrences.last_position()
    row.server = frame.server.name
    row.event = params.name
    row.version = frame.revision.version
    row.principal = frame.principal.key[:PRINCIPAL_LENGTH]
    row.user_key = calls.user_key(frame.user)
    row.owner = owner_of(frame)
    row.counted_by = counted_by(frame)
    row.client = str(frame.principal.program or "")[:255]
    row.arguments = canonical_json(params.arguments)
    row.url = params.delivery.url
    row.set_secret(params.delivery.secret)
    captured = paths.as_text(frame.server.path, calls.path_params(frame))
    row.set_caller({**calls.caller_facts(frame), "path_params": captured})
    row.status = Status.ACTIVE
    row.end_error = ""
    row.refreshed_at = now
    row.verified_at = row.verified_at or now
    row.expires_at = now + ttl
    row.next_attempt_at = None
    row.attempts = 0
    row.failed_since = None
    row.last_error = ""
    if present is None:
        row.save(force_insert=True, using=alias)
    else:
        # A deliverer may have changed the others since they were read.
        moved = {"position"} if start is not None or not is_live else set()
        row.save(using=alias, update_fields=WRITTEN | moved)
    return row, is_truncated


def _first_position(frame: Frame, params: SubscribeParams, start: int) -> tuple[int, bool]:
    """Return the position where the replay of events begins, and whether some are missing."""
    batch = occurrences.after(frame.server.name, params.name, start, 1, max_age=params.max_age)
    first = batch.occurrences[0].position if batch.occurrences else None
    position = batch.position if first is None else first - 1
    is_lost = interest.misses(frame.server.name, params.name, start)
    return max(position, start), batch.is_truncated or is_lost


def _delivery_status(subscription: Subscription) -> dict[str, Any]:
    status: dict[str, Any] = {
        "active": subscription.status == Status.ACTIVE,
        "lastDeliveryAt": _iso(subscription.last_delivery_at),
        "lastError": subscription.last_error or None,
    }
    if subscription.failed_since is not None:
        status["failedSince"] = _iso(subscription.failed_since)
    return status


def _iso(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.isoformat()


@outside_transactions
async def unsubscribe(params: UnsubscribeParams, frame: Frame) -> dict[str, Any]:
    """``events/unsubscribe``: end a subscription of the caller, whether the event exists or not."""
    _require_principal(frame)
    key = subscription_id(frame, params.name, params.arguments, params.delivery.url)
    if not await in_thread(frame, _delete, frame, key):
        raise NotFound.of("subscription")
    interest.HERE.forget()
    return {}


def _delete(frame: Frame, key: str) -> int:
    deleted, _ = _own(frame).filter(pk=key).delete()
    return int(deleted)
