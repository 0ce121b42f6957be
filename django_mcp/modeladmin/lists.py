"""Lists of objects: the change list of the admin, with its search, filters, ordering and pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any
from urllib.parse import parse_qsl

from django.contrib.admin.utils import label_for_field
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import FieldError, PermissionDenied
from django.db import DataError, OperationalError
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin import options, values
from django_mcp.modeladmin.calls import Call, Visit
from django_mcp.modeladmin.models import AnyModelAdmin, fields_on_path, leads_to_hash
from django_mcp.modeladmin.pages import ObjectPage
from django_mcp.modeladmin.requests import plain_text
from django_mcp.runtime.django_types.fields import is_hash

MAX_TEXT = 300
"""Characters of one value in a list."""
DEFAULT_ROWS = 20
MAX_CHOICES = 30
"""Choices that are listed of one filter."""
CHECKBOX = "action_checkbox"
STR = "__str__"
RESERVED = frozenset({"all", "o", "p", "q", "e", "_popup", "_to_field", "_facets", "_source_model"})
"""Parameters of a change list that are not filters."""

Filters = Mapping[str, Any]


def search(
    call: Call,
    label: str,
    text: str,
    filters: Filters,
    ordering: Sequence[str],
    page: int,
    limit: int | None,
) -> dict[str, Any]:
    """Return a page of the list of a model."""
    model_admin = call.find(label)
    query = {**filter_query(filters), **({"q": text} if text else {})}
    if ordering:
        query["o"] = _order(call, model_admin, ordering)
    if page > 1:
        query["p"] = str(page)
    size = min(limit or DEFAULT_ROWS, model_admin.list_per_page)
    changelist = visit_list(call, model_admin, query, size).changelist
    assert changelist is not None
    columns = [each for each in changelist.list_display if each != CHECKBOX]
    rows = [_row(call, model_admin, obj, columns) for obj in changelist.result_list]
    pages = changelist.paginator.num_pages
    if page > pages:
        raise ToolError(f"The list has {pages} pages.")
    result = {"rows": rows, "count": changelist.result_count, "page": page, "pages": pages}
    return {**result, "next_page": page + 1 if page < pages else None}


def visit_list(
    call: Call, model_admin: AnyModelAdmin, query: Mapping[str, Any], size: int = 1
) -> Visit:
    """Open a list; raises ToolError for filters, an ordering or a page that it does not have."""
    if any("\0" in part for part in map(str, query.values())):
        raise ToolError("A null character matches nothing.")
    _check_filters(call, model_admin, query.keys() - RESERVED)
    try:
        visit = call.visit(model_admin, "changelist_view", query=query, page_size=size)
    except (ValueError, OverflowError, DataError, OperationalError) as error:
        # SQLite reports a wrong pattern like a database that is down.
        is_of_site = isinstance(error, OperationalError) and not any(
            name.endswith("regex") for name in query
        )
        if is_of_site or query.keys() <= {"_facets", "o", "p"}:
            raise
        # Some values are refused by the database alone.
        raise ToolError("The list cannot be filtered by these values.") from error
    wrapped = () if visit.lookup_error is None else visit.lookup_error.args
    if wrapped and isinstance(wrapped[0], FieldError):
        # Its message lists the fields of the model, also those that nobody is shown.
        raise ToolError("The list has no such filter or page: see the filters of the model.")
    if visit.lookup_error is not None:
        raise ToolError(f"The list has no such filter or page: {visit.lookup_error}"[:MAX_TEXT])
    if visit.changelist is None:
        raise ToolError("The admin shows a page of its own in place of the list.")
    return visit


def filter_query(filters: Filters) -> dict[str, Any]:
    """Return filters as parameters of the list; raises ToolError."""
    query: dict[str, Any] = {}
    for name, value in filters.items():
        if name in RESERVED:
            raise no_filter(name)
        if not isinstance(value, list):
            query[name] = _parameter(value)
        elif not value:
            raise ToolError(f"{name[:80]}: give at least one value.")
        else:
            texts = [*map(_parameter, value)]
            query[name] = ",".join(texts) if name.endswith("__in") else texts
    return query


def _parameter(value: Any) -> str:
    """Return a value as a link of the admin has it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return "" if value is None else str(value)


def no_filter(name: str) -> ToolError:
    return ToolError(f"{name[:80]}: this is no filter; see the filters of the model.")


def _check_filters(call: Call, model_admin: AnyModelAdmin, names: Set[str]) -> None:
    """Raise ToolError for a filter by a value that neither the list nor a page of it shows.

    Django lets a list be filtered by any field of its model, so that a caller could find it out.
    """
    own, paths = _filters_of_list(call.request, model_admin)
    fields = {name: fields_on_path(model_admin.opts, name) for name in names - own}
    if secret := [name for name in fields if leads_to_hash(model_admin.opts, name)]:
        raise no_filter(secret[0])
    without_field = [name for name, path in fields.items() if not path]
    if without_field:
        # What the query set of an admin adds is shown only by a column that is sorted by it.
        added: Any = model_admin.get_queryset(call.request).query.annotations
        orders = _orders(call.request, model_admin).values()
        hidden = {*added} - {str(order).lstrip("-") for order in orders}
        for name in without_field:
            if name.partition(LOOKUP_SEP)[0] in hidden:
                raise no_filter(name)
    by_field = {name: [each.name for each in path] for name, path in fields.items() if path}
    shown = {*paths, model_admin.opts.pk.name}
    others = [name for name, path in by_field.items() if not _is_within(path, shown)]
    if not others:
        return
    on_page = _names_on_page(call, model_admin)
    for name in others:
        if not _is_within(by_field[name], on_page):
            raise no_filter(name)


