"""Whether a tool call becomes a task: the rules of both forms, and how such a call is answered."""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf
from typing import Any, NamedTuple, get_args

from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.tool import TaskSupport, ToolComponent
from django_mcp.core.dispatch.invocation import Answer
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import (
    InvalidParams,
    Json,
    MethodNotFound,
    MissingClientCapability,
)
from django_mcp.core.protocol.limits import cut
from django_mcp.core.protocol.revisions import Feature, Revision
from django_mcp.core.protocol.tasks import Task
from django_mcp.core.server.components import Expected
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.server import Server
from django_mcp.extensions import CallPlan
from django_mcp.tasks import calls, continued_calls, submission

TASK_AFTER = 5.0
"""Seconds until a running call is continued as a task: users who wait for longer want to do
something else meanwhile. ``task_after`` of a tool overrides it."""
SUPPORT = "task_support"
SUPPORTING = ("optional", "required")
AFTER = "task_after"
EXTENSION: Json = {"extensions": {tasks.EXTENSION: {}}}
"""The declaration of a client of the extension."""


# The options, and what clients are told.


def read_support(value: Any, where: str) -> str | None:
    if value not in get_args(TaskSupport):
        raise ConfigurationError(
            f'The task_support of {where} is {value!r}: write "forbidden", "optional" or "required"'
        )
    return None if value == "forbidden" else str(value)


def read_after(value: Any, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < inf:
        raise ConfigurationError(
            f"The task_after of {where} is {value!r}: write a number of seconds, or 0"
        )
    return float(value)


def execution_of(tool: Component) -> Json:
    return {"execution": {"taskSupport": tool.options[SUPPORT]}}


def flags(server: Server) -> Json | None:
    """Return the flags of the capability, which servers have with a tool that supports tasks."""
    has_any = server.components.has_any(supports_tasks)
    return {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}} if has_any else None


def supports_tasks(component: Component | Expected) -> bool:
    # A tool that leads to others supports them for these.
    leads_to_others = getattr(component, "is_in_every_selection", False)
    return component.options.get(SUPPORT) in SUPPORTING and not leads_to_others


def flags_for(principal: Principal, flags: Json) -> Json:
    """Leave out ``tasks/list`` for anonymous callers, who are all the same one (TASK-A5)."""
    if not principal.is_anonymous:
        return flags
    return {name: value for name, value in flags.items() if name != "list"}


def has_tasks(server: Server, revision: Revision) -> bool:
    """Return whether clients of ``revision`` may request that a tool is called as a task."""
    declared = server.capabilities.described(revision)
    requests = declared.get("tasks", {}).get("requests", {})
    return "call" in requests.get("tools", {})


# The calls.


class TaskTerms(NamedTuple):
    """How a call becomes a task."""

    after: float
    """Seconds that the call has to end without a task."""
    ttl_ms: int | None = None
    """The lifetime that the client requests."""


def terms_of(frame: Frame, tool: ToolComponent) -> TaskTerms | None:
    """Return how the call becomes a task, or None for a plain call.

    Raises MethodNotFound, InvalidParams or MissingClientCapability where the tool cannot be called
    in this way.
    """
    if not frame.exchange.may_start_tasks:
        return None
    if frame.revision.has(Feature.TASKS):
        return _terms_of_client(frame, tool)
    if frame.revision.has(Feature.TASKS_EXTENSION):
        return _terms_of_server(frame, tool)
    return None


def _terms_of_client(frame: Frame, tool: ToolComponent) -> TaskTerms | None:
    """Return the terms of a client which requests each task itself (TASK-06, -10 to -13)."""
    params = frame.message.params
    support = tool.options.get(SUPPORT)
    if "task" not in params and support != "required":
        return None
    if not has_tasks(frame.server, frame.revision):
        return None
    if "task" not in params:
        # A client knows of a tool behind ``call_tool`` only that a call may be a task.
        if frame.private.get("is_indirect"):
            return None
        raise MethodNotFound(f"The tool {cut(tool.name)} can only be called as a task")
    if support is None:
        raise MethodNotFound(f"The tool {cut(tool.name)} cannot be called as a task")
    return TaskTerms(0, _ttl(params["task"]))


