"""The check of the permissions that components name, in the tables of a database."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.utils.module_loading import import_string

from django_mcp.checks.base import Found, add
from django_mcp.core.protocol.texts import similar
from django_mcp.registry import registered_entries

QUESTIONS = ("has_perm", "has_perms", "get_all_permissions", "_get_permissions")
"""Methods of a backend that answers for permissions outside of the tables."""


@add
def check_codenames(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Look in the databases that ``check`` names, where Django's own tables decide."""
    # Other commands name them as well: migrate creates the permissions only at its end.
    if sys.argv[1:2] != ["check"] or not _decides_by_tables():
        return []
    messages: list[CheckMessage] = []
    for alias in databases or ():
        # A database may be without tables yet, and components may be what another check reports.
        with suppress(DatabaseError, ImproperlyConfigured):
            messages += _missing(alias)
    return messages


def _decides_by_tables() -> bool:
    backends = [import_string(path) for path in settings.AUTHENTICATION_BACKENDS]
    return all(
        getattr(backend, name, None) in (None, getattr(ModelBackend, name, None))
        for backend in backends
        for name in QUESTIONS
    )


def _missing(alias: str) -> Found:
    stored = Permission.objects.using(alias).values_list("content_type__app_label", "codename")
    names = {f"{label}.{codename}" for label, codename in stored}
    if not names:
        return  # Before the first migrate, or in a database without users.
    for entry in registered_entries():
        options = entry.component.options.values()
        of_options = (getattr(value, "permission", None) for value in options)
        for needed in (entry.component.permission, *of_options):
            if not isinstance(needed, str) or "." not in needed or needed in names:
                continue
            near = _nearest(needed, names)
            yield Error(
                f"The {entry.kind} {entry.component.name!r} at {entry.component.source} names the "
                f"permission {needed!r}, which the database {alias!r} does not have.",
                hint=f"Did you mean {near!r}?" if near else "Correct the codename.",
                id="django_mcp.E026",
            )


def _nearest(needed: str, names: Iterable[str]) -> str | None:
    """Return a permission with a similar codename: of the same app, or else of another one.

    Compared as a whole, permissions of one app are alike, whatever they permit.
    """
    label, _, codename = needed.partition(".")
    split = [name.partition(".") for name in names]
    of_app = [other for app, _, other in split if app == label]
    if near := similar(codename, of_app):
        return f"{label}.{near}"
    same = [app for app, _, other in split if other == codename]
    app = similar(label, same) or next(iter(same), None)
    return None if app is None else f"{app}.{codename}"
