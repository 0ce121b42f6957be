"""The list of a toolset as a table: its buttons call the tool itself, with other arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.utils.text import capfirst

from django_mcp.core.protocol.errors import Json
from django_mcp.toolsets.declaration import Declaration
from django_mcp.ui.base import Policy
from django_mcp.ui.views import PAGE, TemplateView

TABLE = "django_mcp/table.html"


class Heading(NamedTuple):
    """The heading of a column."""

    label: str
    arguments: str | None
    """The arguments of a call that sorts by the column, as JSON; None if callers cannot."""
    direction: str
    """The value of ``aria-sort``."""


class TableView(TemplateView):
    """A view of the rows that a list returns."""

    def __init__(self, tool: str, title: Any, declaration: Declaration) -> None:
        super().__init__(
            PAGE,
            uri=f"ui://toolsets/{tool}",
            fragment=TABLE,
            title=title,
            policy=Policy({}, prefers_border=True),
        )
        self._tool = tool
        self._declaration = declaration

    def fragment_of(self, value: Any, arguments: Json) -> str:
        # The shown page does not belong to the change of a button.
        kept = {name: given for name, given in arguments.items() if name != "cursor"}
        columns = [column.name for column in self._declaration.columns]
        rows = [[item[name] for name in columns] for item in value["items"]]
        cursor = value["next_cursor"]
        context = {
            "title": capfirst(str(self.title)),
            "tool": self._tool,
            "headings": [*self._headings(kept)],
            "rows": rows,
            "can_search": bool(self._declaration.search),
            "search": kept.get("search", ""),
            "searching": json.dumps({name: kept[name] for name in kept if name != "search"}),
            "next": json.dumps({**kept, "cursor": cursor}) if cursor else None,
            "first": json.dumps(kept) if "cursor" in arguments else None,
        }
        return render_to_string(TABLE, context)

    def _headings(self, arguments: Mapping[str, Any]) -> Iterator[Heading]:
        given: Sequence[str] = arguments.get("ordering") or ()
        first = next(iter([*given, *self._declaration.ordering]), "")
        for column in self._declaration.columns:
            label = capfirst(str(column.schema.get("title") or column.name))
            directions = {column.name: "ascending", f"-{column.name}": "descending"}
            direction = directions.get(first, "none")
            if column.name not in self._declaration.orderings:
                yield Heading(label, None, direction)
                continue
            sign = "-" if direction == "ascending" else ""
            sorting = {**arguments, "ordering": [f"{sign}{column.name}"]}
            yield Heading(label, json.dumps(sorting), direction)
