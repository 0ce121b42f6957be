"""Tells clients that a ticket has changed, whoever changed it: a tool, the admin, a script."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

from django_mcp.registry import default
from example_site.helpdesk.models import Comment, Ticket


@receiver(post_save, sender=Ticket)
def ticket_saved(instance: Ticket, **_: Any) -> None:
    """A ticket was opened, assigned, closed or otherwise edited."""
    announce(instance.pk)


@receiver(post_save, sender=Comment)
def comment_saved(instance: Comment, **_: Any) -> None:
    """Something was said about a ticket."""
    announce(instance.ticket_id)


def announce(number: int) -> None:
    """Tell those who subscribed to the ticket, once it can be read as it is now."""
    transaction.on_commit(partial(default.notify_resource_updated, f"ticket://{number}"))
