"""System checks: mistakes which would otherwise appear at the first call.

There is one module for each subject. ``docs/reference/checks.md`` explains every id. The modules
are imported when the checks run: a process that serves requests runs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core import checks

TAG = "django_mcp"
MODULES = (
    "authentication",
    "clients",
    "codenames",
    "components",
    "project",
    "serving",
    "workers",
)


def register() -> None:
    """Register the checks with Django: for each command, and for ``check --deploy``."""
    checks.register(run, TAG)
    checks.register(run_deployment, TAG, deploy=True)


def run(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Run the checks of each command."""
    return _messages(False, app_configs, options)


def run_deployment(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Run the checks that only ``check --deploy`` runs."""
    return _messages(True, app_configs, options)


def _messages(deploy: bool, app_configs: Any, options: Any) -> list[checks.CheckMessage]:
    kind = import_module(f"{__name__}.base").Check
    modules = [import_module(f"{__name__}.{name}") for name in MODULES]
    values = (value for module in modules for value in vars(module).values())
    chosen = [it for it in values if isinstance(it, kind) and it.is_for_deployment is deploy]
    return [message for check in chosen for message in check(app_configs, **options)]
