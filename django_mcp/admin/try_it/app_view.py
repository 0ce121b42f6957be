"""The view of a tool (MCP Apps) on the page of its result, and the requests of the view.

The frame has no origin (``sandbox`` without ``allow-same-origin``), so that the view reads nothing
of the admin and has no cookies. It asks the page for everything else; the page is the host. What a
view calls besides tools that are declared to change nothing, the user allows each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.utils.translation import gettext as _

from django_mcp.admin.try_it import calls
from django_mcp.admin.try_it.conversation import Conversation
from django_mcp.admin.try_it.view_requests import HostRequests, NoView, refusal
from django_mcp.core.protocol.errors import InternalError
from django_mcp.registry import Entry
from django_mcp.ui.mcp_apps import metadata, policy

SANDBOX = "allow-scripts allow-forms"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppView:
    """The data of the template and the script that show the view of a call."""

    title: str
    uri: str
    facts: Mapping[str, Any]
    sandbox: str = SANDBOX


def of_call(entry: Entry, conversation: Conversation | None) -> AppView | None:
    """Return the view of a call that has ended; None without a result, or without a view."""
    if conversation is None or conversation.goes_on:
        return None
    result = conversation.response.get("result")
    if not isinstance(result, Mapping) or "content" not in result:
        return None
    tool = entry.descriptor
    uri = metadata.resource_uri(tool)
    if uri is None:
        return None
    arguments = conversation.params.get("arguments", {})
    facts = {"tool": tool, "arguments": arguments, "result": result}
    return AppView(title=str(tool.get("title") or tool["name"]), uri=uri, facts=facts)


@dataclass(frozen=True, slots=True)
class PageRequests(HostRequests):
    """The requests of the page, as the user who is logged in."""

    request: HttpRequest
    caller: calls.Caller

    def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        sent = calls.response_to(self.server, self.caller, method, params, metadata.CAPABILITY)
        return {**calls.wait(self.request, sent)}


def document(requests: PageRequests, entry: Entry) -> HttpResponse:
    """Return the document of the view, with the policy that hosts derive from its metadata."""
    try:
        view = requests.view(requests.tool(entry.component.name))
    except NoView as error:
        return HttpResponse(str(error), status=404, content_type="text/plain; charset=utf-8")
    header = f"{policy.header(view.meta.get('csp'))}; frame-ancestors 'self'; sandbox {SANDBOX}"
    return HttpResponse(
        view.html,
        headers={
            "Content-Security-Policy": header,
            "X-Frame-Options": "SAMEORIGIN",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        },
    )


def forwarded(requests: PageRequests) -> HttpResponse:
    """Return the response to a request of the view, or the question whether it may be sent."""
    try:
        message = json.loads(requests.request.body)
        method = str(message["method"])
        params = {**message["params"]}
    except (ValueError, RecursionError, LookupError, TypeError):
        return HttpResponseBadRequest()
    try:
        if method == "tools/call" and not message.get("is_allowed"):
            tool = requests.tools().get(str(params.get("name")), {})
            hints = tool.get("annotations")
            if not isinstance(hints, Mapping) or hints.get("readOnlyHint") is not True:
                text = _("The view calls the tool %(name)s as you. Do you allow it?")
                return JsonResponse({"question": text % {"name": params.get("name")}})
        return JsonResponse(requests.forward(method, params))
    except NoView as error:
        return JsonResponse(refusal(InternalError(str(error))))
