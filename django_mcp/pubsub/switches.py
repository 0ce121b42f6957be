"""Components that the site has switched off, on all workers.

The table decides. Each worker reads it before it answers its first message, when another worker
publishes a change, and every few seconds in case that message was lost. The components of each
server hide those that are switched off as if they did not exist: a call needs no query. A worker
notifies its clients of changed lists after it has changed them, so that the last notification
follows the last worker.

| a worker | hides | who moves it there |
|---|---|---|
| knows nothing | nothing | the start of the process |
| has read | the rows of the table | the first read, a hint, the timer, a change in this process |
| cannot read | the same as before | a read that fails: it is logged, and the timer reads again |
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, models, router, transaction
from django.utils import timezone

from django_mcp import registry
from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.forks import ProcessLock
from django_mcp.core.concurrency.loops import LoopTimer, running_loop
from django_mcp.core.concurrency.thread_pool import PoolEnded
from django_mcp.core.log import log_repeated
from django_mcp.pubsub import bus, catch_up, channel_layer
from django_mcp.registry import Entry
from django_mcp.runtime import background, pools
from django_mcp.stores.base import digest

if TYPE_CHECKING:
    from django_mcp.models import SwitchedOff

GROUP = bus.group("switches")
THREADS = "switches"
FIRST_READ = 5.0
"""Seconds that the first message of a worker waits for the table."""
NOT_READ = (
    "What is switched off cannot be read from the database: what was known before goes on to "
    "hold. Trying again"
)

Rows = dict[str, set[tuple[str, str]]]
"""Kinds and keys by the name of their server."""


def switch_off(entries: Iterable[Entry], *, by: str) -> int:
    """Hide components from all clients, after the commit; returns how many were not hidden."""
    now = timezone.now()
    rows = [
        _model()(
            id=_id_of(entry),
            server=entry.server.name,
            kind=entry.component.kind,
            key=entry.component.key,
            by=by,
            at=now,
        )
        for entry in entries
    ]
    with transaction.atomic(using=_database()):
        same = _table().filter(pk__in=[row.pk for row in rows])
        hidden_before = set(same.values_list("pk", flat=True))
        new = [row for row in rows if row.pk not in hidden_before]
        # Somebody else may switch the same one off at this moment.
        _table().bulk_create(new, ignore_conflicts=True)
        _publish_after_commit()
    return len(new)


def switch_on(entries: Iterable[Entry]) -> int:
    """Undo ``switch_off``; returns how many were hidden."""
    with transaction.atomic(using=_database()):
        deleted, _ = _table().filter(pk__in=[_id_of(entry) for entry in entries]).delete()
        _publish_after_commit()
    return deleted


def row_of(entry: Entry) -> SwitchedOff | None:
    """Return the row of a component that is switched off: its user, and its time."""
    return _table().filter(pk=_id_of(entry)).first()


def refresh(*, is_announced: bool = True) -> None:
    """Read the switched-off components, and hide them in this process. It blocks."""
    # One after the other, so that an older read does not replace a newer one.
    with _reading:
        by_server = _read()
        for server in registry.servers():
            hidden = by_server.get(server.name, ())
            server.components.switch_off(hidden, is_announced=is_announced)


def refresh_safely(*, is_announced: bool = True) -> None:
    """``refresh``; a failure is logged."""
    try:
        refresh(is_announced=is_announced)
    except Exception:
        log_repeated(logging.ERROR, NOT_READ, exc_info=True)


def follow() -> None:
    """Follow the table from now on, as long as the running event loop runs."""
    loops.here(Follower).start()


async def read() -> None:
    """Read the table once, in an event loop that ends soon."""
    await _refresh_in_thread(is_announced=False)


async def loaded() -> None:
    """Wait for the first read of the running event loop, if it follows the table.

    A database that hangs is waited for FIRST_READ seconds, like one that fails.
    """
    follower = loops.here_if_any(Follower)
    if follower is None or follower.first_read is None:
        return
    _, still_reading = await asyncio.wait({follower.first_read}, timeout=FIRST_READ)
    if still_reading:
        log_repeated(logging.ERROR, NOT_READ)


class Follower:
    """The task of one event loop that follows the table."""

    def __init__(self) -> None:
        self.first_read: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.first_read is not None:
            return
        self.first_read = background.create_task(read())
        if channel_layer.shared() is not None:
            background.spawn(bus.here().subscribe(GROUP, _receive))
        _timer.start()


def _receive(_: bus.Message) -> None:
    background.spawn(_refresh_in_thread())


async def _refresh_in_thread(*, is_announced: bool = True) -> None:
    read = partial(refresh, is_announced=is_announced)
    try:
        await pools.run_in_threads_of(THREADS, read)
    except PoolEnded:
        return  # This process ends.
    except Exception:
        log_repeated(logging.ERROR, NOT_READ, exc_info=True)


def _publish_after_commit() -> None:
    transaction.on_commit(_publish, using=_database(), robust=True)


def _publish() -> None:
    """Hide it in this process, and then tell the others."""
    refresh_safely()
    if channel_layer.shared() is None:
        return
    if running_loop() is not None:
        bus.publish_soon(GROUP, {})
    else:
        async_to_sync(bus.publish)(GROUP, {})


def _read() -> Rows:
    by_server: Rows = {}
    try:
        for server, kind, key in _table().values_list("server", "kind", "key"):
            by_server.setdefault(server, set()).add((kind, key))
    except ImproperlyConfigured:
        return {}  # A site without a database.
    except DatabaseError:
        database = connections[_database()]
        if _model()._meta.db_table in database.introspection.table_names():
            raise
        return {}  # Before ``migrate``.
    return by_server


def _model() -> type[SwitchedOff]:
    # The module of the models can be imported only when the apps are ready.
    model: type[SwitchedOff] = apps.get_model("django_mcp", "SwitchedOff")
    return model


def _table() -> models.QuerySet[SwitchedOff]:
    # A replica may not have the latest commits.
    return _model()._default_manager.using(_database())


def _database() -> str:
    return router.db_for_write(_model())


def _id_of(entry: Entry) -> str:
    component = entry.component
    return digest(entry.server.name, component.kind, component.key)


def _pause() -> float:
    return catch_up.INTERVAL * random.uniform(0.8, 1)


_reading = ProcessLock()
_timer = LoopTimer(_refresh_in_thread, pause=_pause, context=pools.context_of_nobody)
