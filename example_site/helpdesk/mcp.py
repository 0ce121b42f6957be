"""Tools, resources and a prompt of the helpdesk, written as functions.

Models read the names, docstrings and descriptions in this file.
"""

from datetime import datetime
from typing import Annotated, Literal

from django.db import transaction
from django.db.models import Min, Q
from django.utils import timezone
from pydantic import BaseModel, Field

from django_mcp import Frame, ResourceNotFound, Response, prompt, resource, tool
from django_mcp.contrib.skills import skill
from example_site.helpdesk import cards, guarded, imports, input_requests, notifications, refunds
from example_site.helpdesk.backstage import server as backstage
from example_site.helpdesk.events import TicketUrgent
from example_site.helpdesk.models import Comment, Ticket
from example_site.helpdesk.numbers import Number, no_ticket
from example_site.helpdesk.rest import server as api
from example_site.helpdesk.summaries import TicketSummary
from example_site.helpdesk.toolsets import Customers

# Imported because these modules register servers, components, events and signal receivers.
__all__ = [
    "Customers",
    "TicketUrgent",
    "api",
    "backstage",
    "cards",
    "guarded",
    "imports",
    "input_requests",
    "notifications",
    "refunds",
]

REPORT_EVERY = 10  # Tickets per progress notification.


class LateAnswer(BaseModel):
    """A ticket that was answered too late."""

    number: int
    subject: str
    priority: Ticket.Priority
    hours_waited: float
    hours_promised: float


class AnswerTimes(BaseModel):
    """A report on answer times."""

    checked: int
    unanswered: int
    late: list[LateAnswer]


# Tools.


@tool(title="Search tickets", read_only=True)
def search_tickets(
    text: Annotated[str, Field(description="Words of the subject or the description")] = "",
    customer: Annotated[str, Field(description="A part of the customer's name")] = "",
    status: Ticket.Status | None = None,
    priority: Ticket.Priority | None = None,
    unassigned: Annotated[bool, Field(description="Only those which nobody works on")] = False,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
) -> list[TicketSummary]:
    """Find tickets, newest first. A ticket must match all given filters."""
    tickets = Ticket.objects.select_related("customer", "assignee")
    if text:
        tickets = tickets.filter(Q(subject__icontains=text) | Q(description__icontains=text))
    if customer:
        tickets = tickets.filter(customer__name__icontains=customer)
    if status:
        tickets = tickets.filter(status=status)
    if priority:
        tickets = tickets.filter(priority=priority)
    if unassigned:
        tickets = tickets.filter(assignee=None)
    return [TicketSummary.of(ticket) for ticket in tickets[:limit]]


@tool(title="Add a comment", destructive=False)
async def add_comment(
    number: Number,
    text: Annotated[str, Field(min_length=1, max_length=2000)],
    frame: Frame,
) -> str:
    """Add a comment to a ticket. Users who have not logged in may do so, too."""
    ticket = await Ticket.objects.filter(pk=number).afirst()
    if ticket is None:
        raise no_ticket(number)
    author = frame.user if frame.user and frame.user.is_authenticated else None
    comment = await Comment.objects.acreate(ticket=ticket, author=author, text=text)
    return f"Added to {ticket} as the comment of {comment.author_name}."


@tool(
    title="Close a ticket",
    destructive=False,
    idempotent=True,
    # The tool is hidden from users without the permission.
    permission="helpdesk.change_ticket",
)
def close_ticket(number: Number, frame: Frame) -> TicketSummary:
    """Close a ticket that needs no more help."""
    with transaction.atomic():
        ticket = Ticket.objects.select_for_update().filter(pk=number).first()
        if ticket is None:
            raise no_ticket(number)
        if ticket.status == Ticket.Status.CLOSED:
            frame.client.log("notice", f"{ticket} was closed before")
        else:
            ticket.status = Ticket.Status.CLOSED
            ticket.closed = timezone.now()
            ticket.save(update_fields=["status", "closed"])
    return TicketSummary.of(ticket)


