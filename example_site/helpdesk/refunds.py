"""A tool that needs the approval of a second person: it refunds money."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from django_mcp import Approval, Frame, ToolError, tool
from django_mcp.contrib.approvals.cards import approval_view
from example_site.helpdesk.models import Refund, Ticket


def ticket_of(arguments: Mapping[str, Any]) -> Ticket | None:
    """The ticket that a refund is for."""
    return Ticket.objects.filter(pk=arguments["number"]).first()


@tool(
    title="Refund a customer",
    destructive=True,
    # Who may call it, and who may approve the call.
    permission="helpdesk.add_refund",
    # The approver is somebody else than the caller.
    approval=Approval("helpdesk.approve_refund", four_eyes=True, subject=ticket_of),
    # Hosts show what waits, with a link to the page on which it is decided.
    ui=approval_view,
)
def refund(
    number: Annotated[int, Field(description="The number of the ticket")],
    amount: Annotated[Decimal, Field(gt=0, max_digits=8, decimal_places=2)],
    reason: Annotated[str, Field(min_length=1, max_length=500)],
    frame: Frame,
) -> str:
    """Refund money to the customer of a ticket. A person approves it before it is done."""
    ticket = Ticket.objects.select_related("customer").filter(pk=number).first()
    if ticket is None:
        raise ToolError(f"There is no ticket {number}. Use search_tickets to find its number.")
    Refund.objects.create(ticket=ticket, amount=amount, reason=reason, requested_by=frame.user)
    return f"Refunded {amount} to {ticket.customer}."
