"""Tasks as an extension: calls that outlive their request, and ``answer_within`` for others."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured

from django_mcp import registry
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.extensions import Extension, Method, Option, Step
from django_mcp.tasks import call_status, listening, methods, runners, steps, store, submission


def check() -> Iterator[CheckMessage]:
    """Check the runner, which other processes make when they need it, and where calls go on."""
    components = [entry.component for entry in registry.registered_entries()]
    if not any(steps.SUPPORT in component.options for component in components):
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
        if component.options.get(steps.SUPPORT) == "optional"
        and steps.AFTER not in component.options
        and not component.is_in_every_selection
        and not INSTALLED.defers(component)
    ]
    if continued and not runner.runs_here:
        yield Warning(
            f"TASK_RUNNER runs tasks in workers, but calls of {', '.join(map(repr, continued))} "
            f"that take longer than {steps.TASK_AFTER:g} seconds go on in the process that "
            "received them, as tasks.",
            hint="Set task_after=0 to run each call in a worker, or task_after to the number of "
            "seconds for which a call may take up this process.",
            id="django_mcp.W062",
        )


EXTENSION = Extension(
    name="django-mcp/tasks",
    of_capability="tasks",
    flags=steps.flags,
    narrow_flags=steps.flags_for,
    options=[
        Option(
            name=steps.SUPPORT,
            read=steps.read_support,
            may_be_method=True,
            listed=steps.execution_of,
            # Without the capability, clients must not see which tools support tasks.
            is_listed=steps.has_tasks,
        ),
        Option(name=steps.AFTER, read=steps.read_after, may_be_method=True),
        Option(
            name=call_status.ANSWER_WITHIN,
            read=call_status.read,
            only_on_server="the session may be over when its call ends",
            answers_with_text=True,
        ),
    ],
    methods=[
        Method(
            name=name,
            call=call,
            revisions=[each.version for each in BY_VERSION.values() if name in each.requests],
            is_serialized=name == "tasks/update",
            runs_as_handler=False,
        )
        for name, call in {
            "tasks/get": methods.get,
            "tasks/result": methods.result,
            "tasks/list": methods.list_,
            "tasks/update": methods.update,
            "tasks/cancel": methods.cancel,
        }.items()
    ],
    filters=[listening.FILTER],
    before_arguments=[Step(steps.start_task, steps.may_be_task)],
    before_handler=[
        Step(steps.start_task_after_decision, steps.may_be_task_after_decision),
        Step(call_status.answer_soon, call_status.is_answered_soon),
    ],
    add_to=call_status.add,
    rounds=[store.prune, submission.submit_unstarted],
    check=check,
)
