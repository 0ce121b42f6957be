"""Inputs for the targets: the recorded messages of all revisions, mutated; and generated ones."""

# The tables are easier to read with long lines.
# ruff: noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from tests.conversations.transcripts import CLIENT, TRANSCRIPTS, read
from tests.fuzz.targets import Input, Parts
from tests.wire.messages import ACCEPT, NAMED, STATELESS

CONVERSATIONS = [
    (path.parent.name, messages)
    for path in TRANSCRIPTS
    if (messages := [line.message for line in read(path) if line.side == CLIENT])
]
RECORDED = [(version, message) for version, messages in CONVERSATIONS for message in messages]
VERSIONS = sorted({version for version, _ in CONVERSATIONS})

LARGE = re.compile(r'"@(\w+) (\d+)@"')
"""A placeholder in JSON for something large."""
LARGE_VALUES: Mapping[str, Any] = {
    "digits": lambda count: [["9", count]],
    "fraction": lambda count: ["0.", ["1", count], "e-5"],
    "text": lambda count: ['"', ["x", count], '"'],
    "escapes": lambda count: ['"', ["\\u0000", count], '"'],
    "astral": lambda count: ['"', ["\\ud83d\\ude00", count], '"'],
    "integers": lambda count: ["[", ["1,", count], "1]"],
    "objects": lambda count: ["[", ["{},", count], "null]"],
    "texts": lambda count: ["[", ['"a",', count], '""]'],
    "nested_lists": lambda count: [["[", count], ["]", count]],
    "nested_objects": lambda count: [['{"a":', count], "1", ["}", count]],
    "same_member": lambda count: ["{", ['"a":1,', count], '"b":2}'],
}
COUNTS = (5, 60, 500, 2_100, 30_000, 400_000)
MOST = 3_000_000
"""Bytes of the largest input, which is below MAX_BODY_SIZE."""

TEXTS = (
    "", " ", "\0", "\n", "\r\n", "\x7f", "\u2028", "\ud800", "é", "\U0001f600", "a" * 257, "../..",
    "%2e%2e%2f", "%2F", "%00", "%", "//", "\\", "{a}", "{+a}", "*", "null", "true", "0", "-1", "1e999",
    "9" * 400, "2026-07-28", "2025-11-25", "2025-03-26", "1999-01-01", "<state>", "<cursor>", "<session>",
    "desk://hours", "desk://tickets/7", "desk://tickets/%37", "files:///etc/passwd", "files://a/../b",
    "query://a/x?page=2", "greet", "take", "check", "add", "count", "tools/call", "tools/list",
    "resources/read", "prompts/get", "completion/complete", "initialize", "subscriptions/listen",
    "resources/subscribe", "logging/setLevel", "notifications/cancelled", "notifications/initialized",
    "io.modelcontextprotocol/protocolVersion", "progressToken", "P1D", "0001-01-01", "1e-400",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**53, 2**63 - 1, 2**63, -(2**63), 10**400, float("nan"), float("inf"),
    [], {}, [[]], {"": ""}, [None], {"_meta": {}}, {"a": {"a": {"a": {}}}},
)  # fmt: skip

texts = st.one_of(st.sampled_from(TEXTS), st.text(max_size=20))
larges = st.builds("@{} {}@".format, st.sampled_from([*LARGE_VALUES]), st.sampled_from(COUNTS))
scalars = st.one_of(st.sampled_from(VALUES), texts, st.integers(), st.floats())
values = st.one_of(
    scalars,
    larges,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=8,
    ),
)


# Messages.


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in list(items):
        yield value, key
        if isinstance(member, dict | list):
            yield from _places(member)


@st.composite
def mutated(draw: st.DrawFn, values_of: st.SearchStrategy[Any]) -> Any:
    """A value of JSON with up to three changes."""
    value = [deepcopy(draw(values_of))]
    for _ in range(draw(st.integers(0, 3))):
        container, key = draw(st.sampled_from([*_places(value)] or [(value, 0)]))
        change = draw(st.sampled_from(("replace", "replace", "remove", "rename", "add", "wrap")))
        if not value or change == "replace":
            container[key] = deepcopy(draw(values))
        elif change == "wrap":
            container[key] = [
                deepcopy(container[key]) for _ in range(draw(st.sampled_from((1, 2, 20))))
            ]
        elif isinstance(container, dict) and change == "rename":
            container[draw(texts)] = container.pop(key)
        elif isinstance(container, dict) and change == "add":
            container[draw(texts)] = deepcopy(draw(values))
        elif container is not value:
            del container[key]
    return value[0]


