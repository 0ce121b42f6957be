"""Whether what a server itself says fits its revision: a table of what has which shape.

It is looked at in strict mode alone, for the author of a server: what clients send is checked
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django_mcp.protocol.errors import Json
from django_mcp.protocol.revisions import Feature, Revision
from django_mcp.protocol.strict.types import (
    Problems,
    Record,
    Shape,
    anything,
    boolean,
    listed,
    mapping,
    number,
    one_of,
    output_schema,
    schema,
    structured,
    text,
    token,
    whole,
)


def result(revision: Revision, method: str, value: Any) -> list[str]:
    """What does not fit in the result of ``method``; nothing of a method that is not known."""
    if isinstance(value, dict) and value.get("resultType") == "input_required":
        return _told(INPUT_REQUIRED, value, revision)
    shape = RESULTS.get(method)
    return [] if shape is None else _told(_result_shape(shape, revision, method), value, revision)


def notification(revision: Revision, method: str, params: Json | None) -> list[str]:
    """What does not fit in a notification; nothing of one that is not the protocol's."""
    shape = NOTIFICATIONS.get(method)
    return [] if shape is None else _told(shape, dict(params or {}), revision)


def question(revision: Revision, method: str, params: Json) -> list[str]:
    """What does not fit in a request to the client."""
    shape = QUESTIONS.get(method)
    return [] if shape is None else _told(shape, dict(params), revision)


def _told(shape: Shape, value: Any, revision: Revision) -> list[str]:
    return [f"{path.lstrip('.') or 'it'} {wrong}" for path, wrong in shape(value, revision)]


