"""The tools of a user as documents: OpenAPI, and Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema.parameters import Parameter
from django_mcp.transports.http.browser.tools import ListedTool

ABOUT = (
    "The tools of an MCP server that one user may use. Programs call them with tools/call at the "
    "URL of the server. The paths are the names of the tools: there is nothing at these URLs."
)


class Described(NamedTuple):
    """A server and the tools that one user may use."""

    title: str
    version: str
    url: str
    tools: Sequence[ListedTool]


class Document(NamedTuple):
    """A document that can be downloaded."""

    media_type: str
    suffix: str
    write: Callable[[Described], str]


def openapi(described: Described) -> str:
    """Return a document of OpenAPI 3.1, with an operation for each tool."""
    document = {
        "openapi": "3.1.0",
        "info": {"title": described.title, "version": described.version, "description": ABOUT},
        "servers": [{"url": described.url}],
        "paths": {f"/{tool.name}": {"post": _operation(tool)} for tool in described.tools},
    }
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)


def _operation(tool: ListedTool) -> dict[str, Any]:
    content = {"schema": _schema(tool, "inputSchema"), "example": tool.example}
    answer: dict[str, Any] = {"description": "The result of the tool"}
    if "outputSchema" in tool.descriptor:
        answer["content"] = {"application/json": {"schema": _schema(tool, "outputSchema")}}
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {"200": answer},
        **({"x-mcp-annotations": hints} if (hints := tool.descriptor.get("annotations")) else {}),
    }


def _schema(tool: ListedTool, member: str) -> Json:
    # References of a schema are resolved within it, and not from the root of the document.
    return {"$id": f"urn:mcp:{quote(tool.name, safe='')}:{member}", **tool.descriptor[member]}


def markdown(described: Described) -> str:
    """Return a document of Markdown, with a section for each tool."""
    parts = [f"# {_line(described.title)}", f"<{described.url}>"]
    for tool in described.tools:
        parts += [f"## {_line(tool.title)}", f"`{tool.name}`", tool.description]
        rows = tool.parameters
        if rows:
            parts.append("\n".join((*HEAD, *map(_row, rows))))
        parts.append(f"```json\n{tool.example_json}\n```")
    return "\n\n".join(filter(None, parts)) + "\n"


HEAD = ("| argument | type | | description |", "|---|---|---|---|")


def _row(row: Parameter) -> str:
    about = f"{row.description} {row.limits}".strip()
    need = f"default {row.default}" if row.default else ""
    if row.is_required:
        need = "required"
    cells = (f"`{row.name}`", row.type, need, about)
    return f"| {' | '.join(map(_line, cells))} |"


def _line(text: str) -> str:
    """A text in one line, which may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


DOCUMENTS: Mapping[str, Document] = {
    "openapi": Document("application/json", "json", openapi),
    "markdown": Document("text/markdown; charset=utf-8", "md", markdown),
}
"""The documents by their name in the URL: ``?format=openapi``."""
