"""Reading occurrences in their order, which is decided after their commit; and cursors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from django.db import models, router, transaction
from django.db.models import Exists, F, OuterRef

from django_mcp import Frame, InvalidParams, conf, registry
from django_mcp.contrib.events.models import Counter, Occurrence, Subscription
from django_mcp.core.protocol.limits import MAX_CURSOR
from django_mcp.models import PRINCIPAL_LENGTH, delete_in_steps
from django_mcp.tasks import database_clock

AT_ONCE = 500
"""Occurrences that get their positions in one transaction."""
THE_COUNTER = 1
CURSOR = "event_cursor"
"""The purpose of the signatures of cursors."""


class Batch(NamedTuple):
    """The occurrences after a position."""

    occurrences: Sequence[Occurrence]
    position: int
    """Up to here, all occurrences of the type are in the batch."""
    is_truncated: bool
    """Whether some before may be deleted, or too old."""
    has_more: bool


def _alias() -> str:
    return router.db_for_write(Occurrence)


def _rows() -> models.QuerySet[Occurrence]:
    return Occurrence._default_manager.using(_alias())


def _counters() -> models.QuerySet[Counter]:
    return Counter._default_manager.using(_alias())


@contextmanager
def lock() -> Iterator[Counter]:
    """Hold the lock for giving positions, in a transaction; the context has the counter.

    Its holder sees everything that earlier holders committed.
    """
    _counters().get_or_create(pk=THE_COUNTER)
    with transaction.atomic(using=_alias()):
        _counters().filter(pk=THE_COUNTER).update(last=F("last"))
        yield _counters().get(pk=THE_COUNTER)


def take_position(counter: Counter) -> int:
    """Return a position that no occurrence has; ``counter`` is that of ``lock``."""
    counter.last += 1
    _counters().filter(pk=THE_COUNTER).update(last=counter.last)
    return counter.last


def number() -> None:
    """Give positions to the occurrences that were committed, in the order of their ids.

    Commits during the last round are left to the next call. Otherwise, a call would never end
    while others write all the time.
    """
    while _rows().filter(position=None).exists():
        with lock() as counter:
            waiting = list(_rows().filter(position=None).order_by("id").only("id")[:AT_ONCE])
            for number, occurrence in enumerate(waiting, counter.last + 1):
                occurrence.position = number
            _rows().bulk_update(waiting, ["position"])
            _counters().filter(pk=THE_COUNTER).update(last=counter.last + len(waiting))
        if len(waiting) < AT_ONCE:
            return


def last_position() -> int:
    """Return the last position that was given, once all committed occurrences have one."""
    number()
    counter = _counters().filter(pk=THE_COUNTER).first()
    return 0 if counter is None else counter.last


def after(
    server: str, event: str, position: int, limit: int, *, max_age: timedelta | None = None
) -> Batch:
    """Return the next occurrences of a type after a position, at most ``limit``.

    Those older than ``max_age`` are left out.
    """
    # Read first: an occurrence that gets its position meanwhile is in this batch or the next.
    last = last_position()
    counter = _counters().filter(pk=THE_COUNTER).first()
    is_truncated = counter is not None and position < counter.pruned
    following = _rows().filter(server=server, event=event, position__gt=position)
    if max_age is not None:
        too_old = following.filter(created_at__lt=database_clock.after(-max_age))
        is_truncated = is_truncated or too_old.exists()
        following = following.filter(created_at__gte=database_clock.after(-max_age))
    page = list(following.order_by("position")[: limit + 1])
    has_more = len(page) > limit
    page = page[:limit]
    up_to = page[-1].position if page else position
    if not has_more:
        up_to = max(last, up_to or 0)
    return Batch(page, up_to or 0, is_truncated, has_more)


def prune() -> int:
    """Delete the occurrences that are older than EVENTS_RETENTION, and return their number."""
    too_old = database_clock.after(-timedelta(seconds=conf.get().events_retention))
    old = _rows().filter(created_at__lt=too_old, position__isnull=False)
    highest = old.aggregate(highest=models.Max("position"))["highest"]
    if highest is None:
        return 0
    # Webhooks that lack none of them are moved behind them, so that they have no gap.
    missing = _rows().filter(
        server=OuterRef("server"),
        event=OuterRef("event"),
        position__gt=OuterRef("position"),
        position__lte=highest,
    )
    webhooks = Subscription.objects.using(_alias()).filter(position__lt=highest)
    webhooks.exclude(Exists(missing)).update(position=highest)
    # Before they are deleted: a reader in between is told of a gap that is not there yet.
    behind = _counters().filter(pk=THE_COUNTER, pruned__lt=highest)
    behind.update(pruned=highest)
    return delete_in_steps(old.filter(position__lte=highest))


# Cursors: positions that a server has signed for one caller and one event type.


def cursor_of_frame(frame: Frame, event: str, position: int) -> str:
    key = frame.principal.key[:PRINCIPAL_LENGTH]
    return frame.server.sign(CURSOR, key, str(position), event)


def cursor_of_subscription(subscription: Subscription, position: int) -> str:
    """Return the cursor for the caller of a subscription; raises LookupError without its server."""
    server = registry.find(subscription.server)
    if server is None:
        raise LookupError(f"This process has no MCP server {subscription.server!r}")
    return server.sign(CURSOR, subscription.principal, str(position), subscription.event)


def read_cursor(frame: Frame, event: str, cursor: str) -> int:
    """Return the position; raises InvalidParams for a cursor of another server, caller or event."""
    key = frame.principal.key[:PRINCIPAL_LENGTH]
    text = None
    if 0 < len(cursor) <= MAX_CURSOR:
        text = frame.server.unsign(CURSOR, key, cursor, event)
    if text is None or not text.isdecimal():
        raise InvalidParams("Invalid cursor")
    return int(text)
