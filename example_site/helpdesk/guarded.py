"""Tools that not everybody may use: one needs a login, one a scope, and one a permission.

The first two are *challenged*: everybody sees them, and whoever calls one without what it needs is
told how to log in, or for which scopes to ask. The last one is *hidden* from users without the
permission.
"""

from typing import Annotated

from pydantic import Field

from django_mcp import Frame, tool
from example_site.helpdesk.models import Ticket
from example_site.helpdesk.numbers import Number, no_ticket
from example_site.helpdesk.summaries import TicketSummary


def is_logged_in(frame: Frame) -> bool:
    """Whether the caller has an account."""
    return bool(frame.user is not None and frame.user.is_authenticated)


@tool(title="My tickets", read_only=True, permission=is_logged_in, when_denied="challenged")
def my_tickets(frame: Frame, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> list[TicketSummary]:
    """List the unfinished tickets that are assigned to the user, newest first."""
    tickets = Ticket.objects.select_related("customer", "assignee").filter(assignee=frame.user)
    unfinished = tickets.exclude(status=Ticket.Status.CLOSED)
    return [TicketSummary.of(ticket) for ticket in unfinished[:limit]]


@tool(
    title="Set the priority",
    destructive=False,
    idempotent=True,
    # The scope limits the program, and the permission its user.
    scopes=["helpdesk:write"],
    permission="helpdesk.change_ticket",
)
def set_priority(number: Number, priority: Ticket.Priority) -> TicketSummary:
    """Change how urgent a ticket is."""
    ticket = _ticket(number)
    ticket.priority = priority
    ticket.save(update_fields=["priority"])
    return TicketSummary.of(ticket)


@tool(title="Delete a ticket", permission="helpdesk.delete_ticket")
def delete_ticket(number: Number) -> str:
    """Delete a ticket with its comments, for good."""
    ticket = _ticket(number)
    ticket.delete()
    return f"Deleted #{number} {ticket.subject}."


def _ticket(number: int) -> Ticket:
    ticket = Ticket.objects.select_related("customer", "assignee").filter(pk=number).first()
    if ticket is None:
        raise no_ticket(number)
    return ticket
