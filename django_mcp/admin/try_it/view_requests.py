"""The requests of a host of MCP Apps to a server: for a view, and of the view itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_mcp.core.protocol.errors import InvalidParams, Json, McpError, MethodNotFound
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.server.server import Server
from django_mcp.ui.mcp_apps import metadata

FORWARDED = frozenset(
    {
        "ping",
        "tools/call",
        "tools/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
    }
)
"""The requests that a view may send to its server."""


class NoView(LookupError):
    """The tool cannot be shown; the message says why, and names the remedy."""


class View(NamedTuple):
    """The content of a tool's ``ui://`` resource."""

    uri: str
    html: str
    meta: dict[str, Any]
    """``_meta.ui`` of the resource: its policy, permissions and border."""


@dataclass(frozen=True, slots=True)
class HostRequests(ABC):
    """Requests to one server, as one caller; a subclass sends them."""

    server: Server

    @abstractmethod
    def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the response: it has a ``result`` or an ``error``."""

    def forward(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a request of a view, which may call tools of visibility "app"."""
        if method not in FORWARDED:
            return refusal(MethodNotFound(f"A view cannot send {method}"))
        if method == "tools/call":
            name = params.get("name")
            if "app" not in metadata.visibility(self.tools().get(str(name), {})):
                return refusal(InvalidParams(f"A view cannot call the tool {name}"))
        return self.send(method, params)

    def tools(self) -> dict[str, dict[str, Any]]:
        """Return the listed tools by their names."""
        return self._list("tools/list", "tools", "name")

    def tool(self, name: str) -> dict[str, Any]:
        """Return a tool with a view, as it is listed; raises NoView."""
        tool = self.tools().get(name)
        if tool is None:
            raise NoView(f"The server {self.server.name!r} lists no tool {name!r} to this user")
        if metadata.resource_uri(tool) is None:
            raise NoView(f"The tool {name!r} has no view: declare one with ui=")
        return tool

    def view(self, tool: Json) -> View:
        """Return the view of a listed tool; raises NoView if its resource cannot be read."""
        uri = str(metadata.resource_uri(tool))
        response = self.send("resources/read", {"uri": uri})
        if "error" in response:
            raise NoView(f"The view {uri} cannot be read: {response['error']['message']}")
        content = response["result"]["contents"][0]
        if content.get("mimeType") != metadata.MIME_TYPE:
            raise NoView(
                f"The view {uri} has the MIME type {content.get('mimeType')!r}: "
                f"hosts show {metadata.MIME_TYPE!r} only"
            )
        meta = metadata.ui_meta(content)
        if not meta:
            listed = self._list("resources/list", "resources", "uri")
            meta = metadata.ui_meta(listed.get(uri, {}))
        return View(uri, metadata.html_of(content), meta)

    def _list(self, method: str, member: str, key: str) -> dict[str, dict[str, Any]]:
        """Return the list of all pages."""
        page = self._result(method, {})
        entries = {entry[key]: entry for entry in page[member]}
        while "nextCursor" in page:
            page = self._result(method, {"cursor": page["nextCursor"]})
            entries |= {entry[key]: entry for entry in page[member]}
        return entries

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        response = self.send(method, params)
        if "error" in response:
            raise NoView(response["error"]["message"])
        result: dict[str, Any] = response["result"]
        return result


def refusal(error: McpError) -> dict[str, Any]:
    """The response to a request that a view may not send."""
    return {"error": NEWEST.error(error)}
