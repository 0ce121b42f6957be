"""A server with events, and users who may have some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from pydantic import BaseModel

from django_mcp import Frame, Server
from django_mcp.contrib.events import Event, event, interest, model_changes
from django_mcp.contrib.events.methods import streaming
from example_site.helpdesk.models import Customer, Ticket
from tests.memory_stores import configure

__all__ = ["configure"]


PUBLIC = ["django_mcp.auth.anonymous.AnonymousAuthentication"]


class TicketData(BaseModel):
    number: int
    subject: str


class Note(BaseModel):
    desk: str
    text: str = ""


class OfDesk(BaseModel):
    desk: str | None = None


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask the table each time, and forget the models that a test has observed."""
    monkeypatch.setattr(interest, "FRESH", 0.0)
    monkeypatch.setattr(streaming, "READ", 0.2)
    monkeypatch.setattr(model_changes, "_observed", {})
    interest.HERE.forget()
    yield
    interest.HERE.forget()


def user(name: str, *permissions: str) -> User:
    made = User.objects.create_user(name)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return User.objects.get(pk=made.pk)  # Without the permissions that it remembers.


@pytest.fixture
def ann(transactional_db: None) -> User:
    return user("ann", "view_ticket")


@pytest.fixture
def bob(transactional_db: None) -> User:
    """May view tickets, and has none."""
    return user("bob", "view_ticket")


@pytest.fixture
def stranger(transactional_db: None) -> User:
    return user("stranger")


@pytest.fixture
def server() -> Server:
    return Server("desk", path="/desk", authenticators=PUBLIC)


@pytest.fixture
def closed(server: Server) -> Event:
    """Happens when a ticket is closed; those to whom it is assigned are told."""

    made = event("ticket.closed", model=Ticket, when=lambda ticket: ticket.status == "closed")

    @made
    class Closed:
        """A ticket was closed."""

        customer: int | None = None

        def get_queryset(self, frame: Frame) -> Any:
            return Ticket.objects.filter(assignee=frame.user)

        def payload(self, ticket: Ticket, frame: Frame) -> TicketData:
            return TicketData(number=ticket.pk, subject=ticket.subject)

    made.server = server
    made.__mcp_register__(server)
    return made


@pytest.fixture
def noted(server: Server) -> Event:
    """Happens when somebody calls ``emit``."""
    made = event("note.added", payload=Note, arguments=OfDesk, server=server)
    made.__mcp_register__(server)
    return made


@pytest.fixture
def customer(transactional_db: None) -> Customer:
    return Customer.objects.create(name="Acme", email="a@example.com", city="Bern")


def ticket(customer: Customer, assignee: Any, subject: str = "Broken", **values: Any) -> Ticket:
    return Ticket.objects.create(
        customer=customer, assignee=assignee, subject=subject, description="-", **values
    )


def close(row: Ticket) -> None:
    row.status = Ticket.Status.CLOSED
    row.save()
