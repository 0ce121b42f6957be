"""Lists, and pages of lists, cut at a row where they are long, with a cursor for the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from django_mcp.core.components.responses import Response
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import cursors
from django_mcp.core.protocol.errors import InvalidParams, ToolError
from django_mcp.openapi.calls.answers import FIELDS, RowFields

CURSOR = "cursor"
MAX_CHARACTERS = 100_000
"""Of the rows in one result: as many as hosts pass on to a model by default."""
MAX_BYTES = 20_000_000
"""The largest response that is cut, instead of refused."""

SCHEMA: Mapping[str, Any] = {
    "type": "string",
    "maxLength": 2_000,
    "description": "The cursor of the result before; repeat the other arguments with it",
}


class Pages:
    """The parts of the lists of one tool."""

    def __init__(self, where: str, max_characters: int | None) -> None:
        self._where = where
        self._max_characters = max_characters or MAX_CHARACTERS

    def part(self, value: Any, frame: Frame, arguments: Mapping[str, Any]) -> Any:
        """Return the rows after the cursor in ``arguments``, as many as have room.

        A page keeps its other members, such as the number of all rows. A value without rows, or
        one that has room as a whole, is returned unchanged.
        """
        # The rows of a page are its only list.
        members = value.items() if isinstance(value, Mapping) else ()
        lists = [name for name, each in members if isinstance(each, list)]
        member = lists[0] if len(lists) == 1 else None
        rows = value if member is None else value[member]
        if not isinstance(rows, list):
            return value
        others = {name: given for name, given in arguments.items() if name != CURSOR}
        bound_to = [self._where, others]
        start = self._start(frame, arguments, bound_to)
        end = self._end(rows, start)
        if start == 0 and end == len(rows):
            return value
        part = rows[start:end]
        result = Response.tool().structured(part if member is None else {**value, member: part})
        of_page = "" if member is None else " of this page"
        if start >= len(rows):
            return result.text(f"There are no more rows{of_page}: the list has become shorter.")
        if end == len(rows):
            return result.text(f"These are the last rows{of_page}, {start + 1} to {end}.")
        sign = partial(frame.server.sign, self._where, frame.principal.key)
        cursor = cursors.encode("rows", [str(end)], lambda text: sign(text, bound_to))
        return result.text(
            f"These are the rows {start + 1} to {end} of {len(rows)}{of_page}. For the following "
            f"ones, call again with the same arguments and {CURSOR}={json.dumps(cursor)}."
        )

    def _start(self, frame: Frame, arguments: Mapping[str, Any], bound_to: list[Any]) -> int:
        if CURSOR not in arguments:
            return 0
        unsign = partial(frame.server.unsign, self._where, frame.principal.key)
        try:
            (start,) = cursors.decode("rows", arguments[CURSOR], lambda it: unsign(it, bound_to))
            return int(start)
        except (InvalidParams, ValueError) as error:
            raise ToolError(
                "The cursor does not belong to this request: repeat it with the arguments that "
                "returned the cursor, or begin without one"
            ) from error

    def _end(self, rows: list[Any], start: int) -> int:
        """Return the position after the last row that has room; one row always has."""
        room = self._max_characters
        for position in range(start, len(rows)):
            room -= len(json.dumps(rows[position], ensure_ascii=False))
            if room < 0 and position > start:
                return position
        return len(rows)


def with_arguments(
    schema: Mapping[str, Any], pages: Pages | None, fields: RowFields | None
) -> dict[str, Any]:
    """Return the schema of a tool with the arguments that say which part of a list it returns."""
    own: dict[str, Any] = {} if pages is None else {CURSOR: dict(SCHEMA)}
    if fields is not None:
        own[FIELDS] = fields.schema
    return {**schema, "properties": {**schema["properties"], **own}}
