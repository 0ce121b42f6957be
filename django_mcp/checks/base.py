"""The decorator of system checks, and when a check is skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from django_mcp import conf, registry
from django_mcp.core.components.base import ConfigurationError

Found = Iterator[CheckMessage]
Find = Callable[[], Found]
Run = Callable[..., list[CheckMessage]]

CHECKS: dict[bool, list[Run]] = {False: [], True: []}
"""The checks of each command, and of ``check --deploy``."""


def check(
    *, requires_settings: bool = True, requires_components: bool = True, deploy: bool = False
) -> Callable[[Find], Run]:
    """Register a check. It is skipped if another check reports that its requirements are not met.

    ``check_settings`` reports invalid settings, and ``check_components`` a server with components
    that cannot work as they are declared. No check builds components that are deferred, such as
    tools of REST views: that takes seconds on a large site, and most commands run checks. The only
    exception is ``check_deferred_components``, for ``check --deploy``.
    """

    def decorate(find: Find) -> Run:
        def run(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
            try:
                if requires_settings:
                    conf.get()
                if requires_settings and requires_components:
                    for server in registry.servers():
                        registry.check_declarations(server)
            except (ConfigurationError, ImproperlyConfigured, DatabaseError):
                return []
            try:
                return list(find())
            except DatabaseError:
                # Checks run before migrations, and the serializer of a view may read a table.
                return []

        return add(run, deploy=deploy)

    return decorate


def add(run: Run, *, deploy: bool = False) -> Run:
    """Add a check that reads the arguments of Django's checks; ``check`` is for all others."""
    CHECKS[deploy].append(run)
    return run
