"""The summary of a ticket in the output of tools."""

from datetime import datetime

from pydantic import BaseModel

from example_site.helpdesk.models import Ticket


class TicketSummary(BaseModel):
    """A ticket in a list."""

    number: int
    subject: str
    customer: str
    status: Ticket.Status
    priority: Ticket.Priority
    assignee: str | None
    created: datetime

    @classmethod
    def of(cls, ticket: Ticket) -> "TicketSummary":
        """Return the summary of a ticket."""
        return cls(
            number=ticket.pk,
            subject=ticket.subject,
            customer=ticket.customer.name,
            status=Ticket.Status(ticket.status),
            priority=Ticket.Priority(ticket.priority),
            assignee=ticket.assignee.get_username() if ticket.assignee else None,
            created=ticket.created,
        )
