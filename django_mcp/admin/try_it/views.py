"""The pages that try a component.

Who runs a component here needs the permission ``django_mcp.try_component`` besides that to view
components; the call itself is checked as one of the same user from anywhere else.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_mcp.admin.try_it import app_view, calls, may_try
from django_mcp.admin.try_it.page import FOLDER, TryPage
from django_mcp.admin.try_it.targets import TARGETS
from django_mcp.models import Component
from django_mcp.runtime.around import tenants

LINES = "application/x-ndjson"
"""The media types that the script of the page accepts."""


def try_component(request: HttpRequest, object_id: str, *, model_admin: Any) -> HttpResponseBase:
    """Show the page, or send the request that was posted; raises PermissionDenied and Http404."""
    component = _component(request, object_id, model_admin)
    page = TryPage(request, component.entry)
    if is_for_each_path(component):
        return _whole(request, page, model_admin, component, is_refused=True)
    steps = page.prepare() if request.method == "POST" else []
    if request.headers.get("Accept") == LINES:
        return _lines(request, page, steps)
    if steps:
        calls.wait(request, page.run(steps))
    return _whole(request, page, model_admin, component)


def show_view(request: HttpRequest, object_id: str, *, model_admin: Any) -> HttpResponseBase:
    """Return the view of a tool for its frame, or answer a message of the view to the page."""
    component = _component(request, object_id, model_admin)
    if is_for_each_path(component):
        raise Http404
    server = component.entry.server
    scopes = component.entry.component.scopes | server.scopes
    tenant = tenants.of_request(request)
    caller = calls.caller_of(request, server, scopes, tenant=tenant)
    requests = app_view.PageRequests(server, request, caller)
    if request.method == "POST":
        return app_view.forwarded(requests)
    return app_view.document(requests, component.entry)


def _component(request: HttpRequest, object_id: str, model_admin: Any) -> Component:
    component: Component | None = model_admin.get_object(request, unquote(object_id))
    if not (model_admin.has_view_permission(request, component) and may_try(request)):
        raise PermissionDenied
    if component is None or type(component.entry.component) not in TARGETS:
        raise Http404  # Kinds of extensions have no call, such as events.
    return component


def is_for_each_path(component: Component) -> bool:
    """Whether the path of the server has values, since its authenticators may decide by them."""
    return "<" in component.entry.server.path


def _lines(request: HttpRequest, page: TryPage, steps: Any) -> HttpResponseBase:
    parts: Any = page.lines(steps)
    content = parts if calls.is_asgi(request) else calls.on_thread(parts)
    response = StreamingHttpResponse(content, content_type=LINES)
    response.headers["X-Accel-Buffering"] = "no"  # nginx would collect the lines.
    return response


def _whole(
    request: HttpRequest,
    page: TryPage,
    model_admin: Any,
    component: Component,
    *,
    is_refused: bool = False,
) -> HttpResponseBase:
    site = model_admin.admin_site
    request.current_app = site.name
    url = f"{site.name}:django_mcp_component_change"
    context = {
        **site.each_context(request),
        **page.context,
        "title": _("Try %(name)s") % {"name": component.title or component.name},
        "opts": model_admin.opts,
        "original": component,
        "component": component,
        "component_url": reverse(url, args=[quote(component.key)]),
        "is_refused": is_refused,
    }
    return TemplateResponse(request, f"{FOLDER}/try.html", context)
