"""The desk on every available database, its toolsets, and calls by a caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from pytest_django import DjangoDbBlocker

from django_mcp import Server
from django_mcp.testing import Client
from django_mcp.toolsets import ModelToolset
from tests.databases import KINDS, scratch_database, why_not_database
from tests.installed_apps import installed

APP = "tests.toolsets.desk"
FOLDER = Path(__file__).parent


class Router:
    """Sends the models of the desk to the database of the test."""

    alias = "default"

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return self.alias if model._meta.app_label == "toolset_desk" else None

    db_for_write = db_for_read

    def allow_relation(self, *_: Any, **__: Any) -> bool:
        return True


ON_POSTGRESQL = {
    "test_aggregation",
    "test_generated_requests",
    "test_natural_keys",
    "test_statement_time",
    "test_writes",
}
"""What runs on PostgreSQL each time: what it limits, locks, groups and sorts in its own way."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the other tests on PostgreSQL to the night."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        database = callspec and callspec.params.get("database")
        is_seldom = item.path.parent == FOLDER and item.path.stem not in ON_POSTGRESQL
        if is_seldom and database == "postgresql":
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="package")
def desk_app() -> Iterator[Any]:
    """The models of the desk."""
    with installed(APP):
        from tests.toolsets.desk import models

        yield models


@pytest.fixture(scope="package", params=KINDS)
def database(
    request: pytest.FixtureRequest,
    desk_app: Any,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The alias of a database with the tables of the desk."""
    if reason := why_not_database(request.param):
        pytest.skip(reason)
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        folder = tmp_path_factory.mktemp("desk")
        alias = stack.enter_context(scratch_database(request.param, folder))
        yield alias


class Caller:
    """Who calls: a user that has all permissions, or those that are named."""

    is_active = is_authenticated = True
    is_anonymous = False
    pk = 1

    def __init__(self, username: str = "north", *permissions: str) -> None:
        self.username = username
        self.permissions = permissions

    def get_username(self) -> str:
        return self.username

    def has_perm(self, permission: str) -> bool:
        return not self.permissions or permission in self.permissions

    async def ahas_perm(self, permission: str) -> bool:
        return self.has_perm(permission)


class Desk:
    """The models on one database, filled, and what a caller is answered."""

    def __init__(self, models: Any, alias: str) -> None:
        self.models = models
        self.alias = alias

    def fill(self) -> None:
        """Two teams: each has a customer and tickets; the second ones are secret to the first."""
        from datetime import UTC, date, datetime

        models = self.models
        north, south = (models.Team.objects.create(name=n, budget=77) for n in ("north", "south"))
        visible = models.Customer.objects.create(name="Alder", password="pa55word", team=north)
        secret = models.Customer.objects.create(name="Hidden Ltd", password="pa55word", team=south)
        for number in range(1, 13):
            hidden = number > 8
            ticket = models.Ticket.objects.create(
                number=number,
                subject=f"{'Hidden' if hidden else 'Printer'} {number}",
                description=f"It is broken {number}",
                status="closed" if number % 3 == 0 else "open",
                price=None if number % 4 == 0 else number * 10,
                created=datetime(2026, 1 + number % 3, number, 12, tzinfo=UTC),
                due=date(2026, 5, number) if number % 2 else None,
                data={"color": "red", "secret": "hidden-json"},
                customer=secret if hidden or number == 8 else visible,
                code=f"hidden-code-{13 - number}",
                team=south if hidden else north,
            )
            models.Comment.objects.create(ticket=ticket, text=f"Seen {number}", code="hidden-code")

    @property
    def connection(self) -> Any:
        return connections[self.alias]

    def clear(self) -> None:
        self.models.Ticket.objects.update(parent=None)
        for model in reversed(self.models.MODELS):
            model._base_manager.all().delete()

    def serve(self, *toolsets: type[ModelToolset]) -> Callable[..., Any]:
        """Return a function that calls a tool and returns its structured content."""
        server = Server("desk")
        for toolset in toolsets:
            toolset.__mcp_register__(server)
        return calls(server)


def calls(server: Server) -> Callable[..., Any]:
    def call(
        name: str, /, user: Any = None, client: Mapping[str, Any] = {}, **arguments: Any
    ) -> Any:
        async def run() -> Any:
            async with Client(server, user=user or Caller(), **client) as connected:
                result = await connected.call_tool(name, arguments)
                if result.get("isError"):
                    raise ToolFailed(result.text)
                return result["structuredContent"]

        return async_to_sync(run)()

    call.server = server  # type: ignore[attr-defined]
    return call


class ToolFailed(Exception):
    """A tool returned an error."""


@pytest.fixture
def desk(
    database: str,
    desk_app: Any,
    settings: Any,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Desk]:
    """The filled desk."""
    monkeypatch.setattr(Router, "alias", database)
    settings.DATABASE_ROUTERS = [Router()]
    with django_db_blocker.unblock():
        filled = Desk(desk_app, database)
        with transaction.atomic(using=database):
            filled.fill()
        yield filled
        with transaction.atomic(using=database):
            filled.clear()
