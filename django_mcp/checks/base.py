"""The decorator of system checks, and when a check is skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.utils.module_loading import import_string

from django_mcp import conf, registry
from django_mcp.core.components.base import ConfigurationError

Found = Iterator[CheckMessage]
Find = Callable[[], Found]
Messages = list[CheckMessage]
Run = Callable[..., Messages]


@dataclass(frozen=True, slots=True)
class Check:
    """A check of each command, or one that only ``check --deploy`` runs."""

    run: Run
    is_for_deployment: bool

    def __call__(self, app_configs: Sequence[AppConfig] | None, **options: Any) -> Messages:
        return self.run(app_configs, **options)


def check(
    *, requires_settings: bool = True, requires_components: bool = True, deploy: bool = False
) -> Callable[[Find], Check]:
    """Make a function a check, which is skipped if others report that its requirements are not met.

    ``check_settings`` reports invalid settings, and ``check_components`` a server with components
    that cannot work as they are declared. No check builds components that are deferred, such as
    tools of REST views: that takes seconds on a large site, and most commands run checks. The only
    exception is ``check_deferred_components``, for ``check --deploy``.
    """

    def decorate(find: Find) -> Check:
        def run(app_configs: Sequence[AppConfig] | None, **_: Any) -> Messages:
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

        return Check(run, deploy)

    return decorate


def add(run: Run) -> Check:
    """Make a check of a function that reads the arguments of Django's checks."""
    return Check(run, is_for_deployment=False)


def import_problem(path: str) -> str | None:
    """Return why the object with a dotted path cannot be imported; None if it can.

    Its module is code of the site, which may raise anything.
    """
    try:
        import_string(path)
    except ImportError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
