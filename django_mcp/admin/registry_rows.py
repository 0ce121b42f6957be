"""Rows of the admin that come from the registry, and are in no table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from django.contrib.admin import ShowFacets
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from django_mcp.runtime.read_only_admin import ReadOnlyAdmin

Row = TypeVar("Row")


class Rows(list[Row]):
    """Rows with the methods of a query set that a change list and its actions call."""

    def count(self) -> int:  # type: ignore[override]
        return len(self)

    def filter(self, *, pk__in: Collection[str]) -> Rows[Row]:
        return Rows(row for row in self if getattr(row, "pk", None) in pk__in)

    def _clone(self) -> Rows[Row]:
        return self


class RegistryChangeList(ChangeList):
    """A change list that filters, searches and sorts rows itself; they have a ``search_text``."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        filters = self.get_filters(request)
        self.filter_specs, self.has_filters, unknown, _, self.has_active_filters = filters
        if unknown:
            raise IncorrectLookupParameters
        self.clear_all_filters_qs = self.get_query_string(remove=self.get_filters_params())
        rows: Any = self.root_queryset
        for spec in self.filter_specs:
            rows = spec.queryset(request, rows)
        terms = self.query.casefold().split() if self.search_fields else ()
        rows = Rows(row for row in rows if all(term in row.entry.search_text for term in terms))
        # Without a chosen column, the rows keep the listed order.
        columns = self.get_ordering_field_columns() if ORDER_VAR in self.params else {}
        admin: Any = self.model_admin
        sortable = self.list_display if self.sortable_by is None else self.sortable_by
        for index, direction in reversed(columns.items()):
            column = str(self.list_display[index]) if index < len(self.list_display) else ""
            if column in sortable:
                sort_key = attrgetter(admin.sort_keys.get(column, column))
                rows.sort(key=sort_key, reverse=direction == "desc")
        return rows


class RegistryAdmin(ReadOnlyAdmin):
    """The admin of rows that are declared in code."""

    sort_keys: Mapping[str, str] = {}
    """The attribute that sorts rows, for a column that shows something else."""
    show_facets = ShowFacets.NEVER

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:
        return RegistryChangeList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # The template of a row shows its entries.

    def page(self, request: HttpRequest, template: str, context: Any) -> HttpResponse:
        """Return the page of a row."""
        request.current_app = self.admin_site.name
        shown = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, template, shown)
