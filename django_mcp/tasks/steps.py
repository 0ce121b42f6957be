"""Whether a tool call becomes a task: the rules of both forms, and how such a call is answered."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, NamedTuple

from django_mcp.core.components.base import Component
from django_mcp.core.components.tool import ToolComponent
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
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.extensions import CallPlan
from django_mcp.tasks import calls, hand_over, submission

TASK_AFTER = 5.0
"""Seconds until a running call is continued as a task: users who wait for longer want to do
something else meanwhile. ``task_after`` of a tool overrides it."""
EXTENSION: Json = {"extensions": {tasks.EXTENSION: {}}}
"""The declaration of a client of the extension."""


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
        return _requested(frame, tool)
    if frame.revision.has(Feature.TASKS_EXTENSION):
        return _decided(frame, tool)
    return None


def _requested(frame: Frame, tool: ToolComponent) -> TaskTerms | None:
    """Return the terms of a client which requests each task itself (TASK-06, -10 to -13)."""
    params = frame.message.params
    if "task" not in params and tool.task_support != "required":
        return None
    if not frame.server.capabilities.has_tasks(frame.revision):
        return None
    if "task" not in params:
        # A client knows of a tool behind ``call_tool`` only that a call may be a task.
        if frame.private.get("is_indirect"):
            return None
        raise MethodNotFound(f"The tool {cut(tool.name)} can only be called as a task")
    if tool.task_support == "forbidden":
        raise MethodNotFound(f"The tool {cut(tool.name)} cannot be called as a task")
    return TaskTerms(0, _ttl(params["task"]))


def _ttl(metadata: Any) -> int | None:
    ttl = metadata.get("ttl") if type(metadata) is dict else False
    if ttl is None or (type(ttl) is int and ttl >= 0):
        return ttl
    if type(ttl) is float and ttl >= 0 and ttl.is_integer():
        return int(ttl)  # JSON has one type for both.
    raise InvalidParams("params.task must be an object, and its ttl a number of milliseconds")


def _decided(frame: Frame, tool: ToolComponent) -> TaskTerms | None:
    """Return the terms of the server, for a client that declares the extension (TASK-02 to -04)."""
    support = tool.task_support
    if support == "forbidden" or not frame.server.capabilities.has("tasks"):
        return None
    if not is_declared(frame):
        if support == "required" and not frame.private.get("is_indirect"):
            raise MissingClientCapability.of(EXTENSION)
        return None
    if tool.task_after is not None:
        return TaskTerms(tool.task_after)
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
    is_supported = component.task_support != "forbidden"
    return revision.has(Feature.TASKS) or (is_supported and revision.has(Feature.TASKS_EXTENSION))


async def start_task(frame: Frame, plan: CallPlan, arguments: dict[str, Any]) -> Answer | None:
    """Answer with a task if the call becomes one; it is a step before the arguments are validated.

    A call with valid arguments goes on where another step decides whether it may run. One with
    invalid arguments does not: the client has requested a task, so the task fails.
    """
    terms = terms_of(frame, plan.component)
    if terms is None:
        return None
    if INSTALLED.decide(plan.component, frame.revision) and await plan.accepts(arguments):
        return None
    return await answer(frame, terms, plan, arguments)


def is_decided(component: Component, revision: Revision) -> bool:
    """Whether calls of a component may become tasks once another step has decided on them."""
    return may_be_task(component, revision) and INSTALLED.decide(component, revision)


async def start_decided(
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

    outcome = await hand_over.run(frame, call, terms.after)
    if isinstance(outcome, Task):
        return created(frame, outcome), frame
    return outcome


def created(frame: Frame, task: Task) -> dict[str, Any]:
    """Return the result for a client, after its call became this task."""
    is_session = frame.revision.has(Feature.TASKS)
    describe = tasks.created_in_session if is_session else tasks.created_in_extension
    return describe(task)
