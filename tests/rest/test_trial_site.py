"""A trial site with hundreds of view sets: random calls through tools and over REST agree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import transaction
from django.test import Client as Browser
from django.urls import include, path
from rest_framework import permissions, serializers, viewsets
from rest_framework.routers import SimpleRouter

from django_mcp import Server
from django_mcp.rest import rest_tools
from django_mcp.testing import ErrorResponse, SyncClient
from example_site.helpdesk.models import Customer, Ticket
from tests.rest import urls
from tests.rest.conftest import Users

VIEWS = 200
CALLS = 500
SEED = 20261123


class StrictBackend(BaseBackend):
    """Decides by names alone: a backend that overrides ``has_perm`` and no other method."""

    def get_user(self, user_id: Any) -> Any:
        return User.objects.filter(pk=user_id).first()

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        is_read = ".view_" in perm
        return bool(user_obj.is_staff or (user_obj.username == "agent" and is_read))


class Permissions(permissions.DjangoModelPermissions):  # type: ignore[misc]
    """Needs the permission to view as well, as NetBox does."""

    perms_map = {
        **permissions.DjangoModelPermissions.perms_map,
        "GET": ["%(app_label)s.view_%(model_name)s"],
    }


class TicketPermissions(permissions.IsAuthenticated):  # type: ignore[misc]
    """Only who writes decides: everybody reads, and only the assignee and staff change."""

    def has_object_permission(self, request: Any, view: Any, ticket: Ticket) -> bool:
        is_own = request.user.is_staff or ticket.assignee == request.user
        return request.method in permissions.SAFE_METHODS or is_own


def view_set(number: int) -> Any:
    """Return one of many view sets: of tickets with bounds, or of customers."""
    model: Any = (Ticket, Customer)[number % 2]
    guard: Any = (TicketPermissions, Permissions)[number % 2]
    bounds = [MinValueValidator(Decimal("-1.5")), MaxValueValidator(Decimal("1.5"))]
    share = serializers.DecimalField(
        max_digits=4, decimal_places=2, required=False, write_only=True, validators=bounds
    )
    names = {Ticket: ("subject", "status"), Customer: ("name", "city")}
    meta = type("Meta", (), {"model": model, "fields": ("id", *names[model], "share")})
    kind = type(
        f"Serializer{number}",
        (serializers.ModelSerializer,),
        {"share": share, "Meta": meta, "update": update},
    )
    members = {
        "queryset": model.objects.order_by("id"),
        "serializer_class": kind,
        "permission_classes": (guard,),
    }
    return type(f"Trial{number}ViewSet", (viewsets.ModelViewSet,), members)


def update(self: Any, instance: Any, data: dict[str, Any]) -> Any:
    data.pop("share", None)
    return serializers.ModelSerializer.update(self, instance, data)


@pytest.fixture
def trial(server: Server, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Server:
    router = SimpleRouter()
    for number in range(VIEWS):
        router.register(f"row{number}s", view_set(number), basename=f"row{number}")
    monkeypatch.setattr(urls, "urlpatterns", [path("trial/", include(router.urls))])
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.StrictBackend"]
    settings.ROOT_URLCONF = "tests.rest.urls"
    exclude = ["create_*", "destroy_*"]
    rest_tools(router, read_only=False, exclude=exclude, server=server)
    return server


class Undone(Exception):
    """Ends a transaction whose changes must not be kept."""


def attempt(call: Any) -> Any:
    """Return what a call returns, without its changes."""
    outcome: Any = None
    try:
        with transaction.atomic():
            outcome = call()
            raise Undone
    except Undone:
        return outcome


def random_calls(tickets: list[Ticket]) -> Iterator[tuple[int, str, dict[str, Any], int]]:
    """Yield views, actions, data and users, the same in each run."""
    chosen = random.Random(SEED)
    for _ in range(CALLS):
        number = chosen.randrange(VIEWS)
        action = chosen.choice(["list", "retrieve", "update"])
        name = "city" if number % 2 else "subject"
        data = {
            name: chosen.choice(["New", "x" * 300]),
            "share": chosen.choice([0.25, 1.5, 2, -3]),
        }
        key = chosen.choice([tickets[0].pk, tickets[1].pk, tickets[3].pk, 999])
        yield number, action, {"pk": key, **data}, chosen.randrange(3)


def over_rest(browser: Browser, number: int, action: str, values: dict[str, Any]) -> Any:
    """Return the rows that the API answers, or None for a refusal."""
    data = {name: value for name, value in values.items() if name != "pk"}
    url = f"/trial/row{number}s/"
    if action == "list":
        response = browser.get(url)
    elif action == "retrieve":
        response = browser.get(f"{url}{values['pk']}/")
    else:
        response = browser.patch(f"{url}{values['pk']}/", data, content_type="application/json")
    return response.json() if response.status_code == 200 else None


def by_tool(client: SyncClient, number: int, action: str, values: dict[str, Any]) -> Any:
    """Return the rows that the tool returns, or None for a refusal."""
    arguments = {"list": {}, "retrieve": {"pk": values["pk"]}, "update": values}[action]
    name = f"{action}_row{number}{'s' if action == 'list' else ''}"
    try:
        result = client.call_tool(name, arguments)
    except ErrorResponse:
        return None
    return None if result.is_error else result.structured


def test_random_calls_of_three_users_agree_with_the_api(
    trial: Server, users: Users, tickets: list[Ticket]
) -> None:
    browsers: list[Browser] = []
    for user in users:
        browser = Browser()
        browser.force_login(user, backend=f"{__name__}.StrictBackend")
        browsers.append(browser)
    clients = [SyncClient(trial, user=fresh(user)) for user in users]
    answered = 0
    for client in clients:
        client.__enter__()
    try:
        for number, action, values, chosen in random_calls(tickets):
            call = (number, action, values)
            expected = attempt(partial(over_rest, browsers[chosen], *call))
            assert attempt(partial(by_tool, clients[chosen], *call)) == expected, call
            answered += expected is not None
    finally:
        for client in clients:
            client.__exit__(None, None, None)
    assert 100 < answered < CALLS - 100


def fresh(user: User) -> User:
    return User.objects.get(pk=user.pk)
