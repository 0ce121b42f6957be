"""The HTTP requests of the benchmarks, and the checks of their responses.

Responses are verified before measuring, because errors are fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

STATELESS = "2026-07-28"
SESSIONS = "2025-11-25"

META = "io.modelcontextprotocol/"
NAMED = {"tools/call": "name"}
ROWS = 100
"""Rows of text, about 100 kB as JSON."""
MANY_ROWS = 1200
"""Rows of numbers, about 100 kB as JSON."""
LINES = 2500
"""A text of about 200 kB."""
STEPS = 50
PAGE = 50
"""Rows of a table on one page."""
TABLE_ROWS = 920
"""Rows of five small fields, about 100 kB as JSON."""
TOKEN = f"djmcp_{'0' * 43}1Xt5FX"
"""A personal access token with a valid checksum, which the measured project accepts."""
TOOLKIT_TOKEN = "0" * 30
"""An access token of django-oauth-toolkit for this audience."""
AUDIENCE = "https://bench.example/mcp"

Json = dict[str, Any]
Check = Callable[[list[Json]], bool]
"""Whether the messages of a response are the expected ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request and the check of its response."""

    method: str
    params: Mapping[str, Any]
    is_expected: Check
    version: str = STATELESS
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> Json:
        """The request as JSON."""
        return {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": self._params()}

    @property
    def body(self) -> bytes:
        """The encoded body."""
        return json.dumps(self.message, separators=(",", ":")).encode()

    @property
    def all_headers(self) -> dict[str, str]:
        """The headers, without Content-Length and Host."""
        common = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.version,
        }
        return {**common, **self._request_headers(), **self.headers}

    def _params(self) -> Json:
        if self.version != STATELESS:
            return dict(self.params)
        meta = {META + "protocolVersion": self.version, META + "clientCapabilities": {}}
        return {**self.params, "_meta": {**meta, **self.params.get("_meta", {})}}

    def _request_headers(self) -> dict[str, str]:
        if self.version != STATELESS:
            return {}
        name = self.params.get(NAMED.get(self.method, ""))
        return {"mcp-method": self.method, **({"mcp-name": name} if name else {})}


def result(messages: list[Json]) -> Json:
    """The result in the last message; empty if there is none."""
    found: Json = messages[-1].get("result", {}) if messages else {}
    return {} if found.get("isError") else found


def text(expected: str) -> Check:
    """Expect this text, in text content or in structured content."""

    def is_expected(messages: list[Json]) -> bool:
        content = result(messages).get("content", [])
        return bool(content) and expected in content[0].get("text", "")

    return is_expected


def lists(count: int) -> Check:
    """Expect this number of tools on the page."""
    return lambda messages: len(result(messages).get("tools", ())) == count


def structure(count: int) -> Check:
    """Expect a list of this length."""

    def is_expected(messages: list[Json]) -> bool:
        structured = result(messages).get("structuredContent", ())
        rows = structured.get("result", ()) if isinstance(structured, dict) else structured
        return len(rows) == count

    return is_expected


def after_progress(steps: int) -> Check:
    """Expect this number of progress notifications before the result."""

    def is_expected(messages: list[Json]) -> bool:
        methods = [message.get("method") for message in messages[:-1]]
        return methods == ["notifications/progress"] * steps and bool(result(messages))

    return is_expected


def acknowledged(messages: list[Json]) -> bool:
    """Expect an open stream."""
    return messages[0].get("method") == "notifications/subscriptions/acknowledged"


def tool(name: str, is_expected: Check, version: str = STATELESS, **arguments: Any) -> Call:
    """Return a tool call."""
    params = {"name": name, "arguments": arguments}
    return Call(method="tools/call", params=params, is_expected=is_expected, version=version)


def page_of_rows(messages: list[Json]) -> bool:
    """Expect a page of rows, as a list or among the members of an object."""
    structured = result(messages).get("structuredContent", {})
    rows = (
        structured.get("items", structured.get("result"))
        if isinstance(structured, dict)
        else (structured)
    )
    return len(rows or ()) == PAGE


def typed_rows(messages: list[Json]) -> bool:
    """Expect rows of five fields, as structured content and as text."""
    found = result(messages)
    structured, content = found.get("structuredContent", {}), found.get("content", ())
    as_text = json.loads(content[0]["text"]) if content else None
    rows = structured.get("rows", ())
    return as_text == structured and len(rows) == TABLE_ROWS and {*map(len, rows)} == {5}


ADD = tool("add", text("3"), a=1, b=2)
ADD_WITH_TOKEN = replace(ADD, headers={"authorization": f"Bearer {TOKEN}"})
ADD_WITH_TOOLKIT_TOKEN = replace(ADD, headers={"authorization": f"Bearer {TOOLKIT_TOKEN}"})
ADD_SYNC = tool("add_sync", text("3"), a=1, b=2)
ADD_IN_SESSION = tool("add", text("3"), SESSIONS, a=1, b=2)
READ_ROW = tool("group_name", text("readers"), pk=1)
LIST_ROWS = tool("list_users", page_of_rows)
LIST = Call(method="tools/list", params={}, is_expected=lists(50))
LIST_20 = Call(method="tools/list", params={}, is_expected=lists(20))
LIST_1000 = Call(method="tools/list", params={}, is_expected=lists(1000))
TYPED_DICTS = tool("typed_dicts", typed_rows)
DATACLASSES = tool("dataclasses", typed_rows)
MODELS = tool("models", typed_rows)
VALUES = tool("values", typed_rows)
STRUCTURE = tool("tickets", structure(ROWS))
FINE_STRUCTURE = tool("prices", structure(MANY_ROWS))
ARGUMENTS = tool("count", text(str(LINES)), lines=["x" * 76] * LINES)
PROGRESS = Call(
    method="tools/call",
    params={
        "name": "progress",
        "arguments": {"steps": STEPS},
        "_meta": {"progressToken": "p"},
    },
    is_expected=after_progress(STEPS),
)
LISTEN = Call(
    method="subscriptions/listen",
    params={"notifications": {"toolsListChanged": True}},
    is_expected=acknowledged,
)
PUBLISH = tool("announce", text("said"))
FIRST_LIST = Call(
    method="tools/list", params={}, is_expected=lambda messages: bool(result(messages))
)
