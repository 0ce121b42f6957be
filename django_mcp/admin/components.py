"""Components in the admin: rows of the registry, without a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_mcp.models import Component
from django_mcp.registry import Entry, entries
from django_mcp.runtime.read_only_admin import ReadOnlyAdmin, as_json


class Rows(list[Component]):
    """Rows from the registry, with the methods of a query set that a change list calls."""

    def count(self) -> int:  # type: ignore[override]
        return len(self)

    def _clone(self) -> Rows:
        return self


def row(entry: Entry) -> Component:
    component = Component(
        key=entry.identity,
        server=entry.server.name,
        kind=entry.kind,
        name=entry.component.name,
        title=entry.component.listed_title or "",
        app=entry.app,
        permission=entry.permission,
    )
    component.entry = entry
    return component


def rows() -> Rows:
    return Rows(map(row, entries()))


class ByColumn(admin.SimpleListFilter):
    parameter_name: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        values = sorted({getattr(each, self.parameter_name) for each in rows()})
        return [(value, value or "-") for value in values]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if (chosen := self.value()) is None:
            return queryset
        return Rows(each for each in queryset if getattr(each, self.parameter_name) == chosen)


class ByServer(ByColumn):
    title = _("server")
    parameter_name = "server"


class ByKind(ByColumn):
    title = _("kind")
    parameter_name = "kind"


class ByApp(ByColumn):
    title = _("app")
    parameter_name = "app"


class RegistryChangeList(ChangeList):
    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        filters = self.get_filters(request)
        self.filter_specs, self.has_filters, unknown, _, self.has_active_filters = filters
        if unknown:
            raise IncorrectLookupParameters
        self.clear_all_filters_qs = self.get_query_string(remove=self.get_filters_params())
        rows: Any = self.root_queryset
        for spec in self.filter_specs:
            rows = spec.queryset(request, rows)
        terms = self.query.casefold().split()
        rows = Rows(row for row in rows if all(term in row.entry.search_text for term in terms))
        # Without a chosen column, the rows keep the listed order.
        columns = self.get_ordering_field_columns() if ORDER_VAR in self.params else {}
        for index, direction in reversed(columns.items()):
            if index < len(self.list_display):
                name = str(self.list_display[index])
                rows.sort(key=lambda each: getattr(each, name), reverse=direction == "desc")
        return rows


class DescriptorField:
    """A field of the detail view which shows one member of the component's descriptor."""

    def __init__(self, member: str, label: Any, show: Callable[[Any], Any] = as_json) -> None:
        self.member = member
        self.short_description = label
        self._show = show

    def __call__(self, component: Component) -> Any:
        return self._show(component.entry.descriptor[self.member])


@admin.register(Component)
class ComponentAdmin(ReadOnlyAdmin):
    list_display = ("server", "kind", "name", "title", "app", "permission")
    list_display_links = ("name",)
    list_filter = (ByServer, ByKind, ByApp)
    search_fields = ("name",)
    search_help_text = _("Searches names, URIs, titles and descriptions.")
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ["django_mcp/admin.css"]}

    description = DescriptorField("description", _("description"), str)
    uri = DescriptorField("uri", _("URI"), str)
    uri_template = DescriptorField("uriTemplate", _("URI template"), str)
    mime_type = DescriptorField("mimeType", _("MIME type"), str)
    size = DescriptorField("size", _("size"), str)
    arguments = DescriptorField("arguments", _("arguments"))
    input_schema = DescriptorField("inputSchema", _("input schema"))
    output_schema = DescriptorField("outputSchema", _("output schema"))
    annotations = DescriptorField("annotations", _("annotations"))
    execution = DescriptorField("execution", _("execution"))
    icons = DescriptorField("icons", _("icons"))
    meta = DescriptorField("_meta", _("metadata"))

    @admin.display(description=_("source"))
    def source(self, component: Component) -> str:
        return str(component.entry.component.source)

    @admin.display(description=_("scopes"))
    def scopes(self, component: Component) -> str | None:
        return ", ".join(sorted(component.entry.component.scopes)) or None

    @admin.display(description=_("cache hint"))
    def cache(self, component: Component) -> str | None:
        hint = component.entry.component.cache
        return None if hint is None else f"{hint.ttl_ms} ms, {hint.scope}"

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # Components are declared in code.

    def get_queryset(self, request: HttpRequest) -> Any:
        return rows()

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        return next((each for each in rows() if each.key == object_id), None)

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:
        return RegistryChangeList

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        listed = [
            name
            for name, field in vars(ComponentAdmin).items()
            if isinstance(field, DescriptorField) and field.member in obj.entry.descriptor
        ]
        return [
            (None, {"fields": ["server", "kind", "name", "title", "app", "source"]}),
            (_("Listed to clients"), {"fields": listed}),
            (_("Access"), {"fields": ["permission", "scopes", "cache"]}),
        ]
