"""Tasks as an extension: calls that outlive their request, and ``answer_within`` for others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.extensions import Extension, Method, Option, Step
from django_mcp.tasks import call_status, listening, methods, steps, store, submission


def check() -> Iterable[Any]:
    # With the runner of the site, which other processes make when they need it.
    from django_mcp.tasks import checks

    return checks.run()


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
        Step(steps.start_decided, steps.is_decided),
        Step(call_status.answer_soon, call_status.is_answered_soon),
    ],
    add_to=call_status.add,
    rounds=[store.prune, submission.submit_unstarted],
    check=check,
)
