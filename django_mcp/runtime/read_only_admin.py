"""Common parts of the package's admins: rows that nobody edits, and values as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html


class ListedLookups(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """An admin whose URLs filter by what its list shows only.

    Django allows every column of the model. The rows of this package have some that nobody sees,
    which a lookup such as ``?data__contains=`` would read letter by letter.
    """

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        filters = self.get_list_filter(request)
        columns = {"pk", *(name for each in self.opts.fields for name in (each.name, each.attname))}
        hidden = columns.difference(self.get_list_display(request), _fields(filters))
        is_hidden = lookup not in _parameters(filters) and lookup.partition("__")[0] in hidden
        return not is_hidden and super().lookup_allowed(lookup, value, request)


def _fields(filters: Iterable[Any]) -> Iterator[str]:
    """The fields of a list's filters: "status", or ("day", DateFieldListFilter)."""
    for each in filters:
        field = each[0] if isinstance(each, tuple | list) else each
        if isinstance(field, str):
            yield field


def _parameters(filters: Iterable[Any]) -> Iterator[str]:
    """The parameters that other filters read from a URL."""
    for each in filters:
        if isinstance(each, type) and issubclass(each, admin.SimpleListFilter):
            yield str(each.parameter_name)


class ReadOnlyAdmin(ListedLookups):
    """An admin without adding and changing of rows."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def as_json(value: Any) -> str:
    """Return a value as indented JSON, in HTML."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return format_html("<pre>{}</pre>", text)
