"""System checks of the app ``django_mcp.contrib.approvals``; they run without a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Warning, register
from django.db import DatabaseError
from django.urls import NoReverseMatch, reverse

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolComponent


@register("django_mcp")
def check_approvals(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    # A check stays registered where a test has changed INSTALLED_APPS.
    if not apps.is_installed("django_mcp.contrib.approvals"):
        return []
    try:
        return [*_urls(), *_permissions()]
    except ConfigurationError:
        return []  # The check of the server reports it.
    except DatabaseError:
        # Checks run before migrations, and the serializer of a view may read a table.
        return []


def _tools() -> Iterator[ToolComponent]:
    for entry in registry.registered_entries():
        if isinstance(entry.component, ToolComponent) and "approval" in entry.component.options:
            yield entry.component


def _urls() -> Iterator[CheckMessage]:
    try:
        reverse("django_mcp_approvals:list")
    except NoReverseMatch:
        if any(_tools()):
            yield Warning(
                "Tools have approvals, but their pages are not included, so that calls can be "
                "approved in the admin only.",
                hint='Add path("approvals/", include("django_mcp.contrib.approvals.urls")) to the '
                "ROOT_URLCONF.",
                id="django_mcp_approvals.W001",
            )


def _permissions() -> Iterator[CheckMessage]:
    # Only the database knows whether a permission of an installed app exists.
    labels = {config.label for config in apps.get_app_configs()}
    for tool in _tools():
        permission = tool.options["approval"].permission
        if isinstance(permission, str) and permission.partition(".")[0] not in labels:
            yield Warning(
                f"Calls of the tool {tool.name!r} at {tool.source} need somebody with the "
                f"permission {permission!r}, but no installed app has that label: only superusers "
                "can approve them.",
                hint='Write "app_label.codename", for instance "auth.change_user".',
                id="django_mcp_approvals.W002",
            )
