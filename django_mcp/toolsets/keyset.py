"""Orderings, and pages that continue after the last row of the page before.

A cursor has the sort values of the last row, signed and encrypted for one caller and
one request. Null sorts before everything else, in every database.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db.models import F, OrderBy, Q
from pydantic_core import to_jsonable_python

from django_mcp.core.protocol import cursors
from django_mcp.core.protocol.errors import InvalidParams, ToolError
from django_mcp.runtime.django_types.field_types import iso_duration
from django_mcp.toolsets.declaration import Column, Declaration
from django_mcp.toolsets.queries.paths import SEPARATOR
from django_mcp.toolsets.queries.references import VisibleRows

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

PURPOSE = "toolset"
LOOKUPS = ("exact", "gt", "lt", "isnull")
"""The lookups that ``after`` uses for the columns of an ordering."""


@dataclass(frozen=True, slots=True)
class Term:
    """One column of an ordering."""

    column: Column
    is_descending: bool


def terms(declaration: Declaration, names: Sequence[str]) -> list[Term]:
    """Return the columns of an ordering, up to the key, which decides among equals."""
    shown = {column.name: column for column in declaration.columns}
    columns = {**shown, **declaration.orderings}
    pk = declaration.pk
    ordering: list[Term] = []
    for name in names or declaration.ordering:
        column = columns[name.removeprefix("-")]
        if all(column.path.key != term.column.path.key for term in ordering):
            ordering.append(Term(column, name.startswith("-")))
        if column.path.key == pk.path.key:
            return ordering
    return [*ordering, Term(pk, is_descending=bool(ordering) and ordering[-1].is_descending)]


def order(visible_rows: VisibleRows, ordering: Sequence[Term]) -> list[OrderBy]:
    order_by = []
    for term in ordering:
        value = F(visible_rows.reference(term.column.path))
        if not term.column.is_nullable:
            order_by.append(value.desc() if term.is_descending else value.asc())
        elif term.is_descending:
            order_by.append(value.desc(nulls_last=True))
        else:
            order_by.append(value.asc(nulls_first=True))
    return order_by


def after(visible_rows: VisibleRows, ordering: Sequence[Term], values: Sequence[Any]) -> Q:
    """Return the condition of the rows after the one that has these values."""
    conditions: list[Q] = []
    equal = Q()
    for term, value in zip(ordering, values, strict=True):
        name = visible_rows.reference(term.column.path)
        if (beyond := _beyond(name, term, value)) is not None:
            conditions.append(equal & beyond)
        equal &= Q(**{f"{name}{SEPARATOR}isnull": True}) if value is None else Q(**{name: value})
    return reduce(or_, conditions)  # The key, which is last, is never null.


def _beyond(name: str, term: Term, value: Any) -> Q | None:
    """Return the condition of the rows after ``value`` in one column; None if there are none."""
    if value is None:
        return None if term.is_descending else Q(**{f"{name}{SEPARATOR}isnull": False})
    if not term.is_descending:
        return Q(**{f"{name}{SEPARATOR}gt": value})
    less = Q(**{f"{name}{SEPARATOR}lt": value})
    return less | Q(**{f"{name}{SEPARATOR}isnull": True}) if term.column.is_nullable else less


def encode(frame: Frame, values: Sequence[Any], bound_to: Any) -> str:
    """Return the cursor after a row with these values, for this caller and this request."""
    texts = [json.dumps(to_jsonable_python(iso_duration(value))) for value in values]
    sign = partial(frame.server.sign, PURPOSE, frame.principal.key)
    return cursors.encode(PURPOSE, texts, lambda text: sign(text, bound_to))


def decode(frame: Frame, cursor: str, ordering: Sequence[Term], bound_to: Any) -> list[Any]:
    """Return the values in a cursor; raises ToolError if it is not of this caller and request."""
    unsign = partial(frame.server.unsign, PURPOSE, frame.principal.key)
    try:
        texts = cursors.decode(PURPOSE, cursor, lambda signed: unsign(signed, bound_to))
        parsed = [json.loads(text) for text in texts]
        return [
            None if value is None else term.column.path.field.to_python(value)
            for term, value in zip(ordering, parsed, strict=True)
        ]
    except (InvalidParams, ValueError, ValidationError) as error:
        raise ToolError(
            "The cursor does not belong to this request: repeat it with the arguments that "
            "returned the cursor, or begin without one"
        ) from error
