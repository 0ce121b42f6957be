"""Tasks: the table of their life cycle, and the JSON objects that clients receive.

The protocol has two forms of tasks: the tasks of 2025-11-25, and the extension
``io.modelcontextprotocol/tasks``. A ``Task`` has the names of the extension, and this module
describes it in both forms. Every change is a function from one task to the next.
Times are strings (RFC 3339) and are made elsewhere: this module reads no clock.

==============  ==============  ================================================================
status          clients read    what moves the task there
==============  ==============  ================================================================
waiting         working         the call: it needs an approval, and does not start without one
working         working         the call; a person who approves it (``approve``); the response
                                to the last input request (``answer``)
input_required  input_required  its handler (``ask``)
completed       completed       its run, with a result (``complete``)
failed          failed          its run, with an error (``fail``); time, when its lease is lost
cancelled       cancelled       its client or the site (``cancel``)
declined        completed       a person who declines it (``decline``); the result says so
expired         completed       time, when nobody has decided (``expire``); the result says so
==============  ==============  ================================================================

The last five are final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.texts import storable

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The key of ``_meta`` with the task of messages of 2025-11-25 (TASK-54)."""
STATUS_NOTIFICATION = "notifications/tasks/status"
"""Of 2025-11-25."""
LISTEN_NOTIFICATION = "notifications/tasks"
"""Of the extension, on listen streams."""

MAX_MESSAGES = 100
"""Messages to the client which a task keeps until one is there to receive them."""
MAX_INPUT_REQUESTS = 1000
"""Input requests of one task, in its whole life."""
RETURNED_ERROR = "The tool returned an error"
"""The status message of a task with ``isError`` in its result. It has nothing of the result, which
is encrypted where tasks are stored."""
WAITS = "waits until a person has approved it"
"""The words that tell the caller that a call waits."""
MAX_STATUS_MESSAGE = 1000
"""Characters of a status message."""


class Status(StrEnum):
    WAITING = "waiting"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DECLINED = "declined"
    EXPIRED = "expired"


ACTIVE = frozenset({Status.WAITING, Status.WORKING, Status.INPUT_REQUIRED})
FINAL = frozenset(Status) - ACTIVE
UNDECIDED = frozenset({Status.WAITING, Status.DECLINED, Status.EXPIRED})
"""The statuses of a task that was not approved."""

LIFE_CYCLE: Mapping[Status, frozenset[Status]] = {
    Status.WAITING: frozenset({*UNDECIDED, Status.WORKING, Status.CANCELLED}),
    Status.WORKING: frozenset(Status) - UNDECIDED,
    Status.INPUT_REQUIRED: frozenset(Status) - UNDECIDED,
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
    Status.DECLINED: frozenset(),
    Status.EXPIRED: frozenset(),
}
"""The statuses that a change may lead to, by the present one (TASK-25, TASK-26 of 2025-11-25)."""


SHOWN: Mapping[Status, Status] = {
    Status.WAITING: Status.WORKING,
    Status.DECLINED: Status.COMPLETED,
    Status.EXPIRED: Status.COMPLETED,
}
"""The statuses for clients, instead of statuses that the protocol does not have."""


class TaskEnded(Exception):
    """The status of the task is final: nothing changes it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task. ``ttl_ms`` counts from its creation."""

    id: str
    tool: str = ""
    """The tool that was called. Who may not use it now does not see the task."""
    status: Status = Status.WORKING
    created_at: str = ""
    updated_at: str = ""
    ttl_ms: int = 0
    poll_interval_ms: int = 1000
    message: str = ""
    progress: float | None = None
    total: float | None = None
    inputs: Mapping[str, Json] = field(default_factory=dict)
    """The input requests by key: every key that was ever issued, with one of these values.

    ==========================  ====================================================
    ``{"method", "params"}``    the request waits for its response
    ``{"response"}``            the client has answered; the handler has not read it
    ``{}``                      the handler has read the response, or given up
    ==========================  ====================================================
    """
    receiver: str = ""
    """The name of the newest ``tasks/result`` request, which sends messages and input requests."""
    messages: tuple[Json, ...] = ()
    """Notifications for the client which have not been sent yet, oldest first."""
    result: Json | None = None
    error: Json | None = None

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def shown_status(self) -> Status:
        """The status that clients read."""
        return SHOWN.get(self.status, self.status)

    @property
    def outstanding(self) -> dict[str, Json]:
        """The input requests without a response, by key."""
        return {
            key: {"method": item["method"], "params": item["params"]}
            for key, item in self.inputs.items()
            if "method" in item
        }


