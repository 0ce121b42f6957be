"""Tasks as an extension: calls that outlive their request, and ``answer_within`` for others."""

from __future__ import annotations

from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.extensions import Extension, Method, Option, Step
from django_mcp.tasks import call_status, listening, methods, steps

EXTENSION = Extension(
    name="django-mcp/tasks",
    of_capability="tasks",
    options=[
        Option(
            name=call_status.ANSWER_WITHIN,
            read=call_status.read,
            only_on_server="the session may be over when its call ends",
            answers_with_text=True,
        )
    ],
    methods=[
        Method(
            name=name,
            call=call,
            revisions=[each.version for each in BY_VERSION.values() if name in each.requests],
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
        Step(call_status.answer_soon),
    ],
    add_to=call_status.add,
)
