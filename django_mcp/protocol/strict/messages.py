"""Check that what a server sends is valid in its revision: a table of the types of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django_mcp.protocol.errors import Json
from django_mcp.protocol.revisions import Feature, Revision
from django_mcp.protocol.strict.types import (
    ObjectType,
    Problems,
    Type,
    any_object,
    any_value,
    list_of,
    one_of,
    string,
    unsigned,
)
from django_mcp.protocol.tasks import Status


def result(revision: Revision, method: str, value: Any) -> list[str]:
    """Return the problems of the result of ``method``; none if the method is not known."""
    if isinstance(value, dict) and value.get("resultType") == "input_required":
        return _sentences(INPUT_REQUIRED, value, revision)
    of_tasks = SESSION_TASK_RESULTS if revision.has(Feature.TASKS) else TASK_RESULTS
    own = _created_task(method, value) or RESULTS.get(method) or of_tasks.get(method)
    if own is None:
        return []
    required = own.required
    if revision.has(Feature.RESULT_TYPES):
        required += " resultType"
    if method in revision.cacheable:
        required += " ttlMs cacheScope"
    expected = replace(own, required=required, optional=f"{own.optional} _meta")
    return _sentences(expected, value, revision)


def _created_task(method: str, value: Any) -> ObjectType | None:
    """Return the type of a result that describes a new task, if ``value`` is one."""
    if method != "tools/call" or not isinstance(value, dict):
        return None
    if value.get("resultType") == "task":
        return CREATED_TASK
    return SESSION_CREATED_TASK if "task" in value else None


def notification(revision: Revision, method: str, params: Json | None) -> list[str]:
    """Return the problems of a notification; none if the protocol does not define it."""
    expected = NOTIFICATIONS.get(method)
    return [] if expected is None else _sentences(expected, dict(params or {}), revision)


def server_request(revision: Revision, method: str, params: Json) -> list[str]:
    expected = SERVER_REQUESTS.get(method)
    return [] if expected is None else _sentences(expected, dict(params), revision)


def _sentences(expected: Type, value: Any, revision: Revision) -> list[str]:
    return [f"{path.lstrip('.') or 'it'} {problem}" for path, problem in expected(value, revision)]


def content_block(value: Any, revision: Revision) -> Problems:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind in revision.blocks:
        yield from BLOCKS[kind](value, revision)
    else:
        yield "", f"is of the type {kind!r}, which this revision does not have"


TOOL_ANNOTATIONS = ObjectType(
    optional="title readOnlyHint destructiveHint idempotentHint openWorldHint", is_open=True
)
CONTENTS = ObjectType("uri", kind="contents", exactly_one="text blob")
TOOL = ObjectType(
    "name inputSchema",
    kind="tool",
    types={"annotations": TOOL_ANNOTATIONS, "execution": ObjectType(optional="taskSupport")},
)
RESOURCE = ObjectType("uri name", kind="resource")
TEMPLATE = ObjectType("uriTemplate name", kind="resource_template")
ARGUMENTS = list_of(ObjectType("name", kind="argument"))
PROMPT = ObjectType("name", kind="prompt", types={"arguments": ARGUMENTS})
COMPLETION = ObjectType(
    "values", "total hasMore", types={"values": list_of(string, maximum=100), "total": unsigned}
)

BLOCKS: Mapping[str, Type] = {
    "text": ObjectType("text", kind="text_content"),
    "image": ObjectType("data mimeType", kind="image_content"),
    "audio": ObjectType("data mimeType", kind="audio_content"),
    "resource": ObjectType("resource", kind="resource_content", types={"resource": CONTENTS}),
    "resource_link": ObjectType("uri name", kind="resource_link_content"),
}
MESSAGE = ObjectType("role content", types={"content": content_block})
SAMPLING_MESSAGE = ObjectType("role content", "_meta", types={"content": any_value})


def _page(member: str, item: Type) -> ObjectType:
    return ObjectType(member, "nextCursor", types={member: list_of(item)})


STATUS = one_of(*map(str, Status))
# Of 2025-11-25.
SESSION_TASK_MEMBERS = "taskId status createdAt lastUpdatedAt ttl"
SESSION_TASK = ObjectType(
    SESSION_TASK_MEMBERS, "statusMessage pollInterval _meta", types={"status": STATUS}
)
SESSION_CREATED_TASK = ObjectType("task", "_meta", types={"task": SESSION_TASK})
# Of the extension.
TASK = ObjectType(
    "taskId status createdAt lastUpdatedAt ttlMs",
    "statusMessage pollIntervalMs inputRequests result error subscriptionId _meta",
    types={"status": STATUS, "ttlMs": unsigned, "result": any_object, "error": any_object},
)
CREATED_TASK = ObjectType(
    TASK.required, "statusMessage pollIntervalMs _meta", types={**TASK.types, "resultType": string}
)


RESULTS: Mapping[str, ObjectType] = {
    "initialize": ObjectType(
        "protocolVersion capabilities serverInfo",
        "instructions",
        types={"serverInfo": ObjectType("name version", kind="implementation")},
    ),
    "ping": ObjectType(),
    "server/discover": ObjectType("supportedVersions capabilities", "instructions"),
    "tools/list": _page("tools", TOOL),
    "tools/call": ObjectType(
        "content", "structuredContent isError", types={"content": list_of(content_block)}
    ),
    "resources/list": _page("resources", RESOURCE),
    "resources/templates/list": _page("resourceTemplates", TEMPLATE),
    "resources/read": ObjectType("contents", types={"contents": list_of(CONTENTS)}),
    "resources/subscribe": ObjectType(),
    "resources/unsubscribe": ObjectType(),
    "prompts/list": _page("prompts", PROMPT),
    "prompts/get": ObjectType("messages", "description", types={"messages": list_of(MESSAGE)}),
    "completion/complete": ObjectType("completion", types={"completion": COMPLETION}),
    "logging/setLevel": ObjectType(),
}
"""The results of the methods, each without the members that all results have."""

SESSION_TASK_RESULTS: Mapping[str, ObjectType] = {
    "tasks/get": SESSION_TASK,
    "tasks/cancel": SESSION_TASK,
    "tasks/list": _page("tasks", SESSION_TASK),
}
TASK_RESULTS: Mapping[str, ObjectType] = {
    "tasks/get": TASK,
    "tasks/update": ObjectType(),
    "tasks/cancel": ObjectType(),
}
"""The results of the extension. That of tasks/result is the result of the call."""

INPUT_REQUIRED = ObjectType(
    "resultType", "inputRequests requestState _meta", types={"resultType": any_value}
)

NOTIFICATIONS: Mapping[str, Type] = {
    "notifications/message": ObjectType("level data", "logger _meta", types={"data": any_value}),
    "notifications/progress": ObjectType("progressToken progress", "total message _meta"),
    "notifications/cancelled": ObjectType("requestId", "reason _meta"),
    "notifications/tools/list_changed": ObjectType(optional="_meta"),
    "notifications/prompts/list_changed": ObjectType(optional="_meta"),
    "notifications/resources/list_changed": ObjectType(optional="_meta"),
    "notifications/resources/updated": ObjectType("uri", "_meta"),
    "notifications/elicitation/complete": ObjectType("elicitationId", "_meta"),
    "notifications/tasks/status": SESSION_TASK,
    "notifications/tasks": TASK,
}

SERVER_REQUESTS: Mapping[str, Type] = {
    "elicitation/create": ObjectType(
        "message", kind="elicitation/create", exactly_one="requestedSchema url"
    ),
    "sampling/createMessage": ObjectType(
        "messages maxTokens",
        kind="sampling/createMessage",
        types={"messages": list_of(SAMPLING_MESSAGE), "tools": list_of(any_object)},
    ),
    "roots/list": ObjectType(optional="_meta"),
}
