"""The admin of the helpdesk as tools: a member of the staff works on a ticket."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User

from django_mcp.testing import SyncClient, accept
from example_site.helpdesk.models import Comment, Customer, Ticket


def test_ticket_is_found_changed_and_deleted(db: None) -> None:
    root = User.objects.create_superuser("root")
    acme = Customer.objects.create(name="Acme", email="acme@example.org", city="Graz")
    ticket = Ticket.objects.create(customer=acme, subject="Printer", description="Broken")
    comment = Comment.objects.create(ticket=ticket, text="first")
    with SyncClient("helpdesk-admin", user=root, elicitation=accept(sure=True)) as client:

        def read(tool: str, **arguments: Any) -> Any:
            result = client.call(f"admin_{tool}", model="helpdesk.Ticket", **arguments)
            return json.loads(result.assert_ok().text)

        (row,) = read("search", text="acme")["rows"]
        read("change", pk=row["pk"], inlines={"comments": [{"pk": comment.pk, "text": "new"}]})
        (entry,) = read("history", pk=row["pk"])["entries"]
        read("delete", pk=row["pk"])
    assert entry["message"] == "Changed Text for comment “new”."
    assert not Ticket.objects.exists()