# Changes: each function returns the next value of a task.


def become(task: Task, status: Status, **changed: Any) -> Task:
    """Return the task with this status; raises TaskEnded if its status is final."""
    if status not in LIFE_CYCLE[task.status]:
        raise TaskEnded(f"The task is {task.status}")
    return replace(task, status=status, **changed)


def report(
    task: Task,
    message: str | None = None,
    progress: float | None = None,
    total: float | None = None,
    notifications: Iterable[Json] = (),
) -> Task:
    """Return the task after its handler reported progress, or sent notifications."""
    kept = (*task.messages, *notifications)[-MAX_MESSAGES:]
    if progress is None:
        return become(task, task.status, messages=kept)
    text = task.message if message is None else message[:MAX_STATUS_MESSAGE]
    return become(task, task.status, message=text, progress=progress, total=total, messages=kept)


def take_messages(task: Task) -> Task:
    """Return the task after its messages were sent; its status may be final."""
    return replace(task, messages=())


def ask(task: Task, requests: Mapping[str, Json]) -> tuple[Task, dict[str, str]]:
    """Return the task that requires more input, and the key of each request by its name.

    A key is never issued twice (TASK-12). Raises ValueError for too many requests.
    """
    if len(task.inputs) + len(requests) > MAX_INPUT_REQUESTS:
        raise ValueError(f"A task may request input at most {MAX_INPUT_REQUESTS} times")
    inputs = dict(task.inputs)
    keys = {}
    for name, request in requests.items():
        key = name
        number = 1
        while key in inputs:
            number += 1
            key = f"{name}-{number}"
        keys[name] = key
        inputs[key] = request
    return become(task, Status.INPUT_REQUIRED, inputs=inputs), keys


def answer(task: Task, responses: Mapping[str, Json]) -> Task:
    """Return the task with the responses to its outstanding requests; others are ignored.

    It is working again when nothing is outstanding (TASK-11, TASK-53).
    """
    answered_keys = task.outstanding.keys() & responses.keys()
    if not answered_keys:
        return task
    answered = {key: {"response": responses[key]} for key in answered_keys}
    return _with_inputs(task, {**task.inputs, **answered})


def take_responses(task: Task, keys: Iterable[str]) -> Task:
    """Return the task after its handler read these responses, or gave up waiting for them."""
    taken: dict[str, Json] = {key: {} for key in keys}
    return _with_inputs(task, {**task.inputs, **taken})


def _with_inputs(task: Task, inputs: Mapping[str, Json]) -> Task:
    """Return the task with these inputs, and the status that follows from them."""
    is_waiting = any("method" in item for item in inputs.values())
    status = Status.INPUT_REQUIRED if is_waiting else Status.WORKING
    return become(task, status, inputs=inputs)


def receive(task: Task, by: str) -> Task:
    """Return the task after ``by`` has begun to send its messages and input requests."""
    return replace(task, receiver=by)


def release(task: Task, by: str) -> Task:
    """Return the task after ``by`` has stopped sending; others may send then."""
    return replace(task, receiver="") if task.receiver == by else task


def complete(task: Task, result: Json) -> Task:
    """Return the task with its result, also one that says ``isError`` (TASK-09)."""
    message = RETURNED_ERROR if result.get("isError") else task.message
    return become(task, Status.COMPLETED, result=result, message=message, inputs={})