def parts_of(value: Any) -> Parts:
    """JSON as parts, with the large values in their places."""
    text = json.dumps(value)
    parts: Parts = []
    position = size = 0
    for found in LARGE.finditer(text):
        large = LARGE_VALUES[found[1]](int(found[2]))
        grows = sum(
            len(each) if isinstance(each, str) else len(each[0]) * each[1] for each in large
        )
        if size + grows <= MOST:
            size += grows
            parts += [text[position : found.start()], *large]
            position = found.end()
    return [*parts, text[position:]]


@st.composite
def damaged(draw: st.DrawFn, parts: Parts) -> Parts:
    """Bytes which may have lost or got some."""
    if draw(st.integers(0, 9)):
        return parts
    which = draw(st.integers(0, len(parts) - 1))
    if isinstance(parts[which], list):
        return parts[:which]
    text = parts[which]
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    between = draw(st.one_of(st.just(""), st.text(st.characters(max_codepoint=255), max_size=5)))
    return [*parts[:which], text[:start] + between + text[end:], *parts[which + 1 :]]


# HTTP.

HEADERS = (
    "accept", "content-type", "content-length", "content-encoding", "host", "origin", "cookie", "authorization",
    "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id", "sec-fetch-site",
    "x-forwarded-for", "traceparent", "mcp-param-a", "transfer-encoding", "expect",
)  # fmt: skip
HEADER_VALUES = (
    "", " ", "*/*", "text/event-stream", "application/json", "application/json;q=0", "*/*;q=x", ",,;;==",
    "text/plain", "application/json; charset=utf-16", "testserver", "evil.example", "null", "http://testserver",
    "Bearer x", "Basic !!!", "sessionid=x; a=\"", "<session>", "<state>", "0", "-1", "1-1", "9" * 300, "é\xff",
    "x" * 9000, "=?base64?eA==?=", "=?base64?%%%?=", "cross-site", "00-" + "0" * 32 + "-" + "0" * 16 + "-00",
    *TEXTS[-30:],
)  # fmt: skip


@st.composite
def http(draw: st.DrawFn) -> Input:
    """A request."""
    version, recorded = draw(st.sampled_from(RECORDED))
    message = draw(mutated(st.just(recorded)))
    method = draw(st.sampled_from(("POST",) * 20 + ("GET", "GET", "DELETE", "OPTIONS", "PUT")))
    headers = [["host", "testserver"], ["accept", ACCEPT], ["content-type", "application/json"]]
    headers.append(["mcp-protocol-version", version])
    if version == STATELESS:
        named = recorded if draw(st.booleans()) else message
        params = named.get("params") if isinstance(named, dict) else None
        method_name = named.get("method") if isinstance(named, dict) else None
        headers.append(["mcp-method", str(method_name)])
        name = NAMED.get(method_name) if isinstance(method_name, str) else None
        if name and isinstance(params, dict) and isinstance(params.get(name), str):
            headers.append(["mcp-name", params[name]])
    elif not (isinstance(recorded, dict) and recorded.get("method") == "initialize"):
        headers.append(["mcp-session-id", "<session>"])
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        name = draw(st.sampled_from(HEADERS))
        value = draw(st.one_of(st.sampled_from(HEADER_VALUES), st.text(max_size=20)))
        if draw(st.booleans()):
            headers = [each for each in headers if each[0] != name]
        if draw(st.integers(0, 3)):
            headers.append([name, value])
    known = version if version != STATELESS else "2025-11-25"
    return {
        "target": "http",
        "version": known,
        "method": method,
        "headers": [[name, _latin(value)] for name, value in headers],
        "body": draw(damaged(parts_of(message))),
    }


def _latin(text: str) -> str:
    return re.sub(r"[\r\n\0]", " ", text.encode("latin-1", "replace").decode("latin-1"))


