"""Checks of tools that support tasks: the runner, and where their calls go on."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured

from django_mcp import registry
from django_mcp.tasks import runners
from django_mcp.tasks.steps import AFTER, SUPPORT, TASK_AFTER


def run() -> Iterator[CheckMessage]:
    components = [entry.component for entry in registry.registered_entries()]
    if not any(SUPPORT in component.options for component in components):
        return
    try:
        runner = runners.get()
    except ImproperlyConfigured as error:
        yield Error(str(error), id="django_mcp.E003")
        return
    # Calls that are continued as a task go on where they began, whatever the runner is.
    continued = [
        component.name
        for component in components
        if component.options.get(SUPPORT) == "optional"
        and AFTER not in component.options
        and not component.is_in_every_selection
    ]
    if continued and not runner.runs_here:
        yield Warning(
            f"TASK_RUNNER runs tasks in workers, but calls of {', '.join(map(repr, continued))} "
            f"that take longer than {TASK_AFTER:g} seconds go on in the process that received "
            "them, as tasks.",
            hint="Set task_after=0 to run each call in a worker, or task_after to the number of "
            "seconds for which a call may take up this process.",
            id="django_mcp.W062",
        )
