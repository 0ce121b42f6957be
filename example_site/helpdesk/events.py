"""An event of the helpdesk: clients poll it, stream it, or subscribe to it by a webhook."""

from typing import Annotated

from pydantic import BaseModel, Field

from django_mcp import Frame
from django_mcp.contrib.events import event
from example_site.helpdesk.models import Ticket


class UrgentTicket(BaseModel):
    """What is told of a ticket. Tools have the rest."""

    number: int
    subject: str
    customer: str


def is_urgent(ticket: Ticket) -> bool:
    """Whether a ticket needs help within hours."""
    is_closed = ticket.status == Ticket.Status.CLOSED
    return ticket.priority == Ticket.Priority.URGENT and not is_closed


@event("ticket.urgent", model=Ticket, when=is_urgent)
class TicketUrgent:
    """A ticket has become urgent, or a closed one was opened again."""

    assignee: Annotated[int | None, Field(description="The id of a user, for their tickets")] = None

    def payload(self, ticket: Ticket, frame: Frame) -> UrgentTicket:
        """Return what subscribers are told. They have the permission to view tickets."""
        return UrgentTicket(number=ticket.pk, subject=ticket.subject, customer=ticket.customer.name)
