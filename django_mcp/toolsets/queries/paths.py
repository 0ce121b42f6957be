"""Declared paths, such as ``customer__name``: the field at the end, and the relations before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, Model
from django.db.models.sql import Query
from django.db.models.sql.datastructures import Join

from django_mcp.core.components.base import ConfigurationError
from django_mcp.runtime.django_types.field_types import is_composite

SEPARATOR = "__"
MAX_RELATIONS = 3
"""Relations in one path."""

Relations = tuple[str, ...]
"""The names of the relations from a model, such as ``("customer", "city")``."""

ColumnKey = tuple[Relations, str]
"""The identity of a column in a query: the relations to its table, and its attribute name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A path to a field over single-valued relations, as it was declared."""

    name: str
    reference: str
    """Its name for the ORM."""
    key: ColumnKey
    relations: Relations
    """To the row that has the value. For a foreign key, the related row is one of them, unless the
    foreign key is the primary key."""
    models: tuple[type[Model], ...]
    """The related models, in the order of ``relations``."""
    field: Any
    """The field with the value; for a foreign key, the key of the related model."""
    titled: Any
    """The field that was named, for its title and its help text."""
    is_nullable: bool

    def prefixes(self) -> Iterator[tuple[Relations, type[Model]]]:
        """The relations on the way, each with its model, the nearest first."""
        for count, model in enumerate(self.models, start=1):
            yield self.relations[:count], model

    @property
    def compared_field(self) -> Any:
        """The field whose lookups a filter has; a foreign key has few of them."""
        if self.titled.is_relation and not self.titled.concrete:
            return self.titled.related_model._meta.pk
        return self.titled

    def has_lookup(self, name: str) -> bool:
        """Whether the value has a lookup, or a transform, of this name."""
        field = self.compared_field
        return bool(field.get_lookup(name) or field.get_transform(name))

    @property
    def text_reference(self) -> str:
        """The name of the value for the ORM that has all lookups of its type."""
        names = [self.reference]
        field = self.compared_field
        while field.is_relation:
            field = field.target_field
            names.append(field.name)
        return SEPARATOR.join(names)


def resolve(model: type[Model], name: str, where: str) -> Path:
    """Return the path ``name`` from ``model``; raises ConfigurationError, which names the remedy.

    A field with many values, such as a ManyToManyField, is rejected.
    """
    *steps, last = name.split(SEPARATOR)
    if len(steps) > MAX_RELATIONS:
        raise ConfigurationError(
            f"{where} names {name!r}, with {len(steps)} relations: at most {MAX_RELATIONS} are "
            "possible, so declare a toolset for the related model"
        )
    relations = list(_relations(model, steps, name, where))
    current = relations[-1].related_model if relations else model
    field = _field(current, last, name, where)
    if is_composite(field):
        raise ConfigurationError(
            f"{where} names {name!r}, but the primary key of {current.__name__} has several "
            f"columns: name them ({', '.join(field.field_names)}), or a unique field"
        )
    reference = name
    if field.is_relation and not _is_parent_link(field):
        _require_single(field, current, name, where)
        reference = SEPARATOR.join((*steps, field.attname if field.concrete else f"{last}__pk"))
        # A row's own key is a part of the row, also where it is the key of a related one.
        is_own_key = field.concrete and field.primary_key
        if not is_own_key:
            relations.append(field)
            steps.append(last)
    query = model._base_manager.order_by().values(reference).query
    column: Any = query.select[0]
    # The key of a row may itself be a foreign key.
    value_field = field
    while value_field.is_relation:
        target = getattr(value_field, "target_field", None)
        value_field = target or value_field.related_model._meta.pk
    is_nullable = field.null or any(each.null or not each.concrete for each in relations)
    return Path(
        name=name,
        reference=reference,
        key=(table_paths(query)[column.alias], column.target.attname),
        relations=tuple(steps),
        models=tuple(each.related_model for each in relations),
        field=value_field,
        titled=field,
        is_nullable=is_nullable,
    )


def _relations(model: type[Model], steps: Sequence[str], name: str, where: str) -> Iterator[Any]:
    for step in steps:
        relation = _field(model, step, name, where)
        if not relation.is_relation:
            raise ConfigurationError(
                f"{where} names {name!r}, but {model.__name__}.{step} is no relation: name "
                f"{step!r}, or a lookup in filter_fields"
            )
        _require_single(relation, model, name, where)
        yield relation
        model = relation.related_model


def table_paths(query: Query) -> dict[str, Relations]:
    """The relations that lead to each table of a query, by the alias of the table."""
    paths: dict[str, Relations] = {}
    for alias, table in query.alias_map.items():
        if isinstance(table, Join):
            step: Any = table.join_field
            # The row of a parent model is a part of the row.
            is_parent = _is_parent_link(step) or _is_parent_link(step.remote_field)
            before = paths[table.parent_alias]
            paths[alias] = before if is_parent else (*before, step.name)
        else:
            paths[alias] = ()
    return paths


def _is_parent_link(field: Any) -> bool:
    remote = getattr(field, "remote_field", None)
    return bool(getattr(remote, "parent_link", False) and getattr(field, "concrete", False))


def _field(model: type[Model], step: str, name: str, where: str) -> Any:
    if step == "pk":
        return model._meta.pk
    try:
        return model._meta.get_field(step)
    except FieldDoesNotExist:
        fields = model._meta.get_fields()
        names = ", ".join(sorted(field.name for field in fields if isinstance(field, Field)))
        raise ConfigurationError(
            f"{where} names {name!r}, but {model.__name__} has no field {step!r}. It has: {names}"
        ) from None


def _require_single(relation: Any, model: type[Model], name: str, where: str) -> None:
    if relation.related_model is None or isinstance(relation.related_model, str):
        raise ConfigurationError(
            f"{where} names {name!r}, but {model.__name__}.{relation.name} relates to no single "
            "model: name its own fields instead"
        )
    if relation.many_to_many or relation.one_to_many:
        raise ConfigurationError(
            f"{where} names {name!r}, but {model.__name__}.{relation.name} has many values: "
            f"declare a toolset for {relation.related_model.__name__}, and let callers filter that"
        )
