"""The card of a call that waits: what it shows, where it leads, and that no tool decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.contrib.approvals.cards import approval_view
from django_mcp.contrib.approvals.models import Approval, Decision, Phase
from django_mcp.testing import SyncClient
from django_mcp.testing.results import ErrorResponse
from django_mcp.ui.base import FRAGMENT
from tests.contrib.approvals.till import (
    PERMISSION,
    browser_of,
    carried_out,
    decision,
    id_of,
    page_of,
    user,
)
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _tool_with_a_view(server: Server) -> None:
    @server.tool(title=f"Pay {SCRIPT}", approval=PERMISSION, ui=approval_view)
    def pay_on_card(amount: int, note: str) -> str:
        """Pay out money."""
        carried_out.append(amount)
        return f"Paid {amount}: {note}"


@spec("apps-04")
def test_card_shows_what_waits_and_leads_to_the_page(server: Server, ann: User) -> None:
    client = SyncClient(server, user=ann)

    result = client.call_tool("pay_on_card", {"amount": 5, "note": SCRIPT})
    card = result["_meta"][FRAGMENT]

    assert f'href="https://till.example{page_of(id_of(result))}"' in card
    assert "Waiting" in card
    assert "&lt;script&gt;" in card
    assert SCRIPT not in card
    assert client.list_resources()[0]["uri"].startswith("ui://approvals/call")


def test_card_of_a_site_may_run_queries(
    server: Server, ann: User, tmp_path: Path, settings: Settings
) -> None:
    folder = tmp_path / "django_mcp_approvals"
    folder.mkdir()
    (folder / "card.html").write_text("Task {{ approval.task.tool }}")
    engine = {**settings.TEMPLATES[0], "DIRS": [tmp_path]}
    settings.TEMPLATES = [engine, *settings.TEMPLATES[1:]]
    client = SyncClient(server, user=ann)
    result = client.call_tool("pay_on_card", {"amount": 5, "note": "x"})
    assert "Task pay_on_card" in result["_meta"][FRAGMENT]


def test_card_is_shown_again_after_the_decision(server: Server, ann: User, bob: User) -> None:
    client = SyncClient(server, user=ann)
    key = id_of(client.call_tool("pay_on_card", {"amount": 5, "note": SCRIPT}))
    waiting = client.call_tool("approval_status", {"id": key})["_meta"][FRAGMENT]

    browser_of(bob).post(page_of(key), decision(key, "approve"))
    done = client.call_tool("approval_status", {"id": key})

    assert 'data-mcp-tool="approval_status"' in waiting
    assert carried_out == [5]
    assert "Carried out" in done["_meta"][FRAGMENT]
    assert SCRIPT not in done["_meta"][FRAGMENT]


def test_declined_call_says_who_declined_it(server: Server, ann: User, bob: User) -> None:
    client = SyncClient(server, user=ann)
    key = id_of(client.call_tool("pay_on_card", {"amount": 5, "note": "x"}))

    browser_of(bob).post(page_of(key), decision(key, "decline", comment=SCRIPT))
    card = client.call_tool("approval_status", {"id": key})["_meta"][FRAGMENT]

    assert "Declined" in card
    assert "bob" in card
    assert SCRIPT not in card
    assert carried_out == []


@spec("apps-09")
def test_model_cannot_decide_on_its_own_approval(server: Server) -> None:
    approver = user("carol", PERMISSION)
    client = SyncClient(server, user=approver)
    arguments = {"amount": 5, "note": "x"}
    key = id_of(client.call_tool("pay_on_card", arguments))

    for choice in Decision:
        for extra in ({"decision": choice}, {"comment": "", "decision": choice}):
            assert client.call_tool("approval_status", {"id": key, **extra}).is_error
            assert client.call_tool("pay_on_card", {**arguments, **extra}).is_error
        for name in (choice, f"{choice}_call", "decide", "django_mcp_approvals:detail"):
            with pytest.raises(ErrorResponse, match="Unknown tool"):
                client.call_tool(name, {"id": key})
    again = client.call_tool("pay_on_card", arguments)

    assert id_of(again) == key
    assert Approval.objects.get(pk=key).phase == Phase.WAITING
    assert carried_out == []
