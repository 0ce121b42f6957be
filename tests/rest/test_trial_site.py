"""A trial site with hundreds of view sets: random calls through tools and over REST agree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connection, transaction
from django.db.models.signals import post_save
from django.test import Client as Browser
from django.urls import include, path
from pytest_django import DjangoDbBlocker
from rest_framework import permissions, serializers, viewsets
from rest_framework.routers import SimpleRouter

from django_mcp import Server
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication
from django_mcp.rest import rest_tools
from django_mcp.testing import ErrorResponse, SyncClient
from example_site.helpdesk.models import Customer, Ticket
from tests.installed_apps import installed
from tests.rest import urls
from tests.rest.conftest import Users

VIEWS = 200
CALLS = 500
SEED = 20261123
DEVICES = 3
"""One view set of so many is of devices."""


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


@pytest.fixture(scope="module")
def trial_models(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Any]:
    """The models of the devices, with their tables."""
    with installed("tests.rest.trial"), django_db_blocker.unblock():
        from tests.rest.trial import models

        tables = (models.Token, models.Tag, models.Device, models.Change)
        with connection.schema_editor() as editor:
            for table in tables:
                editor.create_model(table)
        yield models
        with connection.schema_editor() as editor:
            for table in reversed(tables):
                editor.delete_model(table)


@pytest.fixture
def trial(trial_models: Any, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Server]:
    from tests.rest.trial import api

    router = SimpleRouter()
    for number in range(VIEWS):
        kind = api.DeviceViewSet if number % DEVICES == 0 else view_set(number)
        tokens = {"authentication_classes": (api.Tokens,)}
        viewset: Any = type(f"Row{number}ViewSet", (kind,), tokens)
        router.register(f"row{number}s", viewset, basename=f"row{number}")
    monkeypatch.setattr(urls, "urlpatterns", [path("trial/", include(router.urls))])
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.StrictBackend"]
    settings.ROOT_URLCONF = "tests.rest.urls"
    change_log = f"{api.__name__}.change_log"
    settings.MIDDLEWARE = [change_log]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": [change_log]}
    server = Server("trial", authenticators=[RESTFrameworkAuthentication(api.Tokens)])
    exclude = ["*_create", "*_destroy"]
    rest_tools(router, read_only=False, exclude=exclude, answer="full", server=server)
    post_save.connect(api.write_change, sender=trial_models.Device)
    yield server
    post_save.disconnect(api.write_change, sender=trial_models.Device)


@pytest.fixture
def headers(trial_models: Any, users: Users, tickets: list[Ticket]) -> list[dict[str, str]]:
    """Devices of the keys of the tickets; a token of each user, that of staff being read-only."""
    for model in (trial_models.Device, trial_models.Tag, trial_models.Token):
        model.objects.all().delete()  # A flush does not know tables of optional apps.
    tags = [trial_models.Tag.objects.create(name=name) for name in ("core", "spare")]
    for ticket in tickets:
        device = trial_models.Device.objects.create(
            pk=ticket.pk, name=ticket.subject, custom_fields={"floor": 3}
        )
        device.tags.add(tags[0])
    tokens = [(users.staff, False), (users.staff, True), (users.agent, True)]
    made = [
        trial_models.Token.objects.create(key=f"key{number}", user=user, write_enabled=is_writer)
        for number, (user, is_writer) in enumerate(tokens)
    ]
    return [{"Authorization": f"Token {token.key}"} for token in made]


class Rows:
    """The rows of the site, which each change is undone in."""

    def __init__(self, models: Any) -> None:
        self._models = models
        self._rows = [*Ticket.objects.all(), *Customer.objects.all(), *models.Device.objects.all()]

    def attempt(self, action: str, call: Any) -> Any:
        """Return what a call returns and the change log that it leaves, without its changes."""
        returned = call()
        changes = [*self._models.Change.objects.values_list("user_name", "device")]
        if action != "update":
            return returned, changes
        with transaction.atomic():
            self._models.Change.objects.all().delete()
            for row in self._rows:
                row.save()
            for device in self._models.Device.objects.all():
                device.tags.set(self._models.Tag.objects.filter(name="core"))
        return returned, changes


def random_calls(tickets: list[Ticket]) -> Iterator[tuple[int, str, dict[str, Any], int]]:
    """Yield views, actions, data and callers, the same in each run."""
    chosen = random.Random(SEED)
    for _ in range(CALLS):
        of_devices = DEVICES * chosen.randrange(VIEWS // DEVICES)
        number = chosen.choice([chosen.randrange(VIEWS), of_devices])
        action = chosen.choice(["list", "retrieve", "update", "update"])
        key = chosen.choice([tickets[0].pk, tickets[1].pk, tickets[3].pk, 999])
        data = data_of_devices(chosen) if number % DEVICES == 0 else data_of(number, chosen)
        yield number, action, {"id": key, **data}, chosen.randrange(3)


def data_of(number: int, chosen: random.Random) -> dict[str, Any]:
    name = "city" if number % 2 else "subject"
    return {
        name: chosen.choice(["New", "x" * 300]),
        "share": chosen.choice([0.25, 1.5, 2, -3]),
    }


def data_of_devices(chosen: random.Random) -> dict[str, Any]:
    """Return changes of tags and custom fields; some are not valid."""
    data: dict[str, Any] = {"name": chosen.choice(["New", "Newer", "Newest", "x" * 21])}
    tags: Any = chosen.choice(
        [None, [], [{"name": "spare"}], [{"name": "core"}, {"name": "no"}], [{}]]
    )
    own: Any = chosen.choice(
        [None, {"cost_center": "42"}, {"floor": None}, {"nowhere": 1}, {}, [1]]
    )
    return data | {
        name: it for name, it in (("tags", tags), ("custom_fields", own)) if it is not None
    }


def over_rest(browser: Browser, number: int, action: str, values: dict[str, Any]) -> Any:
    """Return the rows that the API answers, or None for a refusal."""
    data = {name: value for name, value in values.items() if name != "id"}
    url = f"/trial/row{number}s/"
    if action == "list":
        response = browser.get(url)
    elif action == "retrieve":
        response = browser.get(f"{url}{values['id']}/")
    else:
        response = browser.patch(f"{url}{values['id']}/", data, content_type="application/json")
    return response.json() if response.status_code == 200 else None


def by_tool(client: SyncClient, number: int, action: str, values: dict[str, Any]) -> Any:
    """Return the rows that the tool returns, or None for a refusal."""
    arguments = {"list": {}, "retrieve": {"id": values["id"]}, "update": values}[action]
    name = f"row{number}_{'partial_update' if action == 'update' else action}"
    try:
        result = client.call_tool(name, arguments)
    except ErrorResponse:
        return None
    return None if result.is_error else result.structured


@pytest.mark.django_db(transaction=True)
def test_random_calls_with_three_tokens_agree_with_the_api(
    trial: Server, trial_models: Any, headers: list[dict[str, str]], tickets: list[Ticket]
) -> None:
    rows = Rows(trial_models)
    browsers = [Browser(headers=header) for header in headers]
    answered = 0
    logged = 0
    with ExitStack() as stack:
        connections = [SyncClient(trial, transport="http", headers=header) for header in headers]
        clients = [stack.enter_context(client) for client in connections]
        for number, action, values, chosen in random_calls(tickets):
            call = (number, action, values)
            expected = rows.attempt(action, partial(over_rest, browsers[chosen], *call))
            assert rows.attempt(action, partial(by_tool, clients[chosen], *call)) == expected, call
            answered += expected[0] is not None
            logged += bool(expected[1])
    assert 100 < answered < CALLS - 100
    assert logged >= 10


@pytest.mark.django_db(transaction=True)
def test_each_token_sees_the_tools_that_it_may_use(
    trial: Server, headers: list[dict[str, str]]
) -> None:
    names: list[set[str]] = []
    for header in headers:
        with SyncClient(trial, transport="http", headers=header) as client:
            names.append({tool["name"] for tool in client.list_tools()})
    reader, writer, agent = names
    of_devices = {f"row{number}_partial_update" for number in range(0, VIEWS, DEVICES)}
    assert writer - reader == of_devices
    assert not agent & of_devices
    assert {"row0_list", "row0_retrieve"} <= agent
