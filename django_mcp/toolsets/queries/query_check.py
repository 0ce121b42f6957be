"""The check of a query of a toolset after it is built, and before it runs.

It is built from listed fields, and from nothing else (``toolsets.reading``). This
module does not trust that: it walks over the query, and rejects any column, lookup, join or
function that the declaration does not list. It knows nothing of arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Aggregate, F, Lookup, OrderBy, Transform, Value
from django.db.models.expressions import Col, Ref
from django.db.models.functions import Substr
from django.db.models.functions.datetime import TruncBase
from django.db.models.sql import Query
from django.db.models.sql.where import NothingNode, WhereNode

from django_mcp.toolsets.queries.paths import ColumnKey, table_paths
from django_mcp.toolsets.queries.references import ROW_LIMIT, VisibleValue

FUNCTIONS = (Aggregate, Substr, TruncBase, Transform, VisibleValue)
"""The functions that a query may apply to a column."""


class UnlistedColumn(Exception):
    """The query uses columns that its toolset does not list. For the log: it names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The columns and joins that a query may use."""

    selected: Collection[ColumnKey] = ()
    ordered: Mapping[str, ColumnKey] = field(default_factory=dict)
    """The columns of orderings, by their reference."""
    compared: Mapping[ColumnKey, Collection[str]] = field(default_factory=dict)
    """The lookups and transforms of each column."""
    guards: Mapping[ColumnKey, int] = field(default_factory=dict)
    """How many limits of related rows must hold where a column is used."""


def check(query: Query, allowed: Allowed) -> None:
    """Raise UnlistedColumn if the query uses a column or join that is not allowed."""
    _Check(query, allowed).run()


class _Check:
    def __init__(self, query: Query, allowed: Allowed) -> None:
        self._query = query
        self._allowed = allowed
        self._tables = table_paths(query)

    def run(self) -> None:
        query = self._query
        allowed = self._allowed
        if query.extra_tables or query.extra or query.combinator or query.select_related:
            raise UnlistedColumn("The query has extra parts")
        if query.default_cols and not query.select and not query.annotation_select:
            raise UnlistedColumn("The query selects whole rows")
        for selected in (*query.select, *query.annotation_select.values()):
            self._expression(selected, allowed.selected)
        for grouped in query.group_by if isinstance(query.group_by, tuple) else ():
            self._expression(grouped, allowed.selected)
        if query.extra_order_by or (query.default_ordering and not query.order_by):
            raise UnlistedColumn("The query is sorted as the model declares")
        for term in query.order_by:
            self._order(term)
        self._where(query.where)

    def _order(self, term: Any) -> None:
        """Check a term of the ordering, which names an annotation or a path."""
        reference: Any = term.expression if isinstance(term, OrderBy) else None
        if not isinstance(reference, F):
            raise UnlistedColumn(f"The query is sorted by {term!r}")
        name = str(getattr(reference, "name", ""))
        ordered = self._allowed.ordered
        if name in self._query.annotations:
            self._expression(self._query.annotations[name], ordered.values())
        elif name not in ordered or self._allowed.guards.get(ordered[name]):
            raise UnlistedColumn(f"The query is sorted by {name}")

    def _where(self, node: Any) -> None:
        if isinstance(node, NothingNode):
            return
        if isinstance(node, WhereNode):
            for child in node.children:
                self._where(child)
        elif isinstance(node, Lookup):
            self._lookup(node)
        else:
            raise UnlistedColumn(f"The query is filtered by a {type(node).__name__}")

    def _lookup(self, lookup: Any) -> None:
        if self._is_row_limit(lookup):
            return
        if hasattr(lookup.rhs, "resolve_expression") and not isinstance(lookup.rhs, Value):
            raise UnlistedColumn(f"The query compares with a {type(lookup.rhs).__name__}")
        used = {lookup.lookup_name}
        left = lookup.lhs
        while isinstance(left, Transform):
            used.add(left.lookup_name)
            left = left.lhs
        column = self._column(left)
        if unlisted := used - {*self._allowed.compared.get(column, ())}:
            raise UnlistedColumn(f"The query compares {column} by {', '.join(sorted(unlisted))}")

    def _is_row_limit(self, lookup: Any) -> bool:
        """Whether it compares the key of the row with the rows that the caller may see."""
        is_limit = isinstance(lookup.rhs, Query) and getattr(lookup.rhs, ROW_LIMIT, False)
        return is_limit and lookup.lookup_name == "in" and isinstance(lookup.lhs, Col)

    def _expression(self, expression: Any, columns: Collection[ColumnKey]) -> None:
        """Check that each column of an expression is one of ``columns``."""
        if isinstance(expression, Value):
            return
        if isinstance(expression, Ref):
            return self._expression(expression.get_source_expressions()[0], columns)
        if isinstance(expression, Col | VisibleValue):
            if (column := self._column(expression)) not in columns:
                raise UnlistedColumn(f"The query uses {column}")
            return None
        if not isinstance(expression, FUNCTIONS):
            raise UnlistedColumn(f"The query uses a {type(expression).__name__}")
        for source in expression.get_source_expressions():
            is_star = type(source).__name__ == "Star"
            if source is not None and not is_star:
                self._expression(source, columns)
        return None

    def _column(self, expression: Any) -> ColumnKey:
        """Return which column it is; a related one must be limited as the caller is."""
        if isinstance(expression, VisibleValue):
            return self._limited(expression)
        if not isinstance(expression, Col):
            raise UnlistedColumn(f"The query compares a {type(expression).__name__}")
        key = self._key(expression)
        if self._allowed.guards.get(key):
            raise UnlistedColumn(f"The query uses {key} of rows that may be hidden")
        return key

    def _limited(self, value: VisibleValue) -> ColumnKey:
        """The column of a value that is null where a related row is hidden."""
        if len(value.cases) != 1 or not isinstance(value.default, Value) or value.default.value:
            raise UnlistedColumn("The query uses a condition of its own")
        case = value.cases[0]
        if not isinstance(case.result, Col):
            raise UnlistedColumn(f"The query shows a {type(case.result).__name__}")
        key = self._key(case.result)
        guards = list(_leaves(case.condition))
        if len(guards) < self._allowed.guards.get(key, 0) or not all(map(self._is_guard, guards)):
            raise UnlistedColumn("The query shows related rows by a condition of its own")
        return key

    def _is_guard(self, lookup: Any) -> bool:
        is_nothing = lookup.lookup_name == "isnull" and lookup.rhs is True
        return is_nothing or self._is_row_limit(lookup)

    def _key(self, column: Any) -> ColumnKey:
        if column.alias not in self._tables:
            raise UnlistedColumn(f"The query uses the table {column.alias}")
        return self._tables[column.alias], column.target.attname


def _leaves(node: Any) -> Iterator[Any]:
    if not isinstance(node, WhereNode) or node.negated or node.connector != "AND":
        raise UnlistedColumn("The query shows related rows by a condition of its own")
    for child in node.children:
        if isinstance(child, Lookup):
            yield child
        else:
            yield from _leaves(child)
