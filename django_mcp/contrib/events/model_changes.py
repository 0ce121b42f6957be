"""Changes of models as events: objects that are created, saved or deleted, and conditions.

A condition became true if it was false for the row. The row is read before it is saved, by one
query while somebody is interested in the event: the values that an object was loaded with may have
been changed in place, rolled back, or read again. Fields that an object lacks are read before its
row is deleted.

Django sends no signal for ``QuerySet.update`` and ``bulk_create``: such code calls ``emit``. A save
in another database than the router names for writing, such as a copy for an archive, is not an
event: subscribers could not read it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import models, router
from django.db.models.signals import post_delete, post_save, pre_delete, pre_save

from django_mcp.contrib.events import interest
from django_mcp.contrib.events.declaration import Event
from django_mcp.pubsub.model_changes import family

UID = "django_mcp.events"
FORMER = "_mcp_former_values"
"""The attribute of an object that is being saved with the values of its row."""

_observed: dict[type[models.Model], list[Event]] = {}
"""The events of each model, by the class that signals are sent for."""


def observe(event: Event) -> None:
    """Emit an event when objects of its model change."""
    for sender in family(event.model):
        post_save.connect(_saved, sender=sender, dispatch_uid=UID)
        post_delete.connect(_deleted, sender=sender, dispatch_uid=UID)
        if event.on == "deleted":
            pre_delete.connect(_deleting, sender=sender, dispatch_uid=UID)
        if event.when is not None:
            pre_save.connect(_saving, sender=sender, dispatch_uid=UID)
        _observed.setdefault(sender, []).append(event)


def _wanted(sender: Any, using: str) -> list[Event]:
    """Return the events of a change in a database that somebody is interested in."""
    return [
        event
        for event in _observed.get(sender, ())
        if event.server is not None
        and interest.HERE.has((event.server.name, event.name))
        and using == router.db_for_write(event.model)
    ]


def _saving(sender: Any, instance: Any, using: str, raw: bool, **_: Any) -> None:
    """Read the row of an object for its conditions."""
    instance.__dict__.pop(FORMER, None)  # Of a save that has failed.
    if raw or instance._state.adding or not any(event.when for event in _wanted(sender, using)):
        return
    names = [field.attname for field in instance._meta.concrete_fields]
    rows = sender._base_manager.using(using).filter(pk=instance.pk)
    instance.__dict__[FORMER] = rows.values(*names).first()


def _saved(
    sender: Any,
    instance: Any,
    created: bool,
    using: str,
    raw: bool = False,
    update_fields: Any = None,
    **_: Any,
) -> None:
    former = instance.__dict__.pop(FORMER, None)
    events = [] if raw else _wanted(sender, using)
    before = None if created or not former else _with(instance, former)
    row: dict[str, Any] = {}
    if any(event.when for event in events):
        unsaved = _unsaved(instance, former or {}, update_fields)
        row = {**unsaved, **_computed(sender, instance, using)}
    for event in events:
        if event.on == "deleted" or (event.on == "created" and not created):
            continue
        if event.when is not None:
            is_true = event.when(_with(instance, row) if row else instance)
            if not is_true or (before is not None and event.when(before)):
                continue
        event.emit(instance, using=using)


def _expressions(instance: Any) -> list[str]:
    """Return the fields whose value the database has computed, and the object does not know."""
    return [
        field.attname
        for field in instance._meta.concrete_fields
        if hasattr(instance.__dict__.get(field.attname), "resolve_expression")
    ]


def _computed(sender: Any, instance: Any, using: str) -> dict[str, Any]:
    """Return the values in the row that the database has computed, and the object does not know."""
    generated = [field.attname for field in instance._meta.concrete_fields if field.generated]
    names = {*generated, *_expressions(instance)}
    if not names:
        return {}
    return sender._base_manager.using(using).filter(pk=instance.pk).values(*names).first() or {}


def _unsaved(instance: Any, known: Mapping[str, Any], update_fields: Any) -> dict[str, Any]:
    """Return the values in the row of the fields that a save with ``update_fields`` left out."""
    if update_fields is None:
        return {}
    left_out = (
        f for f in instance._meta.concrete_fields if not {f.name, f.attname} & {*update_fields}
    )
    return {f.attname: known[f.attname] for f in left_out if f.attname in known}


def _with(instance: Any, values: Mapping[str, Any]) -> Any:
    """Return a copy of an object with other values."""
    copied = copy.copy(instance)
    copied.__dict__.update(values)
    copied._state.fields_cache = {}
    return copied


def _of_deletion(sender: Any, using: str) -> list[Event]:
    """Return the events of the deletion of a row that somebody is interested in."""
    return [
        event
        for event in _wanted(sender, using)
        # The row of a parent has a signal of its own, if it is deleted with that of its child.
        if event.on == "deleted" and sender._meta.concrete_model is event.model._meta.concrete_model
    ]


def _deleting(sender: Any, instance: Any, using: str, **_: Any) -> None:
    """Read the fields that an object lacks while its row is there."""
    lacking = _lacking(instance)
    if lacking and _of_deletion(sender, using):
        with suppress(ObjectDoesNotExist):  # Somebody else has deleted the row.
            instance.refresh_from_db(using=using, fields=lacking)


def _lacking(instance: Any) -> list[str]:
    return [*instance.get_deferred_fields(), *_expressions(instance)]


def _deleted(sender: Any, instance: Any, using: str, **_: Any) -> None:
    events = _of_deletion(sender, using)
    # The row of an object that lacks fields was gone before: that deletion was the event.
    if events and not _lacking(instance):
        for event in events:
            event.emit(instance, using=using)
