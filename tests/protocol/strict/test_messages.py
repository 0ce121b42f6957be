"""Output validation: violations of a revision are found, valid messages pass.

Where the official schemas are available, they agree.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from django_mcp.protocol import jsonrpc
from django_mcp.protocol.revisions import BY_VERSION, REVISIONS
from django_mcp.protocol.strict import messages as strict
from django_mcp.testing import spec_schemas

FIRST, STRUCTURED, LAST, NEW = "2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"

TEXT = {"type": "text", "text": "a"}
TOOL: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}


def complete_result(version: str, method: str, result: dict[str, Any]) -> dict[str, Any]:
    """The result with the members that every result of the revision has."""
    if version != NEW:
        return result
    cached = {"ttlMs": 0, "cacheScope": "private"}
    cacheable = method in BY_VERSION[version].cacheable
    return {"resultType": "complete", **(cached if cacheable else {}), **result}


def official_verdict(
    version: str, message: dict[str, Any], method: str | None = None
) -> bool | None:
    """The verdict of the official schema, or None where it is not available."""
    if spec_schemas.FOLDER not in os.environ:
        return None
    try:
        spec_schemas.check(BY_VERSION[version], message, method)
    except spec_schemas.SchemaMismatch:
        return False
    return True


VALID_RESULTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {"tools": []}),
    ("tools/list", {"tools": [TOOL], "nextCursor": "c"}),
    ("tools/call", {"content": [TEXT]}),
    ("tools/call", {"content": [], "isError": True, "_meta": {"a": 1}}),
    ("tools/call", {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
    ("resources/list", {"resources": [{"uri": "a://b", "name": "b", "size": 3}]}),
    ("resources/templates/list", {"resourceTemplates": [{"uriTemplate": "a://{b}", "name": "b"}]}),
    ("resources/read", {"contents": [{"uri": "a://b", "text": ""}]}),
    ("prompts/list", {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]}),
    ("prompts/get", {"messages": [{"role": "user", "content": TEXT}]}),
    ("completion/complete", {"completion": {"values": ["a"], "total": 1, "hasMore": False}}),
]


@pytest.mark.parametrize("version", [revision.version for revision in REVISIONS])
@pytest.mark.parametrize(("method", "result"), VALID_RESULTS)
def test_valid_result_is_accepted(version: str, method: str, result: dict[str, Any]) -> None:
    sent = complete_result(version, method, result)

    assert strict.result(BY_VERSION[version], method, sent) == []
    assert official_verdict(version, jsonrpc.result(1, sent), method) in (True, None)


def call(**members: Any) -> dict[str, Any]:
    return {"content": [TEXT], **members}


INVALID_RESULTS: list[tuple[str, str, Any, str]] = [
    (LAST, "tools/list", {}, "tools is missing"),
    (LAST, "tools/list", {"tools": {}}, "tools is not a list"),
    (LAST, "tools/list", {"tools": [{"name": "t"}]}, "tools[0].inputSchema is missing"),
    (LAST, "tools/list", {"tools": [{**TOOL, "name": 5}]}, "tools[0].name is not a string"),
    (
        LAST,
        "tools/list",
        {"tools": [{**TOOL, "inputSchema": {"type": "string"}}]},
        'tools[0].inputSchema is not a JSON Schema of "type": "object"',
    ),
    (
        LAST,
        "tools/list",
        {"tools": [{**TOOL, "annotations": {"readOnlyHint": "yes"}}]},
        "tools[0].annotations.readOnlyHint is neither true nor false",
    ),
    (
        LAST,
        "tools/list",
        {"tools": [{**TOOL, "icons": [{"mimeType": "image/png"}]}]},
        "tools[0].icons[0].src is missing",
    ),
    (
        LAST,
        "tools/list",
        {"tools": [{**TOOL, "execution": {"taskSupport": "maybe"}}]},
        "tools[0].execution.taskSupport is none of 'forbidden', 'optional', 'required'",
    ),
    (LAST, "tools/list", {"tools": [], "nextCursor": 3}, "nextCursor is not a string"),
    (LAST, "tools/call", {"isError": False}, "content is missing"),
    (LAST, "tools/call", call(isError="no"), "isError is neither true nor false"),
    (LAST, "tools/call", call(structuredContent=[1]), "structuredContent is not an object"),
    (LAST, "tools/call", {"content": [{"type": "text"}]}, "content[0].text is missing"),
    (LAST, "tools/call", {"content": [{"type": "image", "data": "A"}]}, "mimeType is missing"),
    (LAST, "tools/call", {"content": ["a"]}, "is of the type None"),
    (
        LAST,
        "tools/call",
        {"content": [{**TEXT, "annotations": {"audience": ["everybody"]}}]},
        "content[0].annotations.audience[0] is none of 'user', 'assistant'",
    ),
    (LAST, "resources/list", {"resources": [{"uri": "a://b"}]}, "resources[0].name is missing"),
    (LAST, "resources/read", {"contents": [{"text": "a"}]}, "contents[0].uri is missing"),
    (LAST, "resources/read", {"contents": [{"uri": "a:b"}]}, "has not exactly one of text, blob"),
    (LAST, "prompts/get", {"messages": [{"role": "system", "content": TEXT}]}, "role is none of"),
    (LAST, "prompts/get", {"messages": [{"role": "user"}]}, "messages[0].content is missing"),
    (LAST, "completion/complete", {"completion": {"values": [{"value": "a"}]}}, "values[0] is not"),
    (LAST, "initialize", {"protocolVersion": LAST, "capabilities": {}}, "serverInfo is missing"),
    (LAST, "ping", [], "it is not an object"),
    (NEW, "tools/call", {"content": []}, "resultType is missing"),
    (
        NEW,
        "tools/list",
        {"tools": [], "resultType": "complete", "cacheScope": "private"},
        "ttlMs is missing",
    ),
    (
        NEW,
        "tools/list",
        {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "shared"},
        "cacheScope is none of 'private', 'public'",
    ),
]


@pytest.mark.parametrize(("version", "method", "result", "problem"), INVALID_RESULTS)
def test_invalid_result_is_reported(version: str, method: str, result: Any, problem: str) -> None:
    (found,) = strict.result(BY_VERSION[version], method, result)

    assert problem in found
    assert official_verdict(version, jsonrpc.result(1, result), method) in (False, None)


FIELDS_OF_OTHER_REVISIONS = [
    (FIRST, "tools/list", {"tools": [{**TOOL, "title": "T"}]}, "tools[0].title is not known"),
    (FIRST, "tools/call", call(structuredContent={}), "structuredContent is not known"),
    (FIRST, "tools/call", {"content": [{"type": "audio", "data": "", "mimeType": ""}]}, "'audio'"),
    (FIRST, "prompts/list", {"prompts": [{"name": "p", "icons": []}]}, "icons is not known"),
    (STRUCTURED, "tools/list", {"tools": [{**TOOL, "execution": {}}]}, "execution is not known"),
    (LAST, "tools/list", {"tools": [], "ttlMs": 5}, "ttlMs is not known"),
    (LAST, "tools/call", call(resultType="complete"), "resultType is not known"),
    (LAST, "completion/complete", {"completion": {"values": ["a"] * 101}}, "more than 100 items"),
]
"""Violations that the official schemas accept, because they allow additional members."""


@pytest.mark.parametrize(("version", "method", "result", "problem"), FIELDS_OF_OTHER_REVISIONS)
def test_field_of_another_revision_is_reported(
    version: str, method: str, result: Any, problem: str
) -> None:
    (found,) = strict.result(BY_VERSION[version], method, result)

    assert problem in found


def test_every_problem_of_a_result_is_reported() -> None:
    result = {"tools": [{"name": 1}, {**TOOL, "title": 2}]}

    assert strict.result(BY_VERSION[LAST], "tools/list", result) == [
        "tools[0].inputSchema is missing",
        "tools[0].name is not a string",
        "tools[1].title is not a string",
    ]


def test_message_with_a_custom_method_is_not_validated() -> None:
    assert strict.result(BY_VERSION[LAST], "example.com/method", {"any": 1}) == []
    assert strict.notification(BY_VERSION[LAST], "example.com/notified", {"any": 1}) == []
    assert strict.server_request(BY_VERSION[LAST], "example.com/request", {"any": 1}) == []


def test_input_required_result_is_validated_with_its_own_type() -> None:
    result = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}

    assert strict.result(BY_VERSION[NEW], "tools/call", result) == []
    assert strict.result(BY_VERSION[NEW], "tools/call", {**result, "requestState": 1}) == [
        "requestState is not a string"
    ]


NOTIFICATIONS: list[tuple[str, dict[str, Any], str | None]] = [
    ("notifications/message", {"level": "info", "data": None, "logger": "a"}, None),
    ("notifications/message", {"level": "WARN", "data": 1}, "level is none of"),
    ("notifications/message", {"level": "info"}, "data is missing"),
    ("notifications/progress", {"progressToken": 1, "progress": 0.5, "total": 1}, None),
    ("notifications/progress", {"progressToken": 1, "progress": "half"}, "progress is not a num"),
    ("notifications/progress", {"progress": 1}, "progressToken is missing"),
    ("notifications/cancelled", {"requestId": "a", "reason": "b"}, None),
    ("notifications/resources/updated", {"uri": "a://b"}, None),
    ("notifications/resources/updated", {}, "uri is missing"),
    ("notifications/tools/list_changed", {}, None),
]


@pytest.mark.parametrize("version", [FIRST, LAST])
@pytest.mark.parametrize(("method", "params", "problem"), NOTIFICATIONS)
def test_notification_params_are_validated(
    version: str, method: str, params: dict[str, Any], problem: str | None
) -> None:
    found = strict.notification(BY_VERSION[version], method, params)

    assert [each for each in found if (problem or "") in each] == found
    assert len(found) == (problem is not None)
    verdict = official_verdict(version, jsonrpc.notification(method, params))
    assert verdict in (problem is None, None)


SERVER_REQUESTS: list[tuple[str, dict[str, Any], str | None]] = [
    (
        "elicitation/create",
        {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        None,
    ),
    ("elicitation/create", {"message": "?", "requestedSchema": {}}, "requestedSchema is not"),
    ("elicitation/create", {"requestedSchema": {"type": "object"}}, "message is missing"),
    (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 5},
        None,
    ),
    ("sampling/createMessage", {"messages": []}, "maxTokens is missing"),
    ("sampling/createMessage", {"messages": [{"role": "user"}], "maxTokens": 5}, "content is miss"),
    ("roots/list", {}, None),
]


@pytest.mark.parametrize(("method", "params", "problem"), SERVER_REQUESTS)
def test_server_request_params_are_validated(
    method: str, params: dict[str, Any], problem: str | None
) -> None:
    found = strict.server_request(BY_VERSION[LAST], method, params)

    assert [each for each in found if (problem or "") in each] == found
    assert len(found) == (problem is not None)
    verdict = official_verdict(LAST, jsonrpc.request(1, method, params))
    assert verdict in (problem is None, None)
