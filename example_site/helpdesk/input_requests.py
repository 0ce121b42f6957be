"""A tool that sends an input request: it opens a ticket and may need to know the customer."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from django_mcp import Frame, MissingClientCapability, ToolError, tool
from example_site.helpdesk.models import Customer, Ticket
from example_site.helpdesk.summaries import TicketSummary


@tool(title="Open a ticket", destructive=False, requests_input=True)
def open_ticket(
    customer: Annotated[str, Field(description="The customer's name, or a part of it")],
    subject: Annotated[str, Field(min_length=1, max_length=200)],
    description: Annotated[str, Field(min_length=1)],
    frame: Frame,
    priority: Ticket.Priority = Ticket.Priority.NORMAL,
) -> TicketSummary:
    """Open a ticket for a customer. The user selects the customer if several match."""
    # Nothing is written before the input request: without a session, the client retries the
    # call with the response, and the handler runs again from the start.
    selected = _choose(frame, customer, list(Customer.objects.filter(name__icontains=customer)))
    ticket = Ticket.objects.create(
        customer=selected, subject=subject, description=description, priority=priority
    )
    return TicketSummary.of(ticket)


def _choose(frame: Frame, customer: str, found: Sequence[Customer]) -> Customer:
    if not found:
        raise ToolError(f"No customer's name contains {customer!r}. Try a shorter part of it.")
    if len(found) == 1:
        return found[0]
    by_name = {each.name: each for each in found}
    names = sorted(by_name)
    form = {
        "type": "object",
        "properties": {"customer": {"type": "string", "enum": names}},
        "required": ["customer"],
    }
    try:
        answer = frame.client.elicit(f"Which {customer!r} do you mean?", form, key="customer")
    except MissingClientCapability as error:
        # The client cannot ask the user, so the model has to decide.
        raise ToolError(f"Several customers fit: {', '.join(names)}. Name one.") from error
    if not answer.accepted:
        raise ToolError("No ticket was opened: the user did not say for which customer.")
    return by_name[answer.content["customer"]]
