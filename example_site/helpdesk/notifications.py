"""Notifications of tickets with new comments, whoever added them.

Changes of the tickets themselves need no code: their resource names its model.
"""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

from django_mcp.registry import default
from example_site.helpdesk.models import Comment


@receiver(post_save, sender=Comment)
def comment_saved(instance: Comment, **_: Any) -> None:
    """Notify when a comment was added."""
    uri = f"ticket://{instance.ticket_id}"
    transaction.on_commit(partial(default.notify_resource_updated, uri))
