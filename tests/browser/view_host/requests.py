"""Requests of a view in the host of the tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from django_mcp.admin.try_it.view_requests import HostRequests
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.dispatch import handle
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.request_meta import OF_NO_CLIENT, RequestMeta
from django_mcp.management import calls
from django_mcp.transports import in_process, site
from django_mcp.transports.wsgi import event_loop
from django_mcp.ui.mcp_apps import metadata

CLIENT_INFO: Json = {"name": "view_host", "version": "1"}


@dataclass(frozen=True, slots=True)
class SiteRequests(HostRequests):
    """The requests of one principal, from any thread."""

    principal: Principal

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