def _filters_of_list(
    request: HttpRequest, model_admin: AnyModelAdmin
) -> tuple[set[str], Iterable[str]]:
    """Return the parameters of filters that are classes, and the other fields of a list."""
    parameters = set()
    paths = [values.column_name(each) for each in columns_of(request, model_admin)]
    paths += [] if model_admin.date_hierarchy is None else [model_admin.date_hierarchy]
    for declared in model_admin.get_list_filter(request):
        name: Any = declared[0] if isinstance(declared, list | tuple) else declared
        if isinstance(name, type):
            parameters.add(str(getattr(name, "parameter_name", "")))
        else:
            paths.append(getattr(name, "name", name))
    return parameters, paths


def _is_within(path: Sequence[str], shown: Collection[str]) -> bool:
    """Whether a path is shown, or a relation that it leads over; Django limits related fields."""
    parts = (LOOKUP_SEP.join(path[:length]) for length in range(1, len(path) + 1))
    return any(part in shown for part in parts)


def _names_on_page(call: Call, model_admin: AnyModelAdmin) -> Collection[str]:
    """Return the names of the values on the page of one of the objects; of none without objects."""
    obj = model_admin.get_queryset(call.request).first()
    if obj is None:
        return ()
    try:
        visit = call.visit(model_admin, "change_view", str(obj.pk))
        return values.of_form(visit.required("adminform")).keys()
    except (PermissionDenied, ToolError):
        return ()


def columns_of(request: HttpRequest, model_admin: AnyModelAdmin) -> list[Any]:
    return [*model_admin.get_list_display(request)]


def _order(call: Call, model_admin: AnyModelAdmin, ordering: Sequence[str]) -> str:
    names = [values.column_name(each) for each in columns_of(call.request, model_admin)]
    names_to_sort_by = sortable(call.request, model_admin)
    # The column of the checkboxes is there if there are actions.
    first = 1 if model_admin.get_actions(call.request) else 0
    terms = []
    for term in ordering:
        name = term.removeprefix("-")
        if name not in names_to_sort_by:
            columns = ", ".join(names_to_sort_by) or "nothing"
            raise ToolError(f"{name[:80]}: the list is sorted by {columns}.")
        sign = "-" if term.startswith("-") else ""
        terms.append(f"{sign}{names.index(name) + first}")
    return ".".join(terms)


def sortable(request: HttpRequest, model_admin: AnyModelAdmin) -> list[str]:
    """Return the names of the columns that can order a list."""
    return [*_orders(request, model_admin)]


def _orders(request: HttpRequest, model_admin: AnyModelAdmin) -> dict[str, Any]:
    """Return the value that each column orders a list by, if it can, by the name of the column."""
    columns = columns_of(request, model_admin)
    chosen = model_admin.get_sortable_by(request)
    allowed = columns if chosen is None else [each for each in columns if each in chosen]
    changelist: Any = object.__new__(ChangeList)
    changelist.lookup_opts = model_admin.opts
    changelist.model_admin = model_admin
    changelist.model = model_admin.model
    orders = {}
    for column in allowed:
        order = None if column == STR else changelist.get_ordering_field(column)
        # By the order of the rows, a caller could compare the hashes of passwords.
        if order and not leads_to_hash(model_admin.opts, str(order).lstrip("-")):
            orders[values.column_name(column)] = order
    return orders


def _row(call: Call, model_admin: AnyModelAdmin, obj: Any, columns: list[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"pk": values.key_of(obj)}
    if STR in columns:
        row["label"] = str(obj)
    others = [each for each in columns if each != STR]
    row |= {"values": values.row(obj, others, model_admin, MAX_TEXT)} if others else {}
    return {**row, "admin_url": call.link(obj)}


def described(call: Call, model_admin: AnyModelAdmin, facets: bool) -> dict[str, Any]:
    """Return the columns, the filters and the search of a list."""
    visit = visit_list(call, model_admin, {"_facets": "1"} if facets else {})
    changelist: Any = visit.changelist
    columns = columns_of(call.request, model_admin)
    labels = {
        values.column_name(each): str(label_for_field(each, model_admin.model, model_admin))
        for each in columns
    }
    searched = [str(name).lstrip("^=@") for name in changelist.search_fields]
    described = {
        "columns": labels,
        "sortable": sortable(call.request, model_admin),
        "search": str(model_admin.search_help_text or ", ".join(searched)),
        "filters": [*_filters(changelist)],
        "count": changelist.result_count,
    }
    return {name: member for name, member in described.items() if member not in ([], None, "")}


def _filters(changelist: Any) -> Iterator[dict[str, Any]]:
    for spec in changelist.filter_specs:
        if is_hash(getattr(spec, "field", None)):
            continue  # Its choices are all values.
        choices = [*spec.choices(changelist)]
        listed = []
        for choice in choices[:MAX_CHOICES]:
            query = str(choice.get("query_string", "")).lstrip("?")
            parameters = parse_qsl(query, keep_blank_values=True)
            chosen = {name: value for name, value in parameters if name not in RESERVED}
            if chosen:
                listed.append({"label": plain_text(choice["display"]), "filter": chosen})
        yield {
            "title": str(spec.title),
            "parameters": [*map(str, spec.expected_parameters())],
            "choices": listed,
            **({"more_choices": len(choices) - MAX_CHOICES} if len(choices) > MAX_CHOICES else {}),
        }


def autocomplete(
    call: Call, label: str, field: str, text: str, pk: str | None, limit: int
) -> dict[str, Any]:
    """Return the options of a field of a page."""
    model_admin = call.find(label)
    view = "add_view" if pk is None else "change_view"
    page = ObjectPage(call.models, call.visit(model_admin, view, pk))
    matching = options.matching(call, page.field(field), text)
    return {"options": options.as_json(matching, limit)}
