"""Writing an occurrence, in the transaction of the change.

There is one outbox, in the database that the router returns for writing ``Occurrence``. A change in
this database and its occurrence are one transaction. The occurrence of a change in another database
is written after the commit, and is lost if the process dies between the two.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from uuid import uuid4

from django.db import models, router, transaction

from django_mcp.contrib.events import delivery, interest
from django_mcp.contrib.events.declaration import Event
from django_mcp.contrib.events.models import EVENT_ID_LENGTH, Occurrence
from django_mcp.core.components.base import ConfigurationError
from django_mcp.pubsub import bus
from django_mcp.tasks.database_clock import Now

GROUP = bus.group("events")
"""Receives a hint when occurrences were committed."""


def emit(event: Event, value: Any, *, event_id: str | None, using: str | None) -> str | None:
    """Write an occurrence if somebody is interested; return its id. See ``Event.emit``.

    ``using`` is the database of the change: by default, the one for writing the object, or else the
    outbox.
    """
    if event.server is None:
        raise ConfigurationError(
            f"The event {event.name!r} at {event.source} is not registered: import it in the mcp "
            "module of an app"
        )
    key = (event.server.name, event.name)
    if not interest.HERE.has(key):
        return None
    event_id = event_id or uuid4().hex
    # Webhooks have it in a header.
    is_sendable = event_id.isascii() and event_id.isprintable() and event_id == event_id.strip()
    if not is_sendable or len(event_id) > EVENT_ID_LENGTH:
        raise ValueError(
            f"The id of an event has at most {EVENT_ID_LENGTH} printable characters of ASCII, and "
            f"no space at its ends, such as a primary key: {event_id!r} has others"
        )
    occurrence = Occurrence(
        event_id=event_id,
        server=event.server.name,
        event=event.name,
        created_at=Now(),
        **_content(event, value, event_id),
    )
    alias: str = router.db_for_write(Occurrence)
    changed = using or alias
    if using is None and isinstance(value, models.Model):
        # The object may have been read from a replica.
        changed = router.db_for_write(type(value), instance=value)

    # Django logs the names of functions that fail after a commit: a partial has none.
    def save() -> None:
        occurrence.save(force_insert=True, using=alias)

    if changed == alias:
        save()
    else:
        # The change is committed already: an error is logged, and fails no request.
        transaction.on_commit(save, using=changed, robust=True)
    transaction.on_commit(lambda: _committed(key), using=changed, robust=True)
    return event_id


def _content(event: Event, value: Any, event_id: str) -> dict[str, str]:
    if event.model is None:
        return {"data": json.dumps(event.dump(value))}
    # Proxies have the rows of their model, and children have a row of their parents.
    if not isinstance(value, event.model._meta.concrete_model):
        raise TypeError(f"The event {event.name} is of {event.model.__name__}, not of {value!r}")
    key = event.model._meta.pk
    # An object may have its key in another form than its row, such as a UUID without hyphens.
    content = {"object_key": str(key.to_python(getattr(value, key.attname)))}
    if event.on == "deleted":
        content["data"] = event.store(value, event_id)
    return content


def _committed(key: interest.Key) -> None:
    """Wake what waits for occurrences: the deliverer, and streams of this and other processes."""
    if key in interest.HERE.webhooks:
        delivery.wake()
    message = {"server": key[0], "event": key[1]}
    loop = bus.any_loop()
    if loop is None:
        return  # Streams of other processes look at the table in time.
    with suppress(RuntimeError):  # It is closed.
        loop.call_soon_threadsafe(bus.publish_soon, GROUP, message)
