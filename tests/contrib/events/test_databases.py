"""Events in several databases: an outbox beside the models, one elsewhere, and replicas."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import DatabaseError, connections, transaction
from django.test import RequestFactory

from django_mcp import Server, registry
from django_mcp.contrib.events import Event, delivery, interest, outbox
from django_mcp.contrib.events.admin import SubscriptionAdmin
from django_mcp.contrib.events.models import Occurrence, Status, Subscription
from django_mcp.contrib.events.testing import FakeReceiver, assert_event_sent, deliver
from django_mcp.testing import Client
from example_site.helpdesk.models import Customer, Ticket
from tests.contrib.events.conftest import close, ticket
from tests.databases import scratch_database
from tests.replica import ReplicaRouter, replica

__all__ = ["replica"]

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(autouse=True)
def by_hand(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver when the test says so, for the only server of the site."""
    monkeypatch.setattr(delivery, "wake", lambda: None)
    monkeypatch.setattr(registry.registered, "servers", {server.name: server})


APPS = ("helpdesk", "django_mcp_events")


class AppRouter:
    """Sends some apps to another database, as the documentation of Django shows it."""

    def __init__(self, alias: str, labels: tuple[str, ...]) -> None:
        self.alias = alias
        self.labels = labels

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.alias if model._meta.app_label in self.labels else None

    db_for_write = db_for_read

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


@pytest.fixture
def other(transactional_db: None, tmp_path: Path, django_db_blocker: Any) -> Iterator[str]:
    """The alias of a further database with all tables."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:
        yield alias


def with_ticket(closed: Event) -> Ticket:
    """Return a ticket in the database of its model, while somebody listens."""
    assert closed.server is not None
    interest.begin(closed.server.name, closed.name)
    customer = Customer.objects.create(name="Acme", email="a@example.com", city="Bern")
    return ticket(customer, None)


def occurrences(alias: str) -> int:
    return Occurrence._default_manager.using(alias).count()


def test_outbox_beside_the_model_is_written_in_its_transaction(
    closed: Event, other: str, settings: Any
) -> None:
    settings.DATABASE_ROUTERS = [AppRouter(other, APPS)]
    row = with_ticket(closed)
    with transaction.atomic(using=other):
        close(row)
        assert occurrences(other) == 1
        transaction.set_rollback(True, using=other)
    assert occurrences(other) == 0

    with transaction.atomic(using=other):
        close(Ticket.objects.get(pk=row.pk))
    assert (occurrences(other), occurrences("default")) == (1, 0)


def test_outbox_elsewhere_is_written_after_the_commit(
    closed: Event, other: str, settings: Any
) -> None:
    settings.DATABASE_ROUTERS = [AppRouter(other, ("helpdesk",))]
    row = with_ticket(closed)
    with transaction.atomic(using=other):
        close(row)
        assert occurrences("default") == 0
        transaction.set_rollback(True, using=other)
    assert occurrences("default") == 0

    with transaction.atomic(using=other):
        close(Ticket.objects.get(pk=row.pk))
    assert (occurrences(other), occurrences("default")) == (0, 1)


def test_outbox_elsewhere_that_is_away_is_logged_and_undoes_nothing(
    closed: Event,
    other: str,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.DATABASE_ROUTERS = [AppRouter(other, ("helpdesk",))]
    row = with_ticket(closed)

    def fail(*args: Any, **options: Any) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(Occurrence, "save", fail)
    ran: list[str] = []
    with caplog.at_level(logging.ERROR, "django.db"), transaction.atomic(using=other):
        close(row)
        transaction.on_commit(lambda: ran.append("later"), using=other)

    assert Ticket.objects.get(pk=row.pk).status == "closed"
    assert ran == ["later"]
    assert "away" in caplog.text


def test_copy_in_a_database_that_is_not_read_is_no_event(
    closed: Event, other: str, settings: Any
) -> None:
    row = with_ticket(closed)
    row.customer.save(using=other)
    row.status = Ticket.Status.CLOSED
    row.save(using=other)

    assert occurrences("default") == 0


async def test_object_is_read_from_the_primary(
    server: Server, closed: Event, ann: User, customer: Customer, replica: str, configure: Any
) -> None:
    with FakeReceiver() as receiver:
        target = {"mode": "webhook", "url": receiver.url, "secret": receiver.secret}
        params = {"name": "ticket.closed", "delivery": target}
        async with Client(server, user=ann) as client:
            start = (await client.request("events/poll", {**params, "cursor": None}))["cursor"]
            await client.request("events/subscribe", params)
            await sync_to_async(lambda: close(ticket(customer, ann)))()
            polled = await client.request("events/poll", {**params, "cursor": start})
        await sync_to_async(deliver)()
    assert [each["data"]["subject"] for each in polled["events"]] == ["Broken"]
    assert [each["data"]["subject"] for each in receiver.events] == ["Broken"]


def test_object_of_a_replica_is_emitted_in_the_transaction_on_the_primary(
    closed: Event, ann: User, customer: Customer, replica: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[Any] = []
    monkeypatch.setattr(outbox, "_committed", committed.append)
    row = ticket(customer, ann)
    row._state.db = replica  # As a query on the replica loads it.
    with assert_event_sent(closed, times=0), transaction.atomic():
        closed.emit(row)
        transaction.set_rollback(True)
    with assert_event_sent(closed), transaction.atomic():
        closed.emit(row)
        assert committed == []
    assert committed == [("desk", "ticket.closed")]


def test_administrator_ends_a_subscription_on_the_primary(
    transactional_db: None, replica: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Subscription(id="s", created_at="2026-01-01T00:00Z", refreshed_at="2026-01-01T00:00Z")
    for alias in ("default", replica):
        row.save(using=alias, force_insert=True)
    page = SubscriptionAdmin(Subscription, admin.site)
    monkeypatch.setattr(page, "message_user", lambda *args: None)
    listed = page.get_queryset(RequestFactory().get("/"))
    assert listed.db == replica

    page.end(RequestFactory().post("/"), listed)

    statuses = [Subscription.objects.using(alias).get().status for alias in ("default", replica)]
    assert statuses == [Status.ENDED, Status.ACTIVE]


def problems() -> list[str | None]:
    found = run_checks(tags=["django_mcp"])
    return [each.id for each in found if str(each.id).startswith("django_mcp_events.")]


def test_outbox_elsewhere_is_a_warning(closed: Event, other: str, settings: Any) -> None:
    settings.DATABASE_ROUTERS = [AppRouter(other, ("helpdesk",))]
    assert "django_mcp_events.W001" in problems()
    settings.DATABASE_ROUTERS = [AppRouter(other, APPS)]
    assert problems() == []
    settings.DATABASE_ROUTERS = [ReplicaRouter(other)]
    assert problems() == []


class Scattered:
    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Occurrence else None


def test_tables_of_events_in_several_databases_are_an_error(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [Scattered()]
    assert "django_mcp_events.E001" in problems()
    assert "other" not in connections


def test_app_that_is_not_installed_is_not_checked(settings: Any) -> None:
    settings.INSTALLED_APPS = [each for each in settings.INSTALLED_APPS if each[-6:] != "events"]
    settings.DATABASE_ROUTERS = [Scattered()]
    assert problems() == []