def block(value: Any, revision: Revision) -> Problems:
    """A content block of a type which the revision has."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind not in revision.blocks:
        yield "", f"is of the type {kind!r}, which this revision does not have"
        return
    yield from BLOCKS[kind](value, revision)


@dataclass(frozen=True, slots=True)
class Result:
    """A result: its own members, and those which every result of the revision has."""

    members: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()


def _result_shape(shape: Result, revision: Revision, method: str) -> Record:
    members = {"_meta": mapping, **shape.members}
    required = shape.required
    if revision.has(Feature.RESULT_TYPES):
        members["resultType"] = one_of("complete")
        required = (*required, "resultType")
    if method in revision.cacheable:
        members |= {"ttlMs": whole, "cacheScope": one_of("private", "public")}
        required = (*required, "ttlMs", "cacheScope")
    return Record(members=members, required=required)


# What has which shape.

ROLE = one_of("user", "assistant")

ANNOTATIONS = Record(
    kind="annotations",
    members={"audience": listed(ROLE), "priority": number, "lastModified": text},
)

HINTS = Record(
    is_open=True,
    members={
        "title": text,
        "readOnlyHint": boolean,
        "destructiveHint": boolean,
        "idempotentHint": boolean,
        "openWorldHint": boolean,
    },
)

ICON = Record(
    members={
        "src": text,
        "mimeType": text,
        "sizes": listed(text),
        "theme": one_of("light", "dark"),
    },
    required=("src",),
)

NAMED: Mapping[str, Shape] = {
    "name": text,
    "title": text,
    "description": text,
    "icons": listed(ICON),
    "_meta": mapping,
}
"""What every kind of component is described by."""

IMPLEMENTATION = Record(
    kind="implementation",
    members={**NAMED, "version": text, "websiteUrl": text},
    required=("name", "version"),
)

TOOL = Record(
    kind="tool",
    members={
        **NAMED,
        "inputSchema": schema,
        "outputSchema": output_schema,
        "annotations": HINTS,
        "execution": Record(members={"taskSupport": one_of("forbidden", "optional", "required")}),
    },
    required=("name", "inputSchema"),
)

RESOURCE = Record(
    kind="resource",
    members={
        **NAMED,
        "uri": text,
        "mimeType": text,
        "size": whole,
        "annotations": ANNOTATIONS,
    },
    required=("uri", "name"),
)

TEMPLATE = Record(
    kind="resource_template",
    members={**NAMED, "uriTemplate": text, "mimeType": text, "annotations": ANNOTATIONS},
    required=("uriTemplate", "name"),
)

PROMPT = Record(
    kind="prompt",
    members={
        **NAMED,
        "arguments": listed(
            Record(
                kind="argument",
                members={"name": text, "title": text, "description": text, "required": boolean},
                required=("name",),
            )
        ),
    },
    required=("name",),
)

CONTENTS = Record(
    kind="contents",
    members={"uri": text, "mimeType": text, "text": text, "blob": text, "_meta": mapping},
    required=("uri",),
    one_of=("text", "blob"),
)

EXTRAS: Mapping[str, Shape] = {"type": text, "annotations": ANNOTATIONS, "_meta": mapping}
"""What every block of content may have."""

BLOCKS: Mapping[str, Shape] = {
    "text": Record(kind="text_content", members={**EXTRAS, "text": text}, required=("text",)),
    "image": Record(
        kind="image_content",
        members={**EXTRAS, "data": text, "mimeType": text},
        required=("data", "mimeType"),
    ),
    "audio": Record(
        kind="audio_content",
        members={**EXTRAS, "data": text, "mimeType": text},
        required=("data", "mimeType"),
    ),
    "resource": Record(
        kind="resource_content",
        members={**EXTRAS, "resource": CONTENTS},
        required=("resource",),
    ),
    "resource_link": Record(
        kind="resource_link_content",
        members={**EXTRAS, **NAMED, "uri": text, "mimeType": text, "size": whole},
        required=("uri", "name"),
    ),
}

MESSAGE = Record(members={"role": ROLE, "content": block}, required=("role", "content"))

COMPLETION = Record(
    members={"values": listed(text, most=100), "total": whole, "hasMore": boolean},
    required=("values",),
)


def _page(member: str, item: Shape) -> Result:
    return Result({member: listed(item), "nextCursor": text}, (member,))


RESULTS: Mapping[str, Result] = {
    "initialize": Result(
        {
            "protocolVersion": text,
            "capabilities": mapping,
            "serverInfo": IMPLEMENTATION,
            "instructions": text,
        },
        ("protocolVersion", "capabilities", "serverInfo"),
    ),
    "ping": Result(),
    "server/discover": Result(
        {"supportedVersions": listed(text), "capabilities": mapping, "instructions": text},
        ("supportedVersions", "capabilities"),
    ),
    "tools/list": _page("tools", TOOL),
    "tools/call": Result(
        {"content": listed(block), "structuredContent": structured, "isError": boolean},
        ("content",),
    ),
    "resources/list": _page("resources", RESOURCE),
    "resources/templates/list": _page("resourceTemplates", TEMPLATE),
    "resources/read": Result({"contents": listed(CONTENTS)}, ("contents",)),
    "resources/subscribe": Result(),
    "resources/unsubscribe": Result(),
    "prompts/list": _page("prompts", PROMPT),
    "prompts/get": Result({"description": text, "messages": listed(MESSAGE)}, ("messages",)),
    "completion/complete": Result({"completion": COMPLETION}, ("completion",)),
    "logging/setLevel": Result(),
}
"""The results of the methods, each without what all results have."""

INPUT_REQUIRED = Record(
    members={
        "_meta": mapping,
        "resultType": one_of("input_required"),
        "inputRequests": mapping,
        "requestState": text,
    },
    required=("resultType",),
)

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

CHANGED = Record(members={"_meta": mapping})

NOTIFICATIONS: Mapping[str, Shape] = {
    "notifications/message": Record(
        members={"level": one_of(*LEVELS), "logger": text, "data": anything, "_meta": mapping},
        required=("level", "data"),
    ),
    "notifications/progress": Record(
        members={
            "progressToken": token,
            "progress": number,
            "total": number,
            "message": text,
            "_meta": mapping,
        },
        required=("progressToken", "progress"),
    ),
    "notifications/cancelled": Record(
        members={"requestId": token, "reason": text, "_meta": mapping}, required=("requestId",)
    ),
    "notifications/tools/list_changed": CHANGED,
    "notifications/prompts/list_changed": CHANGED,
    "notifications/resources/list_changed": CHANGED,
    "notifications/resources/updated": Record(
        members={"uri": text, "_meta": mapping}, required=("uri",)
    ),
    "notifications/elicitation/complete": Record(
        members={"elicitationId": text, "_meta": mapping}, required=("elicitationId",)
    ),
}

SAMPLING_MESSAGE = Record(
    members={"role": ROLE, "content": anything, "_meta": mapping}, required=("role", "content")
)

QUESTIONS: Mapping[str, Shape] = {
    "elicitation/create": Record(
        kind="elicitation/create",
        members={
            "message": text,
            "mode": one_of("form", "url"),
            "requestedSchema": schema,
            "url": text,
            "elicitationId": text,
        },
        required=("message",),
        one_of=("requestedSchema", "url"),
    ),
    "sampling/createMessage": Record(
        kind="sampling/createMessage",
        members={
            "messages": listed(SAMPLING_MESSAGE),
            "modelPreferences": mapping,
            "systemPrompt": text,
            "includeContext": one_of("none", "thisServer", "allServers"),
            "temperature": number,
            "maxTokens": whole,
            "stopSequences": listed(text),
            "metadata": mapping,
            "tools": listed(mapping),
            "toolChoice": mapping,
        },
        required=("messages", "maxTokens"),
    ),
    "roots/list": Record(members={"_meta": mapping}),
}
