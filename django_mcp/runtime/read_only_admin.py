"""What the admins of the package have in common: rows that nobody edits, and values as JSON."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # Generic for mypy only.
    """An admin in which rows are neither added nor changed."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def as_json(value: Any) -> str:
    """Return a value as indented JSON, in HTML."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return format_html("<pre>{}</pre>", text)