def fail(task: Task, error: Json) -> Task:
    """Return the task that failed with a JSON-RPC error."""
    message = storable(str(error.get("message", ""))[:MAX_STATUS_MESSAGE])
    return become(task, Status.FAILED, error=error, message=message, inputs={})


def cancel(task: Task, message: str = "The task was cancelled") -> Task:
    return become(task, Status.CANCELLED, message=message, inputs={})


def approve(task: Task) -> Task:
    """Return the task that may start; raises TaskEnded for one that does not wait for it."""
    if task.status is not Status.WAITING:
        raise TaskEnded(f"The task is {task.status}")
    return become(task, Status.WORKING, message="A person has approved the call")


def decline(task: Task, text: str) -> Task:
    """Return the task that a person has declined, with a result that says so."""
    return become(task, Status.DECLINED, message="", result=_refusal(text))


def expire(task: Task, text: str) -> Task:
    """Return a task that nobody has decided, with a result that says so."""
    return become(task, Status.EXPIRED, message="", result=_refusal(text))


def _refusal(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": True}


# Descriptions: each function returns an object of the protocol.


def in_session(task: Task) -> dict[str, Any]:
    """Return the Task of 2025-11-25: ``failed`` includes results with ``isError``."""
    status = task.shown_status
    if status is Status.COMPLETED and (task.result or {}).get("isError"):
        status = Status.FAILED
    return {
        "taskId": task.id,
        "status": str(status),
        **_status_message(session_message(task)),
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
        "ttl": task.ttl_ms,
        "pollInterval": task.poll_interval_ms,
    }


def session_message(task: Task) -> str:
    """Return the status message; an error result's message describes the error (TASK-28)."""
    result = task.result or {}
    if task.shown_status is not Status.COMPLETED or not result.get("isError"):
        return task.message
    content = result.get("content") or ()
    texts = (block.get("text") for block in content if block.get("type") == "text")
    return next((text[:MAX_STATUS_MESSAGE] for text in texts if text), "The tool failed")


def created_in_session(task: Task) -> dict[str, Any]:
    """Return the CreateTaskResult of 2025-11-25."""
    return {"task": in_session(task), "_meta": related(task.id)}


def in_extension(task: Task) -> dict[str, Any]:
    """Return the Task of the extension, without members for its status."""
    return {
        "taskId": task.id,
        "status": str(task.shown_status),
        **_status_message(task.message),
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
        "ttlMs": task.ttl_ms,
        "pollIntervalMs": task.poll_interval_ms,
    }


def _status_message(message: str) -> dict[str, str]:
    """Return the optional member ``statusMessage``: an empty message is left out."""
    return {"statusMessage": message} if message else {}


def created_in_extension(task: Task) -> dict[str, Any]:
    """Return the CreateTaskResult of the extension."""
    return {"resultType": "task", **in_extension(task)}


def detailed(task: Task) -> dict[str, Any]:
    """Return the DetailedTask of the extension (TASK-08)."""
    described = in_extension(task)
    details = DETAILS.get(task.shown_status)
    if details is not None:
        described.update(details(task))
    return described


DETAILS: Mapping[Status, Callable[[Task], Json]] = {
    Status.INPUT_REQUIRED: lambda task: {"inputRequests": task.outstanding},
    Status.COMPLETED: lambda task: {"result": task.result},
    Status.FAILED: lambda task: {"error": task.error},
}
"""The members that a DetailedTask adds to a Task, by its status."""


def related(task_id: str) -> dict[str, Any]:
    """Return the ``_meta`` which relates a message to a task."""
    return {RELATED_TASK: {"taskId": task_id}}


def with_related(params: Json, task_id: str) -> dict[str, Any]:
    """Return parameters or a result with the metadata which names the task."""
    meta = params.get("_meta") or {}
    return {**params, "_meta": {**meta, **related(task_id)}}
