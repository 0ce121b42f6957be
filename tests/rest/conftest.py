"""The site of the API: its URLs, and three users with different rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from pytest_django import Settings

from django_mcp import Server
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment, Customer, Ticket

Call = Callable[..., Any]


class Users(NamedTuple):
    staff: User
    agent: User
    other: User


@pytest.fixture(autouse=True)
def _urls(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.rest.urls"
    # Its permission classes do not read request.auth; tests of those that do, set it to None.
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "REST_AUTH": "django_mcp.rest.scopes_of_caller"}
    cache.clear()  # It has the history of the throttles.


@pytest.fixture
def server() -> Server:
    return Server("api", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])


@pytest.fixture
def call(server: Server) -> Call:
    """Call a tool; return its result."""

    def call(tool: str, /, user: Any = None, scopes: Any = (), **arguments: Any) -> Any:
        with SyncClient(server, user=user, scopes=scopes) as client:
            return client.call_tool(tool, arguments)

    return call


@pytest.fixture
def users(db: None) -> Users:
    """Users of whom one has a ticket, another has none, and staff has all."""
    return Users(
        User.objects.create(username="staff", is_staff=True),
        User.objects.create(username="agent"),
        User.objects.create(username="other"),
    )


@pytest.fixture
def tickets(users: Users) -> list[Ticket]:
    acme = Customer.objects.create(name="Acme", email="secret@acme.example", city="Rome")
    mill = Customer.objects.create(name="Mill", email="secret@mill.example", city="Bern")
    made = [
        Ticket.objects.create(
            customer=acme, subject="Printer", description="", assignee=users.agent
        ),
        Ticket.objects.create(customer=acme, subject="Scanner", description="", status="waiting"),
        Ticket.objects.create(
            customer=mill, subject="Hidden", description="", assignee=users.staff
        ),
        Ticket.objects.create(
            customer=mill, subject="Mouse", description="printer", status="closed"
        ),
    ]
    Comment.objects.create(ticket=made[0], author=users.agent, text="On my way")
    return made
