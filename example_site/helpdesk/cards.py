"""What the helpdesk shows in the conversation: the card of a ticket, and the form for a new one."""

from datetime import datetime

from django import forms
from django.db import transaction
from django.utils import timezone
from pydantic import BaseModel, Field

from django_mcp import Frame, tool
from django_mcp.ui import form_view, template_view
from example_site.helpdesk.models import Comment, Ticket
from example_site.helpdesk.numbers import Number, no_ticket

ticket_view = template_view(
    fragment="helpdesk/mcp/_ticket.html", title="Ticket", prefers_border=True
)
COMMENTS = 5  # The newest ones.


class TicketComment(BaseModel):
    """A comment on a ticket."""

    author: str
    text: str
    created: datetime
    is_ours: bool = Field(description="Whether an agent wrote it")


class TicketCard(BaseModel):
    """A ticket with its newest comments."""

    number: int
    subject: str
    description: str
    customer: str
    city: str
    status: Ticket.Status
    priority: Ticket.Priority
    assignee: str | None
    created: datetime
    comments: list[TicketComment]
    may_reply: bool
    may_close: bool


def card_of(number: int, frame: Frame) -> TicketCard:
    """Return a ticket as the caller sees it."""
    ticket = Ticket.objects.select_related("customer", "assignee").filter(pk=number).first()
    if ticket is None:
        raise no_ticket(number)
    newest = ticket.comments.select_related("author").order_by("-created", "-pk")[:COMMENTS]
    is_closed = ticket.status == Ticket.Status.CLOSED
    return TicketCard(
        number=ticket.pk,
        subject=ticket.subject,
        description=ticket.description,
        customer=ticket.customer.name,
        city=ticket.customer.city,
        status=Ticket.Status(ticket.status),
        priority=Ticket.Priority(ticket.priority),
        assignee=ticket.assignee.get_username() if ticket.assignee else None,
        created=ticket.created,
        comments=[comment_of(comment) for comment in reversed(newest)],
        may_reply=may(frame, "helpdesk.add_comment"),
        may_close=not is_closed and may(frame, "helpdesk.change_ticket"),
    )


def comment_of(comment: Comment) -> TicketComment:
    """Return a comment as the card shows it."""
    return TicketComment(
        author=comment.author_name,
        text=comment.text,
        created=comment.created,
        is_ours=comment.author is not None,
    )


def may(frame: Frame, permission: str) -> bool:
    """Return whether the caller has a permission."""
    return frame.user is not None and frame.user.has_perm(permission)


@tool(title="Show a ticket", ui=ticket_view, read_only=True)
def show_ticket(number: Number, frame: Frame) -> TicketCard:
    """Show a ticket with its newest comments to the user, who may answer it there."""
    return card_of(number, frame)


@tool(
    title="Reply to a ticket",
    ui=ticket_view,
    # Only the card calls it. It needs its permission nevertheless.
    app_only=True,
    permission="helpdesk.add_comment",
    destructive=False,
)
def reply_on_card(number: Number, text: str, frame: Frame) -> TicketCard:
    """Add a comment to a ticket from its card."""
    ticket = Ticket.objects.filter(pk=number).first()
    if ticket is None:
        raise no_ticket(number)
    Comment.objects.create(ticket=ticket, author=frame.user, text=text)
    return card_of(number, frame)


@tool(
    title="Close a ticket",
    ui=ticket_view,
    app_only=True,
    permission="helpdesk.change_ticket",
    destructive=False,
    idempotent=True,
)
def close_on_card(number: Number, frame: Frame) -> TicketCard:
    """Close a ticket from its card."""
    with transaction.atomic():
        still_open = Ticket.objects.filter(pk=number).exclude(status=Ticket.Status.CLOSED)
        still_open.update(status=Ticket.Status.CLOSED, closed=timezone.now())
    return card_of(number, frame)


class TicketForm(forms.ModelForm):  # type: ignore[type-arg]
    """Show the user a form for a new ticket, filled in with what is known."""

    class Meta:
        model = Ticket
        fields = ("customer", "subject", "description", "priority")
        widgets = {"description": forms.Textarea(attrs={"rows": 4})}


form_view(TicketForm, title="New ticket", permission="helpdesk.add_ticket", destructive=False)
