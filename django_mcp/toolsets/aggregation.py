"""Counts, sums, averages, minima and maxima of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db.models import Count, DateField, F, Value

from django_mcp.toolsets import access
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.declaration import (
    FUNCTIONS,
    PERIODS,
    Aggregation,
    Column,
    Declaration,
    Group,
)
from django_mcp.toolsets.queries import query_check
from django_mcp.toolsets.queries.query_check import Allowed
from django_mcp.toolsets.queries.statement_time import limited
from django_mcp.toolsets.reading import Choice, guards
from django_mcp.toolsets.schemas import Arguments

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

COUNT = "toolset_count"
ALL = "toolset_all"
"""The value of a grouping that makes one group of all rows."""


@dataclass(frozen=True, slots=True)
class Aggregator:
    """The operation "aggregate" of one toolset."""

    toolset: BaseToolset
    declaration: Declaration

    def aggregate(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        sent = params.sent()
        declaration = self.declaration
        groups = [declaration.groups[n] for n in dict.fromkeys(sent.get("group_by") or ())]
        names = dict.fromkeys(sent.get("aggregates") or ())
        aggregations = [declaration.aggregations[name] for name in names]
        choice = Choice(declaration, sent)
        used = [group.column.path for group in groups]
        used += [item.column.path for item in aggregations]
        used += choice.paths
        visible_rows = access.visible_rows_of(self.toolset, frame, used)
        grouped: dict[str, Any] = {}
        for n, group in enumerate(groups):
            value: Any = F(visible_rows.reference(group.column.path))
            if group.period is not None:
                value = PERIODS[group.period](value, output_field=DateField())
            grouped[f"toolset_group_{n}"] = value
        computed = {
            f"toolset_aggregate_{n}": FUNCTIONS[item.function](
                visible_rows.reference(item.column.path)
            )
            for n, item in enumerate(aggregations)
        }
        condition = choice.condition(visible_rows)
        rows = (
            visible_rows.queryset.filter(condition)
            .order_by()
            .values(**(grouped or {ALL: Value(1)}))
            .annotate(**{COUNT: Count("*")}, **computed)
            .order_by(F(COUNT).desc(), *(F(name).asc(nulls_first=True) for name in grouped))
        )
        keys = {path.key for path in used}
        allowed = Allowed(
            selected=keys,
            ordered={key[1]: key for key in keys},
            compared=choice.compared(),
            guards=guards(visible_rows, used),
        )
        most = self.toolset.max_groups
        query_check.check(rows.query, allowed)
        with limited(rows.db, self.toolset.statement_timeout):
            first = [*rows[: most + 1]]
        shown = [_shown(row, groups, aggregations) for row in first[:most]]
        return {"groups": shown, "has_more": len(first) > most}


def _shown(
    row: dict[str, Any], groups: Sequence[Group], aggregations: Sequence[Aggregation]
) -> dict[str, Any]:
    values = {
        group.name: _written(row[f"toolset_group_{n}"], group.column)
        for n, group in enumerate(groups)
    }
    for n, item in enumerate(aggregations):
        values[item.name] = _number(row[f"toolset_aggregate_{n}"], item)
    return {**values, "count": row[COUNT]}


def _number(value: Any, item: Aggregation) -> Any:
    """MariaDB adds integers to decimals."""
    if item.column.kind.name != "integer":
        return _written(value, item.column)
    if not isinstance(value, Decimal):
        return value
    return float(value) if item.function == "avg" else int(value)


def _written(value: Any, column: Column) -> Any:
    write = column.kind.write
    return value if write is None else write(value)
