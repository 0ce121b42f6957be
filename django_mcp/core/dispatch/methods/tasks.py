"""tasks/get, tasks/result, tasks/list, tasks/update and tasks/cancel, in both forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mcp.core.dispatch import pagination, task_calls
from django_mcp.core.dispatch.invocation import object_param, string_param
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import (
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    MissingClientCapability,
    UrlElicitationRequired,
)
from django_mcp.core.protocol.revisions import Feature
from django_mcp.core.protocol.tasks import Status, TaskEnded
from django_mcp.core.server.tasks import TASKS

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame

UNKNOWN = "Unknown task: it does not exist, or has expired"
LIST = "task"
"""The name of the list of tasks in its cursors."""


async def get(frame: Frame) -> Answer:
    """Return a task, as the revision or the extension has it."""
    _require_extension(frame)
    task = await TASKS.get().get(frame, _task_id(frame))
    if task is None:
        raise InvalidParams(UNKNOWN)
    describe = tasks.in_session if frame.revision.has(Feature.TASKS) else tasks.detailed
    return describe(task), frame


async def result(frame: Frame) -> Answer:
    """Return what the call would have returned, when the task has ended (TASK-42 to -44)."""
    task = await TASKS.get().wait(frame, _task_id(frame))
    if task is None:
        raise InvalidParams(UNKNOWN)
    if task.status is Status.CANCELLED:
        raise InvalidParams(f"The task has no result: {task.message}")
    if task.error is not None:
        return _error(task.error), frame
    return tasks.with_related(task.result or {}, task.id), frame


def _error(error: Json) -> McpError:
    """Return the error as which a call ended, with its own code."""
    message = error.get("message", "")
    data = error.get("data")
    if isinstance(data, dict) and "elicitations" in data:
        return UrlElicitationRequired(message, data=data)
    return McpError(message, data=data, code=error.get("code"))


async def list_(frame: Frame) -> Answer:
    """Return a page of the caller's tasks, in sessions only."""
    _require_method(frame, "list")
    key = pagination.position(frame, LIST)
    limit = pagination.limit_of(frame)
    listed, last = await TASKS.get().page(frame, key, limit)
    page: dict[str, Any] = {"tasks": [tasks.in_session(task) for task in listed]}
    if last is not None:
        page["nextCursor"] = pagination.cursor_after(frame, LIST, last)
    return page, frame


async def update(frame: Frame) -> Answer:
    """Accept responses to input requests; unknown keys are ignored (TASK-10, TASK-11)."""
    _require_extension(frame)
    task_id = _task_id(frame)
    if "inputResponses" not in frame.message.params:
        raise InvalidParams("params.inputResponses is missing")
    responses = object_param(frame.message.params, "inputResponses")
    if not all(type(response) is dict for response in responses.values()):
        raise InvalidParams("params.inputResponses must be an object of result objects")
    if await TASKS.get().update(frame, task_id, responses) is None:
        raise InvalidParams(UNKNOWN)
    return {}, frame


async def cancel(frame: Frame) -> Answer:
    """Cancel a task. A task that has ended is an error in sessions, and ignored otherwise."""
    is_session = frame.revision.has(Feature.TASKS)
    if is_session:
        _require_method(frame, "cancel")
    else:
        _require_extension(frame)
    try:
        task = await TASKS.get().cancel(frame, _task_id(frame))
    except TaskEnded as error:
        if is_session:
            raise InvalidParams(f"The task cannot be cancelled: {error}") from error
        return {}, frame
    if task is None:
        raise InvalidParams(UNKNOWN)
    described = tasks.in_session(task) if is_session else {}
    return described, frame


def _task_id(frame: Frame) -> str:
    return string_param(frame.message.params, "taskId")


def _require_extension(frame: Frame) -> None:
    """Raise MissingClientCapability before the task is looked up (TASK-16)."""
    if frame.revision.has(Feature.TASKS_EXTENSION) and not task_calls.is_declared(frame):
        raise MissingClientCapability.of(task_calls.EXTENSION)


def _require_method(frame: Frame, name: str) -> None:
    """Raise MethodNotFound unless the server declares the method (TASK-03)."""
    declared = frame.server.capabilities.declared_to(frame.revision, frame.principal)
    if name not in declared.get("tasks", {}):
        raise MethodNotFound(f"This server does not declare tasks.{name}")
