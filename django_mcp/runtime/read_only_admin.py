"""Common parts of the package's admins: one section, links, rows that nobody edits, and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.admin.widgets import AutocompleteSelect
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _

from django_mcp.auth.anonymous import ANONYMOUS
from django_mcp.core.components.tool import ToolComponent

PACKAGE = "django_mcp"
NOTHING = "-"
"""The text of a page for a missing value, as in lists."""
MAX_MATCHES = 20
"""The number of users that a search for a name finds."""


def group_apps(site: admin.AdminSite) -> None:
    """List this package and its apps as one section of an admin site.

    Django has a section for each app. A site overrides ``get_app_list`` to list others, so the
    section stands where the first of them stood.
    """
    if not isinstance(site.get_app_list, _GroupedApps):
        site.get_app_list = _GroupedApps(site.get_app_list)  # type: ignore[method-assign]


class _GroupedApps:
    """The ``get_app_list`` of an admin site, with one section for this package and its apps."""

    def __init__(self, list_apps: Callable[..., list[Any]]) -> None:
        self._list_apps = list_apps

    def __call__(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        configs = apps.get_app_configs()
        labels = {app.label for app in configs if app.name.partition(".")[0] == PACKAGE}
        if app_label is not None and app_label not in labels:
            return self._list_apps(request, app_label)
        listed = self._list_apps(request)
        own = [app for app in listed if app["app_label"] in labels]
        if not own:
            return [] if app_label else listed
        models = sorted((row for app in own for row in app["models"]), key=lambda row: row["name"])
        name = apps.get_app_config(PACKAGE).verbose_name
        section = {**own[0], "name": name, "models": models}
        if app_label is not None:
            return [section]
        return [section if app is own[0] else app for app in listed if app not in own[1:]]


class ListedLookups(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """An admin with URLs that filter only by columns of its list.

    Django allows every column of the model. The rows of this package have some that nobody sees,
    which a lookup such as ``?data__contains=`` would read letter by letter.
    """

    class Media:
        css = {"all": ["django_mcp/admin.css"]}

    def __init__(self, model: Any, admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        group_apps(admin_site)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Return the row with the user who reads its page: links depend on their permissions."""
        row: Any = super().get_object(request, object_id, from_field)
        if row is not None:
            row.reader = request.user
        return row

    def link(self, row: Any, model: str, key: Any, text: Any) -> Any:
        """Return a link to a row of the admin of "app.model"; the text for who may not see it."""
        url = self._url(row, model, "change", quote(str(key)))
        return format_html('<a href="{}">{}</a>', url, text) if url else text

    def list_link(self, row: Any, model: str, filters: Mapping[str, Any], text: Any) -> str:
        """Return a link to the filtered list of "app.model"; "" for who may not see it."""
        url = self._url(row, model, "changelist")
        return format_html('<a href="{}?{}">{}</a>', url, urlencode(filters), text) if url else ""

    def calls_link(self, row: Any, shown: Any, **filters: Any) -> Any:
        """Return ``shown``, and a link to the calls with these filters for who may see them."""
        listed = self.list_link(row, "django_mcp_calls.call", filters, _("all calls"))
        return format_html("{} · {}", shown, listed) if listed else shown

    def tool_link(self, row: Any) -> Any:
        """Return a link to the tool that ``row`` is about, and one to its calls."""
        key = f"{row.server}:{ToolComponent.kind}:{row.tool}"
        shown = self.link(row, "django_mcp.component", key, row.tool)
        return self.calls_link(row, shown, component=row.tool, server=row.server)

    def user_link(self, row: Any, key: Any, name: Any) -> Any:
        """Return a link to a user, by the key; the name for who may not see it."""
        return self.link(row, get_user_model()._meta.label_lower, key, name) if key else name

    def _url(self, row: Any, model: str, page: str, *arguments: str) -> str:
        app, _dot, name = model.partition(".")
        if not any(row.reader.has_perm(f"{app}.{action}_{name}") for action in ("view", "change")):
            return ""
        try:
            return reverse(f"{self.admin_site.name}:{app}_{name}_{page}", args=arguments)
        except NoReverseMatch:
            return ""

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        shown: set[Any] = {*self.get_list_display(request)}
        parameters: set[str | None] = set()
        for item in self.get_list_filter(request):
            if isinstance(item, type) and issubclass(item, admin.SimpleListFilter):
                parameters.add(item.parameter_name)
            else:  # Such as "status", or ("day", DateFieldListFilter).
                shown.add(item[0] if isinstance(item, tuple | list) else item)
        columns = {"pk", *(name for each in self.opts.fields for name in (each.name, each.attname))}
        is_hidden = lookup not in parameters and lookup.partition("__")[0] in columns - shown
        return not is_hidden and super().lookup_allowed(lookup, value, request)


