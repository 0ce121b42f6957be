"""System checks of events: tables in several databases, which have no common transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import router

from django_mcp import registry
from django_mcp.contrib.events.declaration import EventComponent
from django_mcp.contrib.events.models import Occurrence


@register("django_mcp")
def check_databases(app_configs: Sequence[AppConfig] | None, **_: Any) -> Sequence[CheckMessage]:
    """Check the databases that the router returns for events and for their models."""
    # A check stays registered where a test has changed INSTALLED_APPS.
    if not apps.is_installed("django_mcp.contrib.events"):
        return []
    return [*_tables(), *_models()]


def _tables() -> Iterator[CheckMessage]:
    tables = apps.get_app_config("django_mcp_events").get_models()
    aliases = sorted({router.db_for_write(model) for model in tables})
    if len(aliases) > 1:
        yield Error(
            f"The router sends the tables of django_mcp.contrib.events to several databases: "
            f"{', '.join(aliases)}.",
            hint="Let db_for_write return one database for the app label django_mcp_events.",
            id="django_mcp_events.E001",
        )


def _models() -> Iterator[CheckMessage]:
    outbox = router.db_for_write(Occurrence)
    for server in registry.servers():
        for component in server.components.registered():
            if not isinstance(component, EventComponent) or component.event.model is None:
                continue
            model = component.event.model
            alias = router.db_for_write(model)
            if alias != outbox:
                yield Warning(
                    f"{model._meta.label} is written in the database {alias}, and the event "
                    f"{component.name} in {outbox}. The event is written after the commit of its "
                    "change, and is lost if the process dies between the two.",
                    hint=f"Let the router send the app label django_mcp_events to {alias}, or "
                    "silence this check.",
                    obj=model,
                    id="django_mcp_events.W001",
                )
