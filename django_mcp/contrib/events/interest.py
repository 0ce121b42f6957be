"""The events that somebody is interested in: a process writes nothing for the others.

A process remembers the answer for FRESH seconds. Whoever is among the first to be interested in a
type is answered after that time, so that every process writes from then on: no message between
processes has to arrive for that.

A type that becomes of interest takes a position of its own. Cursors before it are those of clients
that were away while nobody was interested: they are told that events may be missing (``misses``).

| an event type is | when | its emission costs |
|---|---|---|
| of no interest | nobody has polled it or has a subscription | a look at memory |
| of interest | an ``Interest`` or a live ``Subscription`` exists | one INSERT |

Every FRESH seconds at most, an emission in a process costs one query more, which reads the answer.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta

from django.db import router
from django.db.models import Exists, OuterRef, Q, QuerySet, Value

from django_mcp import conf
from django_mcp.contrib.events import occurrences
from django_mcp.contrib.events.models import Interest, Subscription
from django_mcp.stores.base import digest
from django_mcp.tasks import database_clock
from django_mcp.tasks.database_clock import Now

FRESH = 2.0
"""Seconds that a process remembers the events that somebody is interested in."""

Key = tuple[str, str]
"""The names of a server and of an event type."""


class Interests:
    """The interests that one process knows."""

    def __init__(self) -> None:
        self.polled: frozenset[Key] = frozenset()
        self.webhooks: frozenset[Key] = frozenset()
        self._until = 0.0
        self._lock = threading.Lock()

    def has(self, key: Key) -> bool:
        """Whether an occurrence has to be written."""
        if time.monotonic() >= self._until:
            self.read()
        return key in self.polled or key in self.webhooks

    def read(self) -> None:
        """Ask the tables, and remember the answer."""
        # Before the query: the answer may be older than its arrival.
        began_at = time.monotonic()
        alias = router.db_for_write(Interest)
        polled = Interest._default_manager.using(alias).filter(until__gt=Now())
        live = Subscription.objects.using(alias).live().order_by()
        columns = ("server", "event", "is_webhook")
        first = polled.annotate(is_webhook=Value(0)).values_list(*columns)
        second = live.annotate(is_webhook=Value(1)).values_list(*columns)
        rows = list(first.union(second))
        with self._lock:
            self.polled = frozenset((s, e) for s, e, is_webhook in rows if not is_webhook)
            self.webhooks = frozenset((s, e) for s, e, is_webhook in rows if is_webhook)
            self._until = began_at + FRESH

    def forget(self) -> None:
        """Read again before the next answer."""
        self._until = 0.0


HERE = Interests()


def begin(server: str, event: str) -> bool:
    """Note that somebody polls or streams a type; return whether to answer after FRESH seconds.

    A renewal is written about twice while an occurrence is kept.
    """
    return _hold(server, event, timedelta(seconds=conf.get().events_retention))


def begin_subscription(server: str, event: str) -> bool:
    """Note that a subscription is about to be stored; return whether to answer after FRESH seconds.

    The type is of interest until the row of the subscription says so.
    """
    return _hold(server, event, timedelta(seconds=FRESH))


def misses(server: str, event: str, position: int) -> bool:
    """Whether occurrences after a position may not have been written."""
    return not _rows(server, event).filter(since__lte=position).exists()


def without_interest() -> QuerySet[Interest]:
    """Return the rows of types that nobody is interested in any more."""
    alias = router.db_for_write(Interest)
    live = Subscription.objects.using(alias).live().order_by()
    live = live.filter(server=OuterRef("server"), event=OuterRef("event"))
    over = Interest._default_manager.using(alias).filter(until__lte=Now())
    return over.exclude(Exists(live))


def _rows(server: str, event: str) -> QuerySet[Interest]:
    """Return the row of a type, from the database for writing."""
    rows = Interest._default_manager.using(router.db_for_write(Interest))
    return rows.filter(pk=digest(server, event))


def _hold(server: str, event: str, lifetime: timedelta) -> bool:
    """Keep a type of interest for a time; return whether processes may not know of it yet."""
    row = _rows(server, event)
    # A row is committed a moment after the time in it: it counts as new for longer than FRESH.
    seen_at = database_clock.after(timedelta(seconds=-2 * FRESH))
    seen_everywhere = row.filter(Q(began_at=None) | Q(began_at__lte=seen_at))
    if seen_everywhere.filter(until__gt=database_clock.after(lifetime / 2)).exists():
        return False
    until = database_clock.after(lifetime)
    with occurrences.lock() as counter:
        if not row.exists() or without_interest().filter(pk=digest(server, event)).exists():
            row.update_or_create(
                pk=digest(server, event),
                defaults={
                    "server": server,
                    "event": event,
                    "until": until,
                    "since": occurrences.take_position(counter),
                    "began_at": Now(),
                },
            )
            is_new = True
        else:
            row.filter(until__lt=until).update(until=until)
            is_new = not seen_everywhere.exists()
    HERE.forget()
    return is_new


os.register_at_fork(after_in_child=HERE.forget)
