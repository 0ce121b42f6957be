"""The visible rows of one caller in one call, and the rows related to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any

from django.core.exceptions import EmptyResultSet, ImproperlyConfigured
from django.db.models import Case, F, Model, Q, QuerySet, When
from django.db.models.sql import Query

from django_mcp.toolsets.queries.paths import SEPARATOR, Path, Relations

ALIAS = "toolset_value_"

ROW_LIMIT = "is_toolset_row_limit"
"""The attribute of a subquery that limits rows; a copy of the query has it as well."""

Rows = QuerySet[Any] | None
"""The keys of visible related rows; None where there are none."""


class VisibleValue(Case):
    """The value of a related row, or null if the caller may not see one of the rows on the way.

    A condition of the join would be shorter, but Django makes an inner join of it where the
    foreign key cannot be null, so that the row would be hidden together with its relation.
    """


@dataclass(slots=True)
class VisibleRows:
    """The rows that a caller may see, as a query that selects nothing yet.

    A related row that the caller may not see is treated as if there was none: its values are
    null, in answers, filters, orderings and groups.
    """

    queryset: QuerySet[Any]
    limits: dict[Relations, Rows] = field(default_factory=dict)
    """The visible rows of each relation, if not all are visible."""
    aliases: dict[str, str] = field(default_factory=dict)

    def reference(self, path: Path) -> str:
        """Return the name of a value in this query, for ``F()`` or a filter."""
        if (alias := self.aliases.get(path.name)) is not None:
            return alias
        limited = [relations for relations, _ in path.prefixes() if relations in self.limits]
        if not limited:
            return path.reference
        condition = reduce(and_, map(self._is_visible, limited))
        alias = self.aliases[path.name] = f"{ALIAS}{len(self.aliases)}"
        value = VisibleValue(When(condition, then=F(path.reference)))
        self.queryset = self.queryset.annotate(**{alias: value})
        return alias

    def _is_visible(self, relations: Relations) -> Q:
        source = SEPARATOR.join(relations)
        rows = self.limits[relations]
        if rows is None:
            # Never true of a related row. An empty subquery would leave a constant, and PostgreSQL
            # does not sort by one.
            return Q(**{f"{source}__isnull": True})
        # A foreign key with to_field stores another value than the primary key.
        return Q(**{f"{source}__pk__in": rows})


def visible(
    queryset: QuerySet[Any], model: type[Model], where: str, *, using: str | None = None
) -> QuerySet[Any]:
    """Return the rows of a queryset of the site, as a query without its other parts.

    Only its rows are taken over: its columns, joins and annotations stay in a subquery.
    Raises ImproperlyConfigured for a queryset of another model, or of a part of the rows.
    """
    if not isinstance(queryset, QuerySet) or queryset.model._meta.concrete_model is not (
        model._meta.concrete_model
    ):
        raise ImproperlyConfigured(f"{where} must return a queryset of {model.__name__}")
    if queryset.query.is_sliced:
        raise ImproperlyConfigured(
            f"{where} returns a slice: return all rows that the caller may see"
        )
    if using is not None:
        queryset = queryset.using(using)
    whole: QuerySet[Any] = QuerySet(model=model, using=queryset.db)
    if is_everything(queryset.query):
        return whole
    return whole.filter(pk__in=keys(queryset))


def keys(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Return the keys of the rows, marked as a limit of rows."""
    if not queryset.query.distinct_fields:
        queryset = queryset.order_by()
    # It runs in the database of the query around it, whatever database the site has chosen.
    subquery = queryset.using(None).values("pk")
    setattr(subquery.query, ROW_LIMIT, True)
    return subquery


def is_everything(query: Query) -> bool:
    """Whether a query has all rows of its table.

    A class of the site may add its conditions when it is compiled, as that of django-safedelete
    does, so nothing is known of it here.
    """
    return (
        type(query) is Query
        and not query.is_sliced
        and not query.where
        and not query.combinator
        and not query.distinct
        and not query.extra_tables
        and not query.is_empty()
        and not query.annotations
        and query.group_by is None
        and len(query.alias_map) <= 1
    )


def related_rows(queryset: QuerySet[Any], using: str) -> QuerySet[Any] | None:
    """Return the keys of visible related rows; None if there are none."""
    rows = keys(queryset)
    try:
        rows.query.get_compiler(using).as_sql()
    except EmptyResultSet:
        # In the condition of a join, it would make the whole query empty.
        return None
    return rows


def prefixes(paths: Iterable[Path]) -> dict[Relations, type[Model]]:
    """The relations of several paths, the nearest first, each with its model."""
    return dict(prefix for path in paths for prefix in path.prefixes())
