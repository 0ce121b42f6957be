"""Effects of the deletion of a row: rows that are deleted with it, and rows that change.

This module does not know who may do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.contrib.admin.utils import NestedObjects
from django.db.models import Model, QuerySet

Rows = Mapping[type[Model], Sequence[Model]]


class TooManyRows(Exception):
    """More rows would be deleted or changed than the toolset allows."""


class ProtectedRows(Exception):
    """Rows that depend on the row protect it from being deleted."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """The effects of the deletion of a row, as the database is now."""

    deleted: Rows
    """The rows that are deleted, with the row itself, without the links of many-to-many fields."""
    changed: Rows
    """Other rows that lose a value: a foreign key (SET_NULL, SET_DEFAULT, SET), or a link."""

    def others(self, row: Model) -> Iterator[tuple[type[Model], Sequence[Model]]]:
        """The deleted rows but for ``row``, by model."""
        for model, rows in self.deleted.items():
            if others := [other for other in rows if other != row]:
                yield model, others


def collect(row: Model, using: str, most: int) -> Cascade:
    """Return the effects of the deletion of ``row``, at most ``most`` rows for each relation.

    Raises TooManyRows, and ProtectedRows for a row that cannot be deleted.
    """
    collector = _Collector(using, most)
    collector.collect([row])
    if collector.protected:
        raise ProtectedRows
    by_model: Any = collector.model_objs  # By model; the stubs have names.
    deleted = {model: [*rows] for model, rows in by_model.items() if not model._meta.auto_created}
    links = {model: [*rows] for model, rows in by_model.items() if model._meta.auto_created}
    if any(len(rows) > most + 1 for rows in by_model.values()):
        raise TooManyRows  # Generic relations are not bounded while they are collected.
    # Rows that lose a foreign key, which is set to null, to its default or to another value.
    updates: Any = collector.field_updates  # Lists of querysets; the stubs have lists of rows.
    updated = chain.from_iterable(chain.from_iterable(updates.values()))
    losing = chain(updated, _with_links(links, using))
    return Cascade(deleted, _without(deleted, losing))


class _Collector(NestedObjects):
    """Collects rows as the admin does, up to a number for each relation."""

    force_collection = True
    """From Django 6.1 on, rows that the database itself deletes are collected, too."""

    def __init__(self, using: str, most: int) -> None:
        super().__init__(using=using, origin=None)
        self.most = most

    def related_objects(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().related_objects(*args, **kwargs)
        if len(rows.order_by().values("pk")[: self.most + 1]) > self.most:
            raise TooManyRows
        return rows


def _with_links(links: Rows, using: str) -> Iterator[Model]:
    """The rows with a many-to-many field that loses a link."""
    for through, rows in links.items():
        owner: Any = through._meta.auto_created
        field = next(
            field
            for field in owner._meta.local_many_to_many
            if field.remote_field.through is through
        )
        source: Any = through._meta.get_field(field.m2m_field_name())
        keys = {getattr(row, source.attname) for row in rows}
        yield from owner._base_manager.using(using).filter(pk__in=keys)


def _without(deleted: Rows, rows: Iterator[Model]) -> Rows:
    """Return the rows by model, each once, without those that are deleted anyway."""
    gone = {_identity(row) for row in chain.from_iterable(deleted.values())}
    changed: dict[type[Model], dict[Any, Model]] = {}
    for row in rows:
        if _identity(row) not in gone:
            changed.setdefault(type(row), {})[row.pk] = row
    return {model: [*by_key.values()] for model, by_key in changed.items()}


def _identity(row: Model) -> tuple[Any, Any]:
    return row._meta.concrete_model, row.pk
