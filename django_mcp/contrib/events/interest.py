"""The events that somebody is interested in: a process writes nothing for the others.

A process remembers the answer for FRESH seconds. Whoever is the first to be interested in a type is
answered after that time, so that every process writes from then on: no message between processes
has to arrive for that.

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
from django.db.models import Value

from django_mcp import conf
from django_mcp.contrib.events.models import Counter, Interest, Subscription
from django_mcp.stores.base import digest
from django_mcp.tasks import clock
from django_mcp.tasks.clock import Now

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

    @property
    def is_any(self) -> bool:
        """Whether anybody was interested in anything, as far as is remembered."""
        return bool(self.polled or self.webhooks)

    def read(self) -> None:
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
            self._until = time.monotonic() + FRESH

    def forget(self) -> None:
        """Read again before the next answer."""
        self._until = 0.0


HERE = Interests()


def begin(server: str, event: str) -> bool:
    """Note that somebody polls or streams a type; whether nobody was interested before.

    A renewal is written about twice while an occurrence is kept.
    """
    rows = Interest._default_manager.using(router.db_for_write(Interest))
    own = rows.filter(pk=digest(server, event))
    lifetime = timedelta(seconds=conf.get().events_retention)
    if own.filter(until__gt=clock.after(lifetime / 2)).exists():
        return False
    until = clock.after(lifetime)
    if own.filter(until__gt=Now()).update(until=until):
        return False
    alias = router.db_for_write(Counter)
    counter = Counter._default_manager.using(alias).filter(pk=1).first()
    rows.update_or_create(
        pk=digest(server, event),
        defaults={
            "server": server,
            "event": event,
            "until": until,
            "since": 0 if counter is None else counter.last,
        },
    )
    is_first = not HERE.has((server, event))
    HERE.forget()
    return is_first


def since(server: str, event: str) -> int:
    """Return a position of a type: occurrences before it may not have been written."""
    rows = Interest._default_manager.using(router.db_for_write(Interest))
    known = rows.filter(pk=digest(server, event)).values_list("since", flat=True).first()
    return known or 0


os.register_at_fork(after_in_child=HERE.forget)
