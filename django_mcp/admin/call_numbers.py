"""Numbers of the call log for other pages of the admin, where the site has installed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.protocol.revisions import BY_VERSION, Statefulness
from django_mcp.registry import Entry
from django_mcp.runtime.read_only_admin import caller_of, user_names_of

if apps.is_installed("django_mcp.contrib.call_log"):
    from django_mcp.contrib.call_log import chart, dashboard

LISTED_DAYS = 7
"""The list of components counts the calls of so many days."""
CHART_DAYS = 14
"""Days in the chart of a component."""

Key = tuple[str, str, str]
"""Server, kind and component, as a row of the call log has them."""


def are_visible(request: HttpRequest) -> bool:
    """Whether there is a call log that the user of a request may view."""
    is_installed = apps.is_installed("django_mcp.contrib.call_log")
    return is_installed and request.user.has_perm("django_mcp_calls.view_call")


def key_of(entry: Entry) -> Key:
    # A template is read as a resource.
    kind = entry.component.kind
    if kind == TemplateComponent.kind:
        kind = ResourceComponent.kind
    return entry.server.name, kind, entry.component.key


def by_component() -> Mapping[Key, Any]:
    """Return the calls and errors of LISTED_DAYS by component."""
    return dashboard.calls_by_component(LISTED_DAYS)


def context_of(entry: Entry, site: AdminSite) -> dict[str, Any]:
    """Return the numbers of calls for the template of a component's page."""
    calls = dashboard.of_component(*key_of(entry), days=CHART_DAYS)
    return {
        "calls": calls.total,
        "chart": chart.small_chart(calls.days, calls.filters),
        "days": CHART_DAYS,
        "list_url": list_url(site),
    }


def list_url(site: AdminSite) -> str:
    """Return the URL of the list of calls; "" for an admin site that does not have it."""
    try:
        return reverse(f"{site.name}:django_mcp_calls_call_changelist")
    except NoReverseMatch:
        return ""


LAST_CALLS = 500
"""Calls that are searched for clients without a session."""
MAX_CLIENTS = 20


@dataclass
class StatelessClient:
    """The last calls of one client that has no session."""

    client: str
    user: Any
    program: str
    server: str
    revision: str
    last: datetime
    target: str
    """The component of its last call."""
    calls: int = 0
    errors: int = 0


def stateless_clients() -> list[StatelessClient]:
    """Return the clients without a session among the last calls, the latest first."""
    stateless = {
        revision.version
        for revision in BY_VERSION.values()
        if revision.statefulness is Statefulness.STATELESS
    }
    model = apps.get_model("django_mcp_calls", "Call")
    calls = [
        call for call in model.objects.order_by("-id")[:LAST_CALLS] if call.revision in stateless
    ]
    names = user_names_of(call.user_key for call in calls)
    clients: dict[tuple[str, ...], StatelessClient] = {}
    for call in calls:
        name = f"{call.client_name} {call.client_version}".strip() or "-"
        user = names.get(call.user_key) or caller_of(call.principal)
        key = (name, user, call.program, call.server, call.revision)
        if key not in clients:
            clients[key] = StatelessClient(*key, last=call.called_at, target=call.target)
        clients[key].calls += 1
        clients[key].errors += call.is_error
    return [*clients.values()][:MAX_CLIENTS]