# stdio.


@st.composite
def stdio(draw: st.DrawFn) -> Input:
    """The lines of a conversation, some of which are changed."""
    _, recorded = draw(st.sampled_from(CONVERSATIONS))
    lines = [
        draw(damaged(parts_of(draw(mutated(st.just(message)))))) if draw(st.booleans())
        else parts_of(message)
        for message in recorded[: draw(st.integers(1, len(recorded)))]
    ]  # fmt: skip
    for _ in range(draw(st.integers(0, 2))):
        line = draw(st.one_of(values.map(parts_of), messages_of_any_shape.map(parts_of)))
        lines.insert(draw(st.integers(0, len(lines))), line)
    return {"target": "stdio", "lines": [[_one_line(part) for part in line] for line in lines]}


def _one_line(part: Any) -> Any:
    return part.replace("\n", " ") if isinstance(part, str) else part


messages_of_any_shape = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | values},
    optional={
        "id": values,
        "method": texts,
        "params": st.dictionaries(texts, values, max_size=3) | values,
        "result": values,
        "error": values,
    },
)


# URIs and JSON Schemas.

PIECES = (
    "a", "b.c", "/", "//", ":", "://", "?", "&", "=", "#", ".", "..", "%2f", "%2F", "%2e", "%5c", "%25", "%", "%zz",
    "{a}", "{+a}", "{b}", "{#b}", "{?a,b}", "{&c}", "{/a}", "{.a}", "{;a}", "{a,b}", "{a*}", "{a:3}", "{", "}",
    "é", "%c3%a9", "%ff", "\\", " ", "C:", "x" * 2100, "/a" * 300, "~", "-",
)  # fmt: skip
uris = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@st.composite
def uri(draw: st.DrawFn) -> Input:
    """A template, and a URI which may match it."""
    template = "t://" + draw(uris)
    if draw(st.booleans()):
        address = re.sub(r"\{[^}]*\}", lambda _: draw(uris), template)
    else:
        address = draw(st.sampled_from(("t://", "files://", "query://a/x", ""))) + draw(uris)
    return {"target": "uri", "template": template, "uri": address}


SCHEMAS: tuple[Any, ...] = (
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "patternProperties": {"^(a|b)*$": {"type": "string", "pattern": "(x+x+)+y"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"items": {"$ref": "#/$defs/b"}}}},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"minProperties": 2}], "unevaluatedProperties": False},
    {"type": "object", "properties": {"a": {"uniqueItems": True, "contains": {"const": 1}, "maxContains": 2}}},
    {"type": "object", "$dynamicAnchor": "n", "additionalProperties": {"$dynamicRef": "#n"}},
    {"type": "object", "propertyNames": {"maxLength": 3}, "dependentSchemas": {"a": {"maxProperties": 2}}},
    {"type": "object", "properties": {"a": {"oneOf": [{"multipleOf": 0.1}, {"enum": [1, "x", None]}]}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"if": {}, "then": False}}},
    {"type": "object", "properties": {"a": {"format": "date-time", "contentEncoding": "base64"}, "b": {"not": {}}}},
)  # fmt: skip
ARGUMENTS: tuple[Any, ...] = (
    {"a": 1}, {"a": "@text 30000@", "b": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxx!"}, {"a": [1, 1.0, True]}, {"a": "@objects 2100@"},
    {"a": "@nested_lists 60@"}, {"a": "@nested_objects 500@"}, {"ab": "x" * 40, "b": {}}, {"a": "@integers 30000@"},
)  # fmt: skip


@st.composite
def schema(draw: st.DrawFn) -> Input:
    """A schema, and arguments."""
    changed = draw(mutated(st.sampled_from(SCHEMAS)))
    changed = json.loads(LARGE.sub("1", json.dumps(changed)))  # It is the site's, and small.
    arguments = draw(mutated(st.sampled_from(ARGUMENTS)))
    return {"target": "schema", "schema": changed, "arguments": parts_of(arguments)}


STRATEGIES: Mapping[str, st.SearchStrategy[Input]] = {
    "http": http(),
    "stdio": stdio(),
    "uri": uri(),
    "schema": schema(),
}
