"""tasks/get, tasks/result, tasks/list, tasks/update and tasks/cancel, in both forms.

A task belongs to the caller who created it: for all others it does not exist. It does not exist
for its caller either, while they may not use its tool: another token may have fewer scopes.
"""

from __future__ import annotations

from typing import Any

from django_mcp.core.dispatch import pagination, visibility
from django_mcp.core.dispatch.invocation import object_param, string_param
from django_mcp.core.frame.frame import Frame
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
from django_mcp.core.protocol.tasks import Status, Task, TaskEnded
from django_mcp.tasks import changes, result_streams, steps, store
from django_mcp.tasks.calls import owner_of

UNKNOWN = "Unknown task: it does not exist, or has expired"
LIST = "task"
"""The name of the list of tasks in its cursors."""


async def find(frame: Frame, task_id: str) -> Task | None:
    """Return the task with this id, if it is one of the caller's."""
    if not store.ID.fullmatch(task_id):
        return None
    task = await store.get().load(task_id, owner_of(frame))
    is_visible = task is not None and await visibility.may_see_call(frame, task.tool)
    return task if is_visible else None


async def get(frame: Frame) -> dict[str, Any]:
    """Return a task, as the revision or the extension has it."""
    _require_extension(frame)
    task = await _named(frame)
    describe = tasks.in_session if frame.revision.has(Feature.TASKS) else tasks.detailed
    return describe(task)


async def result(frame: Frame) -> dict[str, Any] | McpError:
    """Return the result of the call when the task has ended (TASK-42 to -44).

    Its messages and input requests are sent meanwhile.
    """
    task_id = (await _named(frame)).id
    task = await result_streams.Delivery(frame.exchange, task_id, owner_of(frame)).wait()
    if task is None:
        raise InvalidParams(UNKNOWN)
    if task.status is Status.CANCELLED:
        raise InvalidParams(f"The task has no result: {task.message}")
    if task.error is not None:
        return _error(task.error)
    return tasks.with_related(task.result or {}, task.id)


def _error(error: Json) -> McpError:
    """Return the stored error of a call, with its code."""
    message = error.get("message", "")
    data = error.get("data")
    if isinstance(data, dict) and "elicitations" in data:
        return UrlElicitationRequired(message, data=data)
    return McpError(message, data=data, code=error.get("code"))


async def list_(frame: Frame) -> dict[str, Any]:
    """Return a page of the caller's tasks, in sessions only; the oldest are first."""
    _require_method(frame, "list")
    key = pagination.position(frame, LIST)
    rows = store.get()
    owner = owner_of(frame)
    called = await rows.tools(owner)
    tools = [tool for tool in called if await visibility.may_see_call(frame, tool)]
    listed, last = await rows.page(owner, tools, key, pagination.limit_of(frame))
    page: dict[str, Any] = {"tasks": [tasks.in_session(task) for task in listed]}
    if last is not None:
        page["nextCursor"] = pagination.cursor_after(frame, LIST, last)
    return page


async def update(frame: Frame) -> dict[str, Any]:
    """Accept responses to input requests; unknown keys are ignored (TASK-10, TASK-11)."""
    _require_extension(frame)
    string_param(frame.message.params, "taskId")
    if "inputResponses" not in frame.message.params:
        raise InvalidParams("params.inputResponses is missing")
    responses = object_param(frame.message.params, "inputResponses")
    if not all(type(response) is dict for response in responses.values()):
        raise InvalidParams("params.inputResponses must be an object of result objects")
    task = await _named(frame)
    stored = {key: {"result": response} for key, response in responses.items()}
    if await result_streams.answer(task.id, owner_of(frame), stored) is None:
        raise InvalidParams(UNKNOWN)
    return {}


async def cancel(frame: Frame) -> dict[str, Any]:
    """Cancel a task. A task that has ended is an error in sessions, and ignored otherwise."""
    is_session = frame.revision.has(Feature.TASKS)
    if is_session:
        _require_method(frame, "cancel")
    else:
        _require_extension(frame)
    task = await _named(frame)
    try:
        changed = await store.get().change(task.id, tasks.cancel, owner=owner_of(frame))
    except TaskEnded as error:
        if is_session:
            raise InvalidParams(f"The task cannot be cancelled: {error}") from error
        return {}
    if changed is None:
        raise InvalidParams(UNKNOWN)
    task = await changes.publish(changed)
    return tasks.in_session(task) if is_session else {}


async def _named(frame: Frame) -> Task:
    """Return the task that the request names; raises InvalidParams."""
    task = await find(frame, string_param(frame.message.params, "taskId"))
    if task is None:
        raise InvalidParams(UNKNOWN)
    return task


def _require_extension(frame: Frame) -> None:
    """Raise MissingClientCapability before the task is looked up (TASK-16)."""
    if frame.revision.has(Feature.TASKS_EXTENSION) and not steps.is_declared(frame):
        raise MissingClientCapability.of(steps.EXTENSION)


def _require_method(frame: Frame, name: str) -> None:
    """Raise MethodNotFound unless the server declares the method (TASK-03)."""
    declared = frame.server.capabilities.declared_to(frame.revision, frame.principal)
    if name not in declared.get("tasks", {}):
        raise MethodNotFound(f"This server does not declare tasks.{name}")
