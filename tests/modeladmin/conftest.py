"""A server with the tools of an admin, and people of the staff."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User

from django_mcp import Server
from django_mcp.modeladmin import admin_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.modeladmin import backstage

if TYPE_CHECKING:
    from pytest_django import Settings

Ask = Callable[..., Any]
Staff = Callable[..., User]


@pytest.fixture(autouse=True)
def urls(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.modeladmin.urls"


@pytest.fixture
def server() -> Server:
    server = Server("backstage")
    admin_tools(backstage.site, server=server, prefix="")
    return server


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", "root@example.org", "pw")


@pytest.fixture
def staff(db: None) -> Staff:
    """Make somebody of the staff with some permissions."""

    def make(*codenames: str, name: str = "sam") -> User:
        user = User.objects.create_user(name, is_staff=True)
        for label in codenames:
            app, _, codename = label.partition(".")
            permission = Permission.objects.get(content_type__app_label=app, codename=codename)
            user.user_permissions.add(permission)
        return User.objects.get(pk=user.pk)

    return make


@pytest.fixture
def ask(server: Server) -> Ask:
    """Call a tool of the admin as a user, and return its result."""

    def call(user: Any, tool: str, **arguments: Any) -> Any:
        with SyncClient(server, user=user) as client:
            return client.call_tool(tool, arguments)

    return call


@pytest.fixture
def acme(db: None) -> Customer:
    return Customer.objects.create(name="Acme", email="acme@example.org", city="Graz")


@pytest.fixture
def hidden(db: None) -> Customer:
    """A customer that the admin shows to nobody."""
    return Customer.objects.create(name="Hidden", email="hidden@example.org", city="Vienna")


@pytest.fixture
def ticket(acme: Customer) -> Ticket:
    ticket = Ticket.objects.create(customer=acme, subject="Printer", description="It is broken.")
    Comment.objects.create(ticket=ticket, text="first")
    Comment.objects.create(ticket=ticket, text="second")
    return ticket
