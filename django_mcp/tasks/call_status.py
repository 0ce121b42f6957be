"""``answer_within``: long calls, and questions, for clients without tasks and input requests.

A call of a tool with this option runs as a task that its client does not know of. A client that can
have a task of its own, or that supports the input requests of the tool, needs no such task. The
client is answered after so many seconds at the latest, in every revision:

=====================  ====================================================================
the task               the client's model reads
=====================  ====================================================================
has ended              the result, or the error
is working             that the call is still running, and to call ``call_status`` later
waits for an answer    the question, its page, and to call ``call_status`` later
=====================  ====================================================================

``call_status`` returns the same for a call, by the id in that text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Annotated, Any

from django.core.exceptions import ImproperlyConfigured
from django.urls import NoReverseMatch
from pydantic import Field

from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.responses import ToolResponse
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.dispatch.invocation import Answer
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import Json, ToolError
from django_mcp.core.protocol.revisions import Revision
from django_mcp.core.protocol.tasks import Status, Task, TaskEnded
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.server import Server
from django_mcp.extensions import CallPlan
from django_mcp.runtime.pages import absolute_url, page_url
from django_mcp.tasks import calls, changes, methods, steps, store, submission

ANSWER_WITHIN = "answer_within"
STATUS_TOOL = "call_status"
ON_A_PAGE: Json = {"elicitation": {"form": {}, "url": {}}}
"""The capabilities that a site with a page for answers (``Extension.input_page``) adds to a client.
"""
STATUS_CALL = "django-mcp/status-call"
"""The member of ``_meta`` with the parameters of the call of a status tool."""
OWN = ("content", "structuredContent", "isError")
"""The members of a result that the tool makes."""
FRAMEWORK = "io.modelcontextprotocol/"
"""The prefix of metadata that belongs to one response."""

RUNNING = (
    "This call of {tool} is still running.{message} Do not call {tool} again for this: call "
    '{status_tool} with id="{id}" in a while.'
)
WAITING = (
    "This call of {tool} waits for an answer of the user: {message} Tell the user to answer it at "
    '{url} and nowhere else. Call {status_tool} with id="{id}" when they have answered. Do not '
    "call {tool} again for this."
)
VISIT = "This call of {tool} needs the user to visit a page first: {pages} Then call {tool} again."


@dataclass(frozen=True, slots=True)
class StoredResult(ToolResponse):
    """The result of another call, as it was stored."""

    result: Json = field(default_factory=dict)

    def to_protocol(self) -> dict[str, Any]:
        return dict(self.result)


def text(message: str, *, is_error: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": message}]}
    return {**result, "isError": True} if is_error else result


def unfinished(message: str, status_tool: str, task_id: str) -> dict[str, Any]:
    """Return the result of a call that runs on; its ``_meta`` has the next call, for programs."""
    params = {"name": status_tool, "arguments": {"id": task_id}}
    return {**text(message), "_meta": {STATUS_CALL: params}}


def kept(result: Json) -> dict[str, Any]:
    """Return the members of a stored result that do not belong to one response."""
    own = {name: member for name, member in result.items() if name in OWN}
    meta = result.get("_meta") or {}
    own_meta = {key: value for key, value in meta.items() if not key.startswith(FRAMEWORK)}
    return {**own, "_meta": own_meta} if own_meta else own


# The call.


def read(value: Any, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < inf:
        raise ConfigurationError(
            f"{ANSWER_WITHIN} of {where} is {value!r}: write a number of seconds, or 0"
        )
    return float(value)


def is_answered_soon(component: Component, revision: Revision) -> bool:
    return ANSWER_WITHIN in component.options


async def answer_soon(
    frame: Frame, plan: CallPlan, arguments: dict[str, Any], validated: Any
) -> Answer | None:
    """Run the call as a task, and answer in time; None where it may be a plain call.

    It is a step before the handler, so that it follows the step that may request an approval.
    """
    tool = plan.component
    if not frame.exchange.may_start_tasks or _can_have_all(frame, tool):
        return None
    # Whatever the path of the page is.
    page = INSTALLED.input_page
    is_included = page is not None and page_url(page, task_id="-") is not None
    has_page = is_included and bool(calls.user_key(frame.user))
    new = calls.describe(frame, None, is_task=False)
    facts = {**new.call, "answered_for": ON_A_PAGE if has_page else {}}
    task = await submission.begin(new._replace(call=facts))
    try:
        task = await _wait(task, frame, tool.options[ANSWER_WITHIN])
    except asyncio.CancelledError:
        if frame.cancellation.requested:
            with suppress(TaskEnded):
                await submission.cancel(task.id)
        raise
    return outcome(frame, task), frame


def _can_have_all(frame: Frame, tool: ToolComponent) -> bool:
    """Whether the client can have a task, or answer the declared questions of the handler."""
    if steps.terms_of(frame, tool) is not None:
        return True
    is_asked = "elicitation/create" in frame.revision.server_requests
    elicitation = (frame.get_client_capabilities() or {}).get("elicitation")
    return tool.requests_input and is_asked and isinstance(elicitation, dict)


async def _wait(task: Task, frame: Frame, seconds: float) -> Task:
    """Return the task once it has ended or asks something, or after so many seconds."""
    row = await store.get().row(task.id)
    if row is not None:
        await changes.wait_while({Status.WORKING}, row, seconds)
    return await store.get().load(task.id, calls.owner_of(frame)) or task


# The result.


def outcome(frame: Frame, task: Task) -> dict[str, Any]:
    """Return the result of a call, or a text with its status and the next call."""
    if task.result is not None:
        return kept(task.result)
    words = {"tool": task.tool, "id": task.id, "status_tool": STATUS_TOOL}
    if task.error is not None:
        return text(_failure(task.error, words), is_error=True)
    if task.status is Status.CANCELLED:
        return text(f"This call of {task.tool} was cancelled.", is_error=True)
    questions = [request["params"].get("message", "") for request in task.outstanding.values()]
    url = question_url(frame, task.id) if questions else None
    if url is not None:
        message = " ".join(_as_sentence(question) for question in questions)
        return unfinished(WAITING.format(**words, message=message, url=url), STATUS_TOOL, task.id)
    message = f" {_as_sentence(task.message)}" if task.message else ""
    return unfinished(RUNNING.format(**words, message=message), STATUS_TOOL, task.id)


def _as_sentence(message: str) -> str:
    return message if message.endswith((".", "!", "?")) else f"{message}."


def _failure(error: Json, words: Mapping[str, str]) -> str:
    data = error.get("data")
    elicitations = data.get("elicitations") if isinstance(data, dict) else None
    if elicitations:
        pages = [f"{_as_sentence(each['message'])} {each['url']} ." for each in elicitations]
        return VISIT.format(**words, pages=" ".join(pages))
    return f"This call of {words['tool']} failed: {error.get('message', '')}"


def question_url(frame: Frame, task_id: str) -> str | None:
    """Return the URL of the page with a question; None where its host or the page is unknown."""
    page = INSTALLED.input_page
    if page is None:
        return None
    try:
        return absolute_url(frame.transport, page, task_id=task_id)
    except (NoReverseMatch, ImproperlyConfigured):
        return None


# The tool.


async def call_status(
    id: Annotated[str, Field(description="The id from the result of the call")], frame: Frame
) -> ToolResponse:
    """Look at a call that was still running, or that waited for an answer of the user.

    Returns the result of the call once it has ended, and until then its status.
    """
    task = await methods.find(frame, id)
    if task is None:
        raise ToolError("There is no call of yours with this id, or it is too long ago.")
    tool = frame.server.components.find(ToolComponent.kind, task.tool)
    seconds = tool.options.get(ANSWER_WITHIN, 0.0) if isinstance(tool, ToolComponent) else 0.0
    return StoredResult(result=outcome(frame, await _wait(task, frame, seconds)))


def add(server: Server, component: Component) -> None:
    """Add the tool to a server which was given a tool with ``answer_within``."""
    if not isinstance(component, ToolComponent) or ANSWER_WITHIN not in component.options:
        return
    # Without building components that are deferred: apps may be getting ready.
    present = [item for item in server.components.registered() if item.key == STATUS_TOOL]
    if not any(item.handler is call_status for item in present):
        tool = tool_component(call_status, title="Status of a call", read_only=True)
        # It is in every selection and list: any call may run on.
        server.components.add(replace(tool, is_in_every_selection=True, always_load=True))
