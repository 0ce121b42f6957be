"""The REST API of the helpdesk, and its views as tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client as Browser

from django_mcp.testing import ErrorResponse, SyncClient
from example_site.helpdesk.models import Ticket

SERVER = "helpdesk-api"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _tickets() -> None:
    call_command("demo_data", verbosity=0)


def call(user: User | None, tool: str, **arguments: Any) -> Any:
    with SyncClient(SERVER, user=user) as client:
        return client.call_tool(tool, arguments)


@pytest.mark.parametrize(
    "arguments", [{}, {"search": "printer"}, {"ordering": "created"}, {"page": 2}]
)
def test_everybody_lists_what_the_api_lists(arguments: dict[str, Any]) -> None:
    expected = Browser().get("/api/tickets/", arguments, headers={"accept": "application/json"})

    assert call(None, "ticket_list", **arguments)["structuredContent"] == expected.json()


def test_permissions_of_django_decide_who_reopens_a_ticket() -> None:
    ticket = Ticket.objects.filter(status="closed").latest("pk")
    reader, agent = User.objects.create(username="r"), User.objects.create(username="a")
    agent.user_permissions.set(Permission.objects.filter(codename="add_ticket"))

    with pytest.raises(ErrorResponse, match="Authentication required"):
        call(None, "ticket_reopen", id=ticket.pk)
    with pytest.raises(ErrorResponse, match="Unknown tool"):
        call(reader, "ticket_reopen", id=ticket.pk)
    assert call(agent, "ticket_reopen", id=ticket.pk)["structuredContent"]["status"] == "open"
    again = call(agent, "ticket_reopen", id=ticket.pk)
    assert again.text.endswith("The ticket is not closed.")