class ReadOnlyAdmin(ListedLookups):
    """An admin without adding and changing of rows."""

    optional_fields: Collection[str] = ()
    """Fields that the page of a row has only where there is a value."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        listed: Any = super().get_fields(request, obj)
        if obj is None:
            return listed
        names = []
        for name in listed:
            if name in self.optional_fields:
                shown = getattr(self, name)(obj) if hasattr(self, name) else getattr(obj, name)
                if not shown or shown == NOTHING:
                    continue
            names.append(name)
        return names


def caller_of(principal: str) -> Any:
    """Return a principal that is no user as lists show it."""
    return _("anonymous") if principal.startswith(f"{ANONYMOUS.scheme}:") else principal


class UserSelect(AutocompleteSelect):
    """A select of one user by autocompletion, with a text for no user."""

    def __init__(self, field: Any, site: admin.AdminSite, *, placeholder: Any) -> None:
        super().__init__(field, site)
        self.placeholder = placeholder

    def build_attrs(self, base_attrs: Any, extra_attrs: Any = None) -> dict[str, Any]:
        attributes: dict[str, Any] = super().build_attrs(base_attrs, extra_attrs)
        return {**attributes, "data-placeholder": str(self.placeholder)}

    @property
    def media(self) -> forms.Media:
        return super().media + forms.Media(js=["django_mcp/user_select.js"])

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        """Return the chosen user; nobody for a text that is no key of a user."""
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, ValidationError):
            return super().optgroups(name, [], attr)


def are_users_searched(request: HttpRequest, site: admin.AdminSite) -> bool:
    """Whether an admin site completes the names of users for the user of a request."""
    model = get_user_model()
    if not site.is_registered(model):
        return False
    users = site.get_model_admin(model)
    return bool(users.get_search_fields(request)) and users.has_view_permission(request)


def user_names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return the user names by primary key, as strings, in one query; none for a key of no user."""
    model = get_user_model()
    values = []
    for text in {*keys} - {""}:
        try:
            values.append(model._meta.pk.to_python(text))
        except ValidationError:
            continue  # A site's own authenticator has another subject.
    users = model._base_manager.in_bulk(values)
    return {str(key): user.get_username() for key, user in users.items()}


def keys_of_names_with(text: str) -> list[str]:
    """Return the primary keys of users with ``text`` in their name, as strings."""
    model = get_user_model()
    users = model._base_manager.filter(**{f"{model.USERNAME_FIELD}__icontains": text})
    return [str(key) for key in users.values_list("pk", flat=True)[:MAX_MATCHES]]


_BREAKS = re.compile(r"(?<=[._/:-])(?=\w)")


def breakable(text: Any) -> str:
    """Return a name or URI in HTML that lines break after its dots and underscores only."""
    return format_html_join(
        mark_safe("<wbr>"), "{}", ((part,) for part in _BREAKS.split(str(text)))
    )


def as_json(value: Any) -> str:
    """Return a value as indented JSON, in HTML."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return format_html('<pre class="mcp-value">{}</pre>', text)