def _ttl(metadata: Any) -> int | None:
    ttl = metadata.get("ttl") if type(metadata) is dict else False
    if ttl is None or (type(ttl) is int and ttl >= 0):
        return ttl
    if type(ttl) is float and ttl >= 0 and ttl.is_integer():
        return int(ttl)  # JSON has one type for both.
    raise InvalidParams("params.task must be an object, and its ttl a number of milliseconds")


def _terms_of_server(frame: Frame, tool: ToolComponent) -> TaskTerms | None:
    """Return the terms of the server, for a client that declares the extension (TASK-02 to -04)."""
    support = tool.options.get(SUPPORT)
    if support is None or not frame.server.capabilities.has("tasks"):
        return None
    if not is_declared(frame):
        if support == "required" and not frame.private.get("is_indirect"):
            raise MissingClientCapability.of(EXTENSION)
        return None
    if AFTER in tool.options:
        return TaskTerms(tool.options[AFTER])
    return TaskTerms(0 if support == "required" else TASK_AFTER)


def is_declared(frame: Frame) -> bool:
    """Return whether the client declares the extension in this request."""
    extensions = (frame.get_client_capabilities() or {}).get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(tasks.EXTENSION), dict)


def may_be_task(component: Component, revision: Revision) -> bool:
    """Whether calls of a component may become tasks in a revision."""
    if not isinstance(component, ToolComponent):
        return False
    # Where clients request tasks themselves, they may request one of any tool.
    is_supported = SUPPORT in component.options
    return revision.has(Feature.TASKS) or (is_supported and revision.has(Feature.TASKS_EXTENSION))


def is_task_at_once(component: Component) -> bool:
    """Whether it runs as a task wherever an input request would end the call."""
    return component.options.get(SUPPORT) == "required" and not component.options.get(AFTER)


async def start_task(frame: Frame, plan: CallPlan, arguments: dict[str, Any]) -> Answer | None:
    """Answer with a task if the call becomes one; it is a step before the arguments are validated.

    A call with valid arguments goes on where another step decides whether it may run. One with
    invalid arguments does not: the client has requested a task, so the task fails.
    """
    terms = terms_of(frame, plan.component)
    if terms is None:
        return None
    if INSTALLED.has_deciding_step(plan.component, frame.revision) and await plan.accepts(
        arguments
    ):
        return None
    return await answer(frame, terms, plan, arguments)


def may_be_task_after_decision(component: Component, revision: Revision) -> bool:
    """Whether calls of a component may become tasks once another step has decided on them."""
    return may_be_task(component, revision) and INSTALLED.has_deciding_step(component, revision)


async def start_task_after_decision(
    frame: Frame, plan: CallPlan, arguments: dict[str, Any], validated: Any
) -> Answer | None:
    """Answer with a task if a call that may run becomes one; it is a step before the handler."""
    terms = terms_of(frame, plan.component)
    return None if terms is None else await answer(frame, terms, plan, arguments)


async def answer(
    frame: Frame, terms: TaskTerms, plan: CallPlan, arguments: dict[str, Any]
) -> Answer:
    """Return the answer to a call which becomes a task, or to one that ended before."""
    if not terms.after:
        task = await submission.begin(calls.describe(frame, terms.ttl_ms))
        return created(frame, task), frame

    def call(inner: Frame) -> Awaitable[Answer]:
        return plan.call(inner, arguments)

    outcome = await continued_calls.run(frame, call, terms.after)
    if isinstance(outcome, Task):
        return created(frame, outcome), frame
    return outcome


def created(frame: Frame, task: Task) -> dict[str, Any]:
    """Return the result for a client, after its call became this task."""
    is_session = frame.revision.has(Feature.TASKS)
    describe = tasks.created_in_session if is_session else tasks.created_in_extension
    return describe(task)