@tool(title="Check answer times", read_only=True)
def check_answer_times(frame: Frame, priority: Ticket.Priority | None = None) -> AnswerTimes:
    """Check all tickets, and list those that were answered late."""
    tickets = Ticket.objects.annotate(first_answer=Min("comments__created")).order_by("pk")
    if priority:
        tickets = tickets.filter(priority=priority)
    total = tickets.count()
    unanswered = 0
    late: list[LateAnswer] = []
    for done, ticket in enumerate(tickets.iterator(chunk_size=REPORT_EVERY), start=1):
        # A thread cannot be interrupted, so a long loop checks for cancellation.
        frame.cancellation.raise_if_requested()
        if ticket.first_answer is None:
            unanswered += 1
        elif ticket.first_answer - ticket.created > ticket.answer_due:
            late.append(late_answer(ticket, ticket.first_answer))
            frame.client.log("warning", f"{ticket} was answered late")
        if done % REPORT_EVERY == 0 or done == total:
            frame.client.progress(done, total, f"{len(late)} late answers so far")
    return AnswerTimes(checked=total, unanswered=unanswered, late=late)


# Resources.


def ticket_numbers(typed: str) -> list[str]:
    """The ticket numbers that start with the given text."""
    found = Ticket.objects.filter(pk__startswith=typed).order_by("pk")
    return [str(number) for number in found.values_list("pk", flat=True)]


@resource(
    "ticket://{pk}",
    name="ticket",
    title="Ticket",
    mime_type="text/markdown",
    complete={"pk": ticket_numbers},
    # Subscribers are notified when a ticket is saved or deleted.
    model=Ticket,
)
def read_ticket(pk: int) -> str:
    """A ticket with its comments."""
    ticket = Ticket.objects.select_related("customer", "assignee").filter(pk=pk).first()
    if ticket is None:
        raise ResourceNotFound
    return as_markdown(ticket)


@resource("tickets://open", title="Open tickets", mime_type="application/json", model=Ticket)
def open_tickets() -> list[TicketSummary]:
    """The open tickets that need an answer, newest first."""
    found = Ticket.objects.select_related("customer", "assignee").filter(status=Ticket.Status.OPEN)
    return [TicketSummary.of(ticket) for ticket in found]


# Prompts.


@prompt(title="Summarise a ticket", complete={"number": ticket_numbers})
def summarise_ticket(number: Number, length: Literal["short", "full"] = "short") -> Response:
    """Summarize a ticket for the colleague who takes it over."""
    lengths = {"short": "in at most three sentences", "full": "with every step that was taken"}
    return (
        Response.prompt(f"Summary of ticket {number}")
        .user(f"Summarise this ticket {lengths[length]}. End with what has to be done next.")
        .user(read_ticket(number))
    )


# Skills, in the folder ``skills``.

skill("triage", prompt=True)
# Who may not refund is told nothing about it.
skill("refunds", permission="helpdesk.add_refund", prompt=True)
# For colleagues who work on the site with a coding agent.
skill("django-mcp", permission="staff_member")


# Helpers.


def late_answer(ticket: Ticket, answered: datetime) -> LateAnswer:
    """Return a row of the report on answer times."""
    return LateAnswer(
        number=ticket.pk,
        subject=ticket.subject,
        priority=Ticket.Priority(ticket.priority),
        hours_waited=round((answered - ticket.created).total_seconds() / 3600, 1),
        hours_promised=ticket.answer_due.total_seconds() / 3600,
    )


def as_markdown(ticket: Ticket) -> str:
    """Return a ticket and its comments as text."""
    comments = ticket.comments.select_related("author")
    written = [f"**{c.author_name}**, {c.created:%Y-%m-%d %H:%M}:\n{c.text}" for c in comments]
    head = (
        f"# {ticket}\n\n{ticket.customer}, {ticket.get_status_display()}, "
        f"priority {ticket.priority}, assigned to {ticket.assignee or 'nobody'}"
    )
    return "\n\n".join([head, ticket.description, *written])
