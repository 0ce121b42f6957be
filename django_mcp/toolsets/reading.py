"""Reading rows: lists, single rows, counts and completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Substr
from pydantic_core import to_jsonable_python

from django_mcp.core.components import serializers
from django_mcp.core.protocol.errors import ToolError
from django_mcp.toolsets import access, keyset
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.declaration import Column, Declaration
from django_mcp.toolsets.queries import query_check
from django_mcp.toolsets.queries.paths import SEPARATOR, ColumnKey, Path
from django_mcp.toolsets.queries.query_check import Allowed
from django_mcp.toolsets.queries.references import VisibleRows
from django_mcp.toolsets.queries.statement_time import limited
from django_mcp.toolsets.schemas import Arguments

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

MAX_WORDS = 8
"""Words of a search; others are ignored."""
MAX_COMPLETIONS = 100
OTHER_LENGTH = 40
"""Characters of a number or a date, at most."""
CUT = "…"


class Choice:
    """The condition of the filters and the search of one call, and the columns that it compares."""

    def __init__(self, declaration: Declaration, sent: Mapping[str, Any]) -> None:
        self._items = [
            (declaration.filters[name], value)
            for name, value in sent.items()
            if name in declaration.filters
        ]
        self._words = str(sent.get("search") or "").split()[:MAX_WORDS]
        self._searched = declaration.search if self._words else ()

    @property
    def paths(self) -> Iterator[Path]:
        yield from (item.path for item, _ in self._items)
        yield from self._searched

    def condition(self, visible_rows: VisibleRows) -> Q:
        chosen = Q()
        for item, value in self._items:
            chosen &= Q(**{f"{visible_rows.reference(item.path)}{SEPARATOR}{item.lookup}": value})
        for word in self._words:
            has_word = Q()
            for path in self._searched:
                has_word |= Q(**{f"{visible_rows.reference(path)}{SEPARATOR}icontains": word})
            chosen &= has_word
        return chosen

    def compared(self) -> dict[ColumnKey, set[str]]:
        """The lookups that the declaration allows for the columns in use."""
        lookups: dict[ColumnKey, set[str]] = {}
        for item, _ in self._items:
            lookups.setdefault(item.path.key, set()).update(item.lookup.split(SEPARATOR))
        for path in self._searched:
            lookups.setdefault(path.key, set()).add("icontains")
        return lookups


def guards(visible_rows: VisibleRows, paths: Iterable[Path]) -> dict[ColumnKey, int]:
    """How many relations on the way to each column are limited to rows that the caller may see."""
    return {
        path.key: sum(relations in visible_rows.limits for relations, _ in path.prefixes())
        for path in paths
    }


@dataclass(frozen=True, slots=True)
class Reader:
    """The reading operations of one toolset."""

    toolset: BaseToolset
    declaration: Declaration
    name: str

    def page(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        """Return the rows after a cursor, in their order, and the cursor of the next page."""
        sent = params.sent()
        choice = Choice(self.declaration, sent)
        ordering = keyset.terms(self.declaration, sent.get("ordering") or ())
        sorted_by = [term.column.path for term in ordering]
        columns = self.declaration.columns
        used = [*(column.path for column in columns), *choice.paths, *sorted_by]
        visible_rows = access.visible_rows_of(self.toolset, frame, used)

        condition = choice.condition(visible_rows)
        # A cursor belongs to this toolset, with the same filters, search and order.
        others = {name: value for name, value in sent.items() if name not in PAGING}
        bound_to = [self.name, to_jsonable_python(others)]
        cursor = sent.get("cursor")
        if cursor is not None:
            values = keyset.decode(frame, cursor, ordering, bound_to)
            condition &= keyset.after(visible_rows, ordering, values)
        order_by = keyset.order(visible_rows, ordering)

        selected = [_value(visible_rows, column, self.toolset.max_text) for column in columns]
        references = [visible_rows.reference(path) for path in sorted_by]
        selected += [name for name in dict.fromkeys(references) if name not in selected]
        # Read last: references to columns may annotate this query set.
        chosen = visible_rows.queryset.filter(condition) if condition else visible_rows.queryset
        queryset = chosen.order_by(*order_by).values_list(*selected)

        compared = choice.compared()
        for path in sorted_by:
            compared.setdefault(path.key, set()).update(keyset.LOOKUPS)
        allowed = self._allowed(visible_rows, used, compared, sorted_by)

        limit = sent.get("limit") or self.toolset.page_size
        # The row after the last one says that there is a next page.
        rows = self._run(queryset[: limit + 1], allowed)
        shown = self._fitting(rows[:limit])
        next_cursor = None
        if shown and len(rows) > len(shown):
            last = rows[len(shown) - 1]
            sorted_values = [last[selected.index(name)] for name in references]
            next_cursor = keyset.encode(frame, sorted_values, bound_to)
        return {"items": shown, "next_cursor": next_cursor}

    def get(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        (value,) = params.sent().values()
        row = self.find(frame, value)
        if row is None:
            raise self.missing(value)
        return row

    def find(self, frame: Frame, value: Any, *, using: str | None = None) -> dict[str, Any] | None:
        """Return the row with this key; None if there is none, or the caller may not get it.

        ``using``: the database that has just written the row. Whether the caller may get it is
        asked of the written object.
        """
        toolset = self.toolset
        columns = self.declaration.columns
        key = self.declaration.key.path
        texts = [column for column in columns if not column.kind.is_bounded]
        longest = toolset.max_characters // max(len(texts), 1)
        used = [*(column.path for column in columns), key]
        visible_rows = access.visible_rows_of(toolset, frame, used, using=using)
        selected = [_value(visible_rows, column, longest) for column in columns]
        chosen = visible_rows.queryset.filter(**{key.reference: value}).order_by()
        if using is None and self._checks_objects:
            with limited(chosen.db, toolset.statement_timeout):
                instance = chosen.first()
            if instance is None or not toolset.has_object_permission(frame, instance, "get"):
                return None
        queryset = chosen.values_list(*selected)
        allowed = self._allowed(visible_rows, used, {key.key: {"exact"}}, ())
        rows = self._run(queryset[:1], allowed)
        return self._row(rows[0], longest) if rows else None

    def count(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        choice = Choice(self.declaration, params.sent())
        used = [*choice.paths, self.declaration.pk.path]
        visible_rows = access.visible_rows_of(self.toolset, frame, used)
        condition = choice.condition(visible_rows)
        chosen = visible_rows.queryset.filter(condition).order_by()
        queryset = chosen.values_list(self.declaration.pk.path.reference)
        query_check.check(queryset.query, self._allowed(visible_rows, used, choice.compared(), ()))
        with limited(queryset.db, self.toolset.statement_timeout):
            return {"count": queryset.count()}

    def complete(self, typed: str, frame: Frame) -> Sequence[str]:
        """Return keys that begin with the typed text, of rows that the caller may get.

        They are among the first ``MAX_COMPLETIONS``: where object permissions deny some of those,
        there are fewer.
        """
        if "\0" in typed:
            return []
        key = self.declaration.key.path
        visible_rows = access.visible_rows_of(self.toolset, frame)
        chosen = visible_rows.queryset.filter(
            **{f"{key.text_reference}{SEPARATOR}startswith": typed}
        )
        first = chosen.order_by(F(key.reference).asc())[:MAX_COMPLETIONS]
        toolset = self.toolset
        if self._checks_objects:
            with limited(first.db, toolset.statement_timeout):
                instances = [*first]
            return [
                str(getattr(row, key.reference))
                for row in instances
                if toolset.has_object_permission(frame, row, "get")
            ]
        allowed = self._allowed(visible_rows, [key], {key.key: {"startswith"}}, [key])
        rows = self._run(first.values_list(key.reference), allowed)
        return [str(value) for (value,) in rows]

    def missing(self, value: Any) -> ToolError:
        return ToolError(f"There is no {self.name} {value}.")

    @property
    def _checks_objects(self) -> bool:
        return type(self.toolset).has_object_permission is not BaseToolset.has_object_permission

    def _allowed(
        self,
        visible_rows: VisibleRows,
        used: Iterable[Path],
        compared: Mapping[ColumnKey, set[str]],
        ordered: Iterable[Path],
    ) -> Allowed:
        paths = [*used]
        return Allowed(
            selected={path.key for path in paths},
            ordered={path.reference: path.key for path in ordered},
            compared=compared,
            guards=guards(visible_rows, paths),
        )

    def _run(self, queryset: QuerySet[Any, Any], allowed: Allowed) -> Sequence[Any]:
        query_check.check(queryset.query, allowed)
        with limited(queryset.db, self.toolset.statement_timeout):
            return [*queryset]

    def _fitting(self, rows: Sequence[Any]) -> Sequence[dict[str, Any]]:
        """Return the first rows: as many as an answer has room for, but at least one."""
        names = [column.name for column in self.declaration.columns]
        kinds = [column.kind for column in self.declaration.columns]
        is_cut = any(
            not kind.is_bounded or (kind.max_length or 0) > self.toolset.max_text for kind in kinds
        )
        longest = sum(kind.max_length or OTHER_LENGTH for kind in kinds)
        if not is_cut and longest * len(rows) <= self.toolset.max_characters:
            return [dict(zip(names, self._written(row), strict=False)) for row in rows]
        shown: list[dict[str, Any]] = []
        room = self.toolset.max_characters
        for row in rows:
            item = self._row(row, self.toolset.max_text)
            room -= sum(map(_length, item.values()))
            if room < 0 and shown:
                break
            shown.append(item)
        return shown

    def _row(self, row: Sequence[Any], longest: int) -> dict[str, Any]:
        columns = self.declaration.columns
        values = self._written(row)
        return {
            column.name: _cut(value, longest) if column.kind.may_be_cut else value
            for column, value in zip(columns, values, strict=False)
        }

    def _written(self, row: Sequence[Any]) -> Sequence[Any]:
        """The values of a row as they are in JSON, where pydantic writes others."""
        if not self.declaration.writers:
            return row
        values = [*row]
        for position, write in self.declaration.writers:
            values[position] = write(values[position])
        return values


PAGING = ("cursor", "limit")


def _value(visible_rows: VisibleRows, column: Column, longest: int) -> Any:
    """The name of a column, or an expression that lets the database cut a long text."""
    name = visible_rows.reference(column.path)
    kind = column.kind
    is_long = kind.max_length is None or kind.max_length > longest
    is_cut = kind.family == "text" and kind.may_be_cut and is_long
    return Substr(name, 1, longest + 1) if is_cut else name


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + CUT
    if isinstance(value, dict | list):
        text = json.dumps(_jsonable(value), ensure_ascii=False)
        return value if len(text) <= longest else text[:longest] + CUT
    return value


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict | list):
        return len(json.dumps(_jsonable(value)))
    return OTHER_LENGTH


def _jsonable(value: Any) -> Any:
    """A list or dict as it is in JSON: a registered field may have dates in it."""
    return to_jsonable_python(value, fallback=serializers.json_fallback)
