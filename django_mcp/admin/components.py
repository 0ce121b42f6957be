"""Components in the admin: rows of the registry, which can be switched off and on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from django_mcp.admin.registry_rows import RegistryAdmin, Rows
from django_mcp.admin.try_it import may_try
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.models import Component
from django_mcp.pubsub import switches
from django_mcp.registry import Entry, entries
from django_mcp.runtime.read_only_admin import NOTHING, breakable


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


def rows() -> Rows[Component]:
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


class BySwitch(admin.SimpleListFilter):
    title = _("switch")
    parameter_name = "switch"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("on", _("On")), ("off", _("Off"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if (chosen := self.value()) is None:
            return queryset
        return Rows(item for item in queryset if item.entry.is_switched_off == (chosen == "off"))


@admin.register(Component)
class ComponentAdmin(RegistryAdmin):
    list_display = (
        "server",
        "kind",
        "name",
        "title_and_uri",
        "app_name",
        "permission_name",
        "calls",
        "is_on",
    )
    list_display_links = ("name",)
    list_filter = (ByServer, ByKind, ByApp, BySwitch)
    search_fields = ("name",)
    search_help_text = _("Searches names, URIs, titles and descriptions.")
    actions = ("switch_off", "switch_on")
    change_list_template = "admin/django_mcp/component/list.html"
    sort_keys = {
        "app_name": "app",
        "calls": "call_count",
        "is_on": "is_switched_off",
        "permission_name": "permission",
        "title_and_uri": "title",
    }

    @admin.display(description=_("title, URI"), ordering="title")
    def title_and_uri(self, component: Component) -> str:
        """The title; resources of one name are told apart by their URIs."""
        declared = component.entry.component
        uri = declared.key if isinstance(declared, ResourceComponent | TemplateComponent) else ""
        texts = [text for text in (component.title, uri) if text]
        return format_html_join(mark_safe("<br>"), "{}", ((text,) for text in texts)) or NOTHING

    @admin.display(description=_("app"), ordering="app")
    def app_name(self, component: Component) -> str:
        return breakable(component.app) or NOTHING

    @admin.display(description=_("permission"), ordering="permission")
    def permission_name(self, component: Component) -> str:
        return breakable(component.permission) or NOTHING

    @admin.display(description=_("calls"), ordering="call_count")
    def calls(self, component: Component) -> str:
        """The calls of the last days; errors are marked by more than their colour."""
        calls = str(component.call_count)
        if not component.error_count:
            return calls
        return format_html('{} <span class="mcp-error">✗ {}</span>', calls, component.error_count)

    @admin.display(description=_("on"), boolean=True, ordering="is_switched_off")
    def is_on(self, component: Component) -> bool:
        return not component.entry.is_switched_off

    def has_switch_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("django_mcp.change_component"))

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        # Imported for the page that somebody looks at.
        from django_mcp.admin import call_numbers

        shows_calls = call_numbers.are_visible(request)
        return [name for name in self.list_display if name != "calls" or shows_calls]

    def get_queryset(self, request: HttpRequest) -> Any:
        from django_mcp.admin import call_numbers

        switches.refresh_safely()
        shown = rows()
        shows_calls = call_numbers.are_visible(request)
        counted = call_numbers.by_component() if shows_calls else {}
        for component in shown:
            counts = counted.get(call_numbers.key_of(component.entry))
            component.call_count = counts.calls if counts else 0
            component.error_count = counts.errors if counts else 0
            component.is_switched_off = component.entry.is_switched_off
        return shown

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        switches.refresh_safely()
        return next((each for each in rows() if each.key == object_id), None)

    def get_urls(self) -> list[Any]:
        from django_mcp.admin.see_as import see_as_user

        switch = self.admin_site.admin_view(require_POST(self.switch_view))
        tried = self._calling("try_component")
        view = self._calling("show_view")
        see_as = self.admin_site.admin_view(partial(see_as_user, model_admin=self))
        return [
            path("see-as/", see_as, name="django_mcp_see_as"),
            path("<path:object_id>/switch/", switch, name="django_mcp_component_switch"),
            path("<path:object_id>/try/", tried, name="django_mcp_component_try"),
            path("<path:object_id>/view/", view, name="django_mcp_component_view"),
            *super().get_urls(),
        ]

    def _calling(self, name: Literal["try_component", "show_view"]) -> Any:
        """Return the view of a page that calls components."""

        def view(request: HttpRequest, object_id: str) -> HttpResponseBase:
            # Imported here: each process has this admin, and few of them try a component.
            from django_mcp.admin.try_it import views

            respond: Callable[..., HttpResponseBase] = getattr(views, name)
            return respond(request, object_id, model_admin=self)

        # A tool has a connection of its own, which would wait for a transaction around the view.
        return transaction.non_atomic_requests(self.admin_site.admin_view(view))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        from django_mcp.admin.see_as import may_see_as

        context = {**(extra_context or {}), "may_see_as": may_see_as(request)}
        return super().changelist_view(request, context)

    # The page of a component.

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        from django_mcp.admin import call_numbers, component_page
        from django_mcp.admin.try_it.targets import TARGETS

        entry = obj.entry
        shows_calls = call_numbers.are_visible(request)
        is_callable = type(entry.component) in TARGETS and not entry.is_switched_off
        shown = {
            **context,
            "title": obj.name,
            "subtitle": None,
            "entry": entry,
            "quoted_key": quote(obj.pk),
            "facts": component_page.facts(entry),
            "access": component_page.access(entry),
            "tables": component_page.tables(entry),
            "details": component_page.details(entry),
            "revisions": component_page.revisions(entry),
            "switched_off": switches.row_of(entry) if entry.is_switched_off else None,
            "may_try": may_try(request) and is_callable,
            "may_switch": self.has_switch_permission(request),
            "numbers": call_numbers.context_of(entry, self.admin_site) if shows_calls else None,
        }
        return self.page(request, "admin/django_mcp/component/page.html", shown)

    # The switch.

    def switch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Switch one component off, or on."""
        if not (self.has_view_permission(request) and self.has_switch_permission(request)):
            raise PermissionDenied
        component = self.get_object(request, unquote(object_id))
        if component is None:
            raise Http404
        self._switch(request, [component], is_off=request.POST.get("switch") == "off")
        name = f"{self.admin_site.name}:django_mcp_component_change"
        return HttpResponseRedirect(reverse(name, args=[quote(component.pk)]))

    @admin.action(description=_("Switch off selected components"), permissions=["switch"])
    def switch_off(self, request: HttpRequest, queryset: Rows[Component]) -> None:
        self._switch(request, queryset, is_off=True)

    @admin.action(description=_("Switch on selected components"), permissions=["switch"])
    def switch_on(self, request: HttpRequest, queryset: Rows[Component]) -> None:
        self._switch(request, queryset, is_off=False)

    def _switch(self, request: HttpRequest, chosen: list[Component], *, is_off: bool) -> None:
        changed = [item for item in chosen if item.entry.is_switched_off != is_off]
        selected = [item.entry for item in changed]
        if is_off:
            switches.switch_off(selected, by=request.user.get_username())
        else:
            switches.switch_on(selected)
        text = _("Switched off.") if is_off else _("Switched on.")
        for component in changed:
            self.log_change(request, component, str(text))
        self.message_user(request, _message(len(changed), is_off=is_off), messages.SUCCESS)


def _message(count: int, *, is_off: bool) -> str:
    if is_off:
        text = ngettext(
            "%d component is switched off: no client can list or use it.",
            "%d components are switched off: no client can list or use them.",
            count,
        )
    else:
        text = ngettext("%d component is switched on.", "%d components are switched on.", count)
    return text % count
