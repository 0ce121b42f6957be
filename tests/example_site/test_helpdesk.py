"""The tests of the helpdesk: tools, an input request, an approval and a prompt, with assertions.

They are written as the tests of any project would be, and docs/how-to/testing.md points to them.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import TestCase
from django.utils import timezone

from django_mcp.contrib.events.testing import assert_event_sent
from django_mcp.testing import SyncClient, accept, decline
from example_site.helpdesk.events import TicketUrgent
from example_site.helpdesk.models import Comment, Customer, Refund, Ticket

CATALOGUE = Path(__file__).with_name("helpdesk_catalogue.json")


class HelpdeskTests(TestCase):
    def setUp(self) -> None:
        self.bakery = Customer.objects.create(name="Bakery", email="b@example.com", city="Bern")
        self.printer = self.ticket("Printer prints blank pages")

    def ticket(self, subject: str, **values: Any) -> Ticket:
        values = {"customer": self.bakery, "description": "Nothing helps.", **values}
        return Ticket.objects.create(subject=subject, **values)

    def user(self, name: str, *codenames: str) -> User:
        user = User.objects.create_user(name)
        permissions = Permission.objects.filter(codename__in=codenames)
        user.user_permissions.set(permissions)
        return user

    def test_search_combines_all_filters(self) -> None:
        self.ticket("Printer is loud", status="closed")
        self.ticket("Oven is cold")
        with SyncClient() as client:
            result = client.call("search_tickets", text="printer", status="open").assert_ok()
        self.assertEqual([row.subject for row in result.data], ["Printer prints blank pages"])

    def test_invalid_filters_are_errors_of_their_arguments(self) -> None:
        with SyncClient() as client:
            client.call("search_tickets", status="lost").assert_field_error("status", "open")
            client.call("search_tickets", limit=0).assert_field_error("limit")

    def test_guests_comment_but_only_on_tickets_that_exist(self) -> None:
        with SyncClient() as client:
            client.call("add_comment", number=self.printer.pk, text="Seen.").assert_text("a guest")
            client.call("add_comment", number=0, text="Lost.").assert_error("search_tickets")
        self.assertEqual(Comment.objects.get().text, "Seen.")

    def test_ticket_is_closed_by_users_with_the_permission(self) -> None:
        with SyncClient() as client:
            client.assert_tool_hidden("close_ticket")
            agent = client.as_user(self.user("agent", "change_ticket"))
            agent.assert_tool_visible("close_ticket")
            agent.call("close_ticket", number=self.printer.pk).assert_structured(status="closed")
            again = agent.call("close_ticket", number=self.printer.pk)
        again.assert_ok().assert_notified("notifications/message")

    def test_priority_needs_a_scope_and_a_permission(self) -> None:
        agent = self.user("agent", "change_ticket")
        order = {"number": self.printer.pk, "priority": "urgent"}
        with SyncClient(user=agent, scopes=["helpdesk"]) as client:
            client.call("set_priority", **order).assert_challenged("helpdesk:write")
            allowed = client.as_user(agent, scopes=["helpdesk", "helpdesk:write"])
            allowed.call("set_priority", **order).assert_structured(priority="urgent")

    def test_guest_is_told_to_log_in_for_their_tickets(self) -> None:
        agent = self.user("agent")
        mine = self.ticket("Oven is cold", assignee=agent)
        with SyncClient() as client:
            client.call("my_tickets").assert_challenged()
            result = client.as_user(agent).call("my_tickets")
        self.assertEqual([row.number for row in result.data], [mine.pk])

    def test_late_answers_are_reported_with_progress(self) -> None:
        long_ago = timezone.now() - timedelta(days=30)
        late = self.ticket("Where is my cake?", created=long_ago)
        Comment.objects.create(ticket=late, text="Sorry.")
        with SyncClient() as client:
            result = client.call("check_answer_times")
        result.assert_structured(checked=2, unanswered=1).assert_progress(2)
        result.assert_notified("notifications/message")

    def test_user_chooses_the_customer_of_a_new_ticket(self) -> None:
        Customer.objects.create(name="Bakehouse", email="h@example.com", city="Basel")
        order = {"customer": "Bake", "subject": "Oven", "description": "It is cold."}
        with SyncClient(elicitation=accept(customer="Bakery")) as client:
            result = client.call("open_ticket", **order)
        result.assert_ok().assert_input_requested("Which 'Bake' do you mean?")
        self.assertEqual(Ticket.objects.get(subject="Oven").customer, self.bakery)

        with SyncClient(elicitation=decline()) as client:
            client.call("open_ticket", **order).assert_error("No ticket was opened")
        with SyncClient() as client:
            client.call("open_ticket", **order).assert_error("Bakehouse, Bakery")

    def test_refund_waits_for_another_person(self) -> None:
        with SyncClient(user=self.user("agent", "add_refund")) as client:
            result = client.call("refund", number=self.printer.pk, amount="9.50", reason="Late")
        result.assert_waits_for_approval()
        self.assertFalse(Refund.objects.exists())

    def test_urgent_ticket_is_an_event_for_those_who_may_view_it(self) -> None:
        viewer = self.user("viewer", "view_ticket")
        own = {"name": "ticket.urgent", "arguments": {"assignee": viewer.pk}}
        with SyncClient() as guest:
            client = guest.as_user(viewer)
            start = client.request("events/poll", {**own, "cursor": None})["cursor"]
            with assert_event_sent(TicketUrgent, times=2):
                self.ticket("Oven burns", priority="urgent", assignee=viewer)
                self.printer.priority = Ticket.Priority.URGENT
                self.printer.save()
            polled = client.request("events/poll", {**own, "cursor": start})
            self.assertEqual(guest.request("events/list")["events"], [])
        self.assertEqual([each["data"]["subject"] for each in polled["events"]], ["Oven burns"])

    def test_prompt_contains_the_ticket(self) -> None:
        with SyncClient() as client:
            result = client.get_prompt("summarise_ticket", {"number": str(self.printer.pk)})
        self.assertIn("three sentences", result.text)
        self.assertIn(f"#{self.printer.pk} Printer", result.text)

    def test_what_guests_are_listed_changes_only_on_purpose(self) -> None:
        with SyncClient() as client:
            client.assert_catalogue(CATALOGUE)
