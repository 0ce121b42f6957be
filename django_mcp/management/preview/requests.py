"""The requests of a host of MCP Apps to a server: for a view, and of the view itself."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.dispatch import handle
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidParams, Json, McpError, MethodNotFound
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.mcp_apps import metadata
from django_mcp.core.protocol.request_meta import OF_NO_CLIENT, RequestMeta
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.server.server import Server
from django_mcp.management import calls
from django_mcp.transports import in_process, site
from django_mcp.transports.wsgi import event_loop

CLIENT_INFO: Json = {"name": "mcp_app_preview", "version": "1"}

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
"""What a view may request of its server."""


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
    """Requests to one server, as one caller."""

    server: Server
    principal: Principal

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
            component = self.server.components.find("tool", name)
            hint = calls.missing_rights(component, self.principal)
            raise NoView(
                f"The server {self.server.name!r} lists no tool {name!r}{hint}: see mcp_show"
            )
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
        meta = metadata.ui_meta(content) or metadata.ui_meta(self._listed_resource(uri))
        return View(uri, metadata.html_of(content), meta)

    def _listed_resource(self, uri: str) -> Json:
        """Return a resource as it is listed; empty if it is not listed."""
        return self._list("resources/list", "resources", "uri").get(uri, {})

    def _list(self, method: str, member: str, key: str) -> dict[str, dict[str, Any]]:
        """Return what is listed on all pages."""
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


@dataclass(frozen=True, slots=True)
class SiteRequests(HostRequests):
    """The requests of the preview, as the user that the command names, from any thread."""

    def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        loop = event_loop.current().loop
        return asyncio.run_coroutine_threadsafe(self._send(method, params), loop).result()

    async def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        request = Request(next(NUMBERS), method, params)
        meta: RequestMeta = {
            **OF_NO_CLIENT,
            "client_capabilities": metadata.CAPABILITY,
            "client_info": CLIENT_INFO,
        }
        frame = in_process.newest_request(
            self.server,
            _with_all_tools(self.principal),
            request,
            transport=calls.transport(),
            meta=meta,
        )
        body = await handle.answer(frame, site.get())
        response: dict[str, Any] = jsonrpc.decode(body)
        return response


NUMBERS = count(1)


def _with_all_tools(principal: Principal) -> Principal:
    """The caller, to whom a server with ``tool_search`` lists all tools."""
    selection = principal.selection or Selection()
    return replace(principal, selection=replace(selection, all_tools=True))


def refusal(error: McpError) -> dict[str, Any]:
    """The response to a request that a view may not send."""
    return {"error": NEWEST.error(error)}
