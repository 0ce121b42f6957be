"""The admin of calls: a list with filters, a dashboard, and an export. Nothing can be changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_mcp import registry
from django_mcp.contrib.call_log.models import Call
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.runtime.read_only_admin import (
    NOTHING,
    ReadOnlyAdmin,
    UserSelect,
    are_users_searched,
    as_json,
    breakable,
    caller_of,
    user_names_of,
)

if TYPE_CHECKING:
    from django_mcp.contrib.call_log import dashboard

    L = TypeVar("L", dashboard.Line, dashboard.ExceptionLine)

MAX_LISTED = 10_000
"""Calls that the list counts and shows: counting all of a large table takes seconds."""
VIEW_EXCEPTION = "django_mcp_calls.view_exception"
TOKENS = "django_mcp_tokens.personalaccesstoken"
PERIODS = (1, 7, 30)
"""Days of the dashboard."""


class BoundedPaginator(Paginator):  # type: ignore[type-arg] # Generic for mypy only.
    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MAX_LISTED].count())


class TextFilter(admin.SimpleListFilter):
    """A filter with a field to type into: choices would be as many as there are users."""

    template = "admin/django_mcp_calls/text_filter.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("", "")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """The text, and the other filters, which the form sends as well."""
        others = [
            (name, value)
            for name, values in changelist.filter_params.items()
            for value in values
            if name != self.parameter_name
        ]
        without = changelist.get_query_string(remove=[self.parameter_name])
        text = self.value() or ""
        yield {"text": text, "field": self.field(text), "others": others, "without": without}

    def field(self, text: str) -> Any:
        """Return the control for the text, in HTML."""
        attributes = {"aria-label": self.title}
        return forms.TextInput().render(str(self.parameter_name), text, attributes)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        text = self.value()
        return self.filtered(queryset, text) if text else queryset

    def filtered(self, rows: Any, text: str) -> Any:
        """The rows with this text in the column of the filter; those without any for NONE."""
        # Here and below: imported for the page that somebody looks at.
        from django_mcp.contrib.call_log.dashboard import NONE

        return rows.filter(**{str(self.parameter_name): "" if text == NONE else text})


class UserNames(AutocompleteJsonView):
    """The users whose names contain a text, by their names, which the URLs of the list have."""

    def serialize_result(self, obj: Any, to_field_name: str) -> dict[str, str]:
        return {"id": obj.get_username(), "text": str(obj)}


class UserNameSelect(UserSelect):
    """The user of the filter, who need not exist: the name in the URL, or NONE."""

    def get_url(self) -> str:
        return reverse(f"{self.admin_site.name}:django_mcp_calls_users")

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        from django_mcp.contrib.call_log.dashboard import NOBODY, NONE

        texts = {"": "", **{chosen: str(NOBODY) if chosen == NONE else chosen for chosen in value}}
        options = [
            self.create_option(name, chosen, text, chosen in value, index)
            for index, (chosen, text) in enumerate(texts.items())
        ]
        return [(None, options, 0)]


class ByUser(TextFilter):
    """By autocompletion, or by a name where users are not searched."""

    title = _("user")
    parameter_name = "user"

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        site = model_admin.admin_site
        self.widget = user_select(site) if are_users_searched(request, site) else None

    def field(self, text: str) -> Any:
        if self.widget is None:
            return super().field(text)
        return self.widget.render(
            self.parameter_name, text, {"id": "mcp-by-user", "aria-label": self.title}
        )

    def filtered(self, rows: Any, text: str) -> Any:
        from django_mcp.contrib.call_log.dashboard import NONE

        if text == NONE:
            return rows.filter(user=None)
        model = get_user_model()
        users = model._base_manager.filter(**{model.USERNAME_FIELD: text})
        # The keys, so that the index of the calls is used.
        return rows.filter(user__in=list(users.values_list("pk", flat=True)))


def user_select(site: admin.AdminSite) -> UserNameSelect:
    return UserNameSelect(Call._meta.get_field("user"), site, placeholder=_("All"))


class ByProgram(TextFilter):
    title = _("program")
    parameter_name = "program"


class ByFingerprint(TextFilter):
    title = _("fingerprint of an exception")
    parameter_name = "fingerprint"

    def filtered(self, rows: Any, text: str) -> Any:
        # By the index of outcomes: an exception ends in one of these.
        return super().filtered(rows.filter(outcome__in=("error", "server_error")), text)


class ByComponent(TextFilter):
    title = _("component")
    parameter_name = "component"


class ByServer(admin.SimpleListFilter):
    title = _("server")
    parameter_name = "server"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(server.name, server.name) for server in registry.servers()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(server=self.value()) if self.value() else queryset


@admin.register(Call)
class CallAdmin(ReadOnlyAdmin):
    list_display = ("called_on", "called", "end", "took", "caller", "program")
    list_filter = (
        ("day", admin.DateFieldListFilter),
        "outcome",
        ByComponent,
        ByUser,
        ByProgram,
        ByFingerprint,
        "kind",
        ByServer,
    )
    list_per_page = 100
    ordering = ("-id",)
    # The order of another column would need an index of it.
    sortable_by = ()
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    actions = None
    fields = (
        "called_on",
        "user_page",
        "principal",
        "program",
        "token_page",
        "server_page",
        "kind",
        "component_page",
        "target",
        "arguments_table",
        "end",
        "error_text",
        "exception_text",
        "took",
        "sizes",
        "revision",
        "client_name",
        "client_version",
    )
    readonly_fields = fields
    optional_fields = ("program", "token_page", "error_text", "exception_text")
    dashboard_template = "admin/django_mcp_calls/call/dashboard.html"

    @property
    def media(self) -> forms.Media:
        own = forms.Media(css={"all": ["django_mcp/calls.css"]})
        return super().media + own + user_select(self.admin_site).media

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        _add_user_names([*changelist.result_list])
        return changelist

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are kept: ``mcp_prune`` deletes them after CALL_LOG_RETENTION."""
        return False

    def get_urls(self) -> list[Any]:
        site = self.admin_site
        own = [
            path("dashboard/", site.admin_view(self.dashboard), name="django_mcp_calls_dashboard"),
            path("users/", site.admin_view(self.users), name="django_mcp_calls_users"),
            path("export/", site.admin_view(self.export), name="django_mcp_calls_export"),
        ]
        return own + super().get_urls()

    @admin.display(description=_("called"))
    def called_on(self, row: Call) -> str:
        """The date and the time, with the seconds: they tell calls apart."""
        at = row.called_at
        local = timezone.localtime(at) if timezone.is_aware(at) else at
        return f"{date_format(local, 'SHORT_DATE_FORMAT')} {local:%H:%M:%S}"

    @admin.display(description=_("caller"))
    def caller(self, row: Call) -> Any:
        """The name of the user; the principal of a caller that has no user."""
        return _user_name(row) or caller_of(row.principal)

    @admin.display(description=_("user"))
    def user_page(self, row: Call) -> Any:
        """The user, and the other calls of theirs."""
        name = _user_name(row)
        if not name:
            return NOTHING
        return self.calls_link(row, self.user_link(row, row.user_id, name), user=name)

    @admin.display(description=_("token"))
    def token_page(self, row: Call) -> Any:
        return self.link(row, TOKENS, row.token, row.token) if row.token else NOTHING

    @admin.display(description=_("server"))
    def server_page(self, row: Call) -> Any:
        return self.link(row, "django_mcp.mcpserver", row.server, row.server)

    @admin.display(description=_("component"))
    def component_page(self, row: Call) -> Any:
        """The component, and its other calls."""
        if not row.component:
            return NOTHING
        # A template is read as a resource.
        is_template = row.kind == ResourceComponent.kind and "{" in row.component
        kind = TemplateComponent.kind if is_template else row.kind
        key = f"{row.server}:{kind}:{row.component}"
        shown = self.link(row, "django_mcp.component", key, row.component)
        return self.calls_link(row, shown, component=row.component, server=row.server)

    @admin.display(description=_("name or URI"))
    def called(self, row: Call) -> str:
        return breakable(row.target) or NOTHING

    @admin.display(description=_("outcome"))
    def end(self, row: Call) -> str:
        """The outcome; an error is marked by more than its colour."""
        text = row.get_outcome_display()
        if not row.is_error:
            return text
        return format_html('<span class="mcp-error">✗ {}</span>', text)

    @admin.display(description=_("error"))
    def error_text(self, row: Call) -> str:
        """The text that the client received."""
        return row.error or NOTHING

    @admin.display(description=_("exception"))
    def exception_text(self, row: Call) -> str:
        """The exception, with a link to the calls that ended with it."""
        if not row.exception:
            return NOTHING
        listed = reverse(f"{self.admin_site.name}:django_mcp_calls_call_changelist")
        url = f"{listed}?{urlencode({'fingerprint': row.fingerprint})}"
        return format_html('<code>{}</code> <a href="{}">{}</a>', row.exception, url, _("all"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only those with the permission read exceptions, which may have data of the site."""
        listed = super().get_fields(request, obj)
        if request.user.has_perm(VIEW_EXCEPTION):
            return listed
        return [name for name in listed if name != "exception_text"]

    @admin.display(description=_("duration"))
    def took(self, row: Call) -> str:
        from django_mcp.contrib.call_log.dashboard import in_words

        return in_words(row.duration)

    @admin.display(description=_("sizes"))
    def sizes(self, row: Call) -> str:
        """The bytes of the arguments and of the response; "-" for what there is none of."""
        from django_mcp.contrib.call_log.dashboard import size_in_words

        sent = size_in_words(row.arguments_size) or "-"
        received = size_in_words(row.response_size) or "-"
        return _("arguments %(sent)s, response %(received)s") % {"sent": sent, "received": received}

    @admin.display(description=_("arguments"))
    def arguments_table(self, row: Call) -> Any:
        if row.arguments:
            return as_json(json.loads(row.arguments))
        has_arguments = (row.arguments_size or 0) > len("{}")
        return _("not stored: see log_arguments") if has_arguments else NOTHING

    def dashboard(self, request: HttpRequest) -> HttpResponse:
        """Calls, errors and durations of some days, by component and by user."""
        from django_mcp.contrib.call_log import dashboard
        from django_mcp.contrib.call_log.chart import chart

        self._check_view(request)
        chosen = request.GET.get("days", "")
        days = int(chosen) if chosen in map(str, PERIODS) else 7
        numbers = dashboard.read(days)
        sees_exceptions = request.user.has_perm(VIEW_EXCEPTION)
        listed = reverse(f"{self.admin_site.name}:django_mcp_calls_call_changelist")
        context = {
            **self.admin_site.each_context(request),
            "title": _("Calls by day, component and user"),
            "opts": self.opts,
            "days": days,
            "periods": PERIODS,
            "numbers": numbers,
            "errors": _with_urls(listed, dashboard.exceptions(days)) if sees_exceptions else [],
            "chart": chart(numbers.days),
            "list_url": listed,
            "components": _with_urls(listed, numbers.components),
            "users": _with_urls(listed, numbers.users),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, self.dashboard_template, context)

    def users(self, request: HttpRequest) -> HttpResponseBase:
        """The users for the filter, as JSON."""
        self._check_view(request)
        return UserNames.as_view(admin_site=self.admin_site)(request)

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """The calls of the list with its filters, as CSV."""
        from django_mcp.contrib.call_log import export

        self._check_view(request)
        try:
            changelist: Any = super().get_changelist_instance(request)
        except IncorrectLookupParameters:
            listed = reverse(f"{self.admin_site.name}:django_mcp_calls_call_changelist")
            return HttpResponseRedirect(f"{listed}?e=1")
        return export.response(request, changelist.get_queryset(request))

    def _check_view(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied


def _user_name(row: Call) -> str:
    """The name of the user of a call; "" for none, or one who was deleted."""
    if not hasattr(row, "user_name"):
        _add_user_names([row])
    return row.user_name


def _add_user_names(rows: Sequence[Call]) -> None:
    """Read the users of these calls in one query. They may be in another database."""
    names = user_names_of(row.user_key for row in rows)
    for row in rows:
        row.user_name = names.get(row.user_key, "")


def _with_urls(listed: str, lines: list[L]) -> list[tuple[L, str]]:
    """The lines with the URLs of their calls; "" for a line without filters."""
    return [(line, f"{listed}?{urlencode(line.filters)}" if line.filters else "") for line in lines]
