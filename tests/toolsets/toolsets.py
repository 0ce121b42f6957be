"""The toolsets of these tests; their models are set when the app is installed."""

from __future__ import annotations

from typing import Any

from django_mcp.toolsets import ModelToolset
from tests.toolsets.conftest import Desk


def tickets(models: Any, **attributes: Any) -> type[ModelToolset]:
    """Tickets of the caller's team, with every operation."""

    def get_queryset(self: Any, frame: Any) -> Any:
        return models.Ticket.objects.filter(team__name=frame.user.username)

    declared: dict[str, Any] = {
        "__module__": __name__,
        "model": models.Ticket,
        "operations": ["list", "get", "count", "aggregate", "create", "update", "delete"],
        "fields": [
            "number", "subject", "description", "status", "price", "rating", "is_urgent",
            "created", "due", "customer__name", "customer", "parent",
        ],
        "filter_fields": {
            "number": ["exact", "in", "gt", "lte", "range"],
            "subject": ["exact", "icontains", "startswith"],
            "status": ["exact", "in"],
            "price": ["gte", "isnull"],
            "created": ["gte", "lt", "date", "year", "month__gte"],
            "due": ["exact", "isnull"],
            "is_urgent": ["exact"],
            "customer__name": ["exact", "icontains", "isnull"],
            "customer": ["exact", "isnull"],
        },
        "search_fields": ["subject", "description", "customer__name"],
        "ordering_fields": ["number", "price", "due", "created", "customer__name"],
        "group_fields": ["status", "created", "customer__name"],
        "aggregate_fields": {"price": ["sum", "avg", "min", "max"], "number": ["sum", "avg"]},
        "write_fields": [
            "number", "subject", "description", "status", "price", "is_urgent", "created", "due",
            "customer", "parent", "team",
        ],
        "get_queryset": get_queryset,
    }  # fmt: skip
    return type("Tickets", (ModelToolset,), {**declared, **attributes})


def customers(models: Any, **attributes: Any) -> type[ModelToolset]:
    """Customers of the caller's team."""

    def get_queryset(self: Any, frame: Any) -> Any:
        return models.Customer.objects.filter(team__name=frame.user.username)

    declared = {
        "model": models.Customer,
        "fields": ["pk", "name"],
        "filter_fields": {"name": ["icontains"]},
        "get_queryset": get_queryset,
    }
    return type("Customers", (ModelToolset,), {**declared, **attributes})


def sections(models: Any, **attributes: Any) -> type[ModelToolset]:
    """Sections of the caller's team."""

    def get_queryset(self: Any, frame: Any) -> Any:
        return models.Section.objects.filter(team__name=frame.user.username)

    declared = {
        "model": models.Section,
        "fields": ["number", "name"],
        "get_queryset": get_queryset,
    }
    return type("Sections", (ModelToolset,), {**declared, **attributes})


def meetings(models: Any, **attributes: Any) -> type[ModelToolset]:
    """All meetings, which name their sections by number."""
    declared = {
        "model": models.Meeting,
        "operations": ["list", "get", "update"],
        "fields": ["pk", "slug", "start", "end", "section", "section__name"],
        "filter_fields": {"section": ["exact"]},
    }
    return type("Meetings", (ModelToolset,), {**declared, **attributes})


def new(desk: Desk, **values: Any) -> dict[str, Any]:
    """The arguments of a ticket that may be created."""
    models = desk.models
    customer, team = models.Customer.objects.get(name="Alder"), models.Team.objects.first()
    created = "2026-06-01T00:00:00Z"
    given = {"number": 50, "subject": "New", "created": created, "customer": customer.pk}
    return {**given, "team": team.pk, **values}
