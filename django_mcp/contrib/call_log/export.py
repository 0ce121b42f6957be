"""Rows of calls as CSV, streamed."""

from __future__ import annotations

import csv
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from django_mcp.contrib.call_log.models import Call, CallQuerySet
from django_mcp.runtime.read_only_admin import user_names_of

AT_ONCE = 2000
"""Rows that are read with one query."""
FORMULA = re.compile(r"(^|[;\t\r\n])(?=[\"' ]*[=+\-@＝＋－＠\t\r\n])")
"""The place before what a spreadsheet may run, also in quotes: at the beginning of a cell, and
after the separators of spreadsheets in other languages."""

TEXTS = (
    "principal",
    "program",
    "token",
    "server",
    "kind",
    "component",
    "target",
    "revision",
    "client_name",
    "client_version",
    "outcome",
    "error",
    "arguments",
)
SIZES = ("arguments_size", "response_size")
COLUMNS = ("called_at", "user", "duration", *SIZES, *TEXTS)


def response(request: HttpRequest, rows: CallQuerySet) -> StreamingHttpResponse:
    """A download of the rows, newest first."""
    # An ASGI server would collect a synchronous iterator in memory.
    parts = _asynchronous(rows) if isinstance(request, ASGIRequest) else _synchronous(rows)
    return StreamingHttpResponse(
        parts,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="calls.csv"'},
    )


def _synchronous(rows: CallQuerySet) -> Iterator[str]:
    yield _text([COLUMNS])
    last = None
    while (part := _part(rows, last)) is not None:
        text, last = part
        yield text


async def _asynchronous(rows: CallQuerySet) -> AsyncIterator[str]:
    yield _text([COLUMNS])
    read = sync_to_async(_part)
    last = None
    while (part := await read(rows, last)) is not None:
        text, last = part
        yield text


def _part(rows: CallQuerySet, last: int | None) -> tuple[str, int] | None:
    """The rows after that with the key ``last``, and the key of the last one of them."""
    following = rows if last is None else rows.filter(pk__lt=last)
    part = list(following.order_by("-pk")[:AT_ONCE])
    if not part:
        return None
    # The users may be in another database.
    names = user_names_of(row.user_key for row in part)
    return _text([_cells(row, names) for row in part]), part[-1].pk


def _cells(row: Call, names: Mapping[str, str]) -> list[str]:
    """The cells of a row, in the order of COLUMNS, with the name of its user."""
    user = names.get(row.user_key, "")
    sizes = [getattr(row, name) for name in SIZES]
    numbers = [f"{row.duration:.6f}", *("" if size is None else str(size) for size in sizes)]
    texts = [getattr(row, name) for name in TEXTS]
    return [row.called_at.isoformat(), _safe(user), *numbers, *map(_safe, texts)]


def _safe(cell: str) -> str:
    """The cell; a spreadsheet takes what would be a formula as text."""
    return FORMULA.sub(r"\1'", cell)


class _Lines(list[str]):
    """A file that keeps its lines only."""

    def write(self, line: str) -> None:
        self.append(line)


def _text(cells: Iterable[Iterable[str]]) -> str:
    lines = _Lines()
    csv.writer(lines, quoting=csv.QUOTE_ALL).writerows(cells)
    return "".join(lines)
