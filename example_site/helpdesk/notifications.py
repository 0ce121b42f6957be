"""Notifications of changed tickets, whether a tool, the admin or a script changed them."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

from django_mcp.registry import default
from example_site.helpdesk.models import Comment, Ticket


@receiver(post_save, sender=Ticket)
def ticket_saved(instance: Ticket, **_: Any) -> None:
    """Notify when a ticket was created or edited."""
    notify_subscribers(instance.pk)


@receiver(post_save, sender=Comment)
def comment_saved(instance: Comment, **_: Any) -> None:
    """Notify when a comment was added."""
    notify_subscribers(instance.ticket_id)


def notify_subscribers(number: int) -> None:
    """Notify the subscribers of the ticket after the transaction commits."""
    transaction.on_commit(partial(default.notify_resource_updated, f"ticket://{number}"))
