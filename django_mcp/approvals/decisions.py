"""Decisions of people: stored in the row, signalled to the site, and followed by the run."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from django.db import router, transaction
from django.dispatch import Signal

from django_mcp.approvals.models import Approval, Decision
from django_mcp.approvals.signals import approval_decided
from django_mcp.tasks import submission
from django_mcp.tasks.store import Changed

logger = logging.getLogger("django_mcp")


def decide(row: Approval, user: Any, decision: Decision, *, comment: str = "", where: str) -> bool:
    """Approve or decline for a page of the site; False if ``user`` may not, or it is too late.

    An approved call is submitted when the transaction is committed; this waits for nothing.
    """
    changed = note(row, user, decision, comment=comment, where=where)
    if changed is None:
        return False
    submit = partial(submission.submit_on_thread, changed)
    transaction.on_commit(submit, using=router.db_for_write(Approval))
    return True


def note(
    row: Approval, user: Any, decision: Decision, *, comment: str = "", where: str
) -> Changed | None:
    """Store a decision, and signal it to the site; None if ``user`` may not, or it is too late."""
    changed = row.decide(user, decision, comment=comment, where=where)
    if changed is not None:
        signal = partial(_send_decided, row.pk)
        transaction.on_commit(signal, using=router.db_for_write(Approval))
    return changed


def _send_decided(key: str) -> None:
    send(approval_decided, approval=Approval.objects.current().get(pk=key))


def send(signal: Signal, **facts: Any) -> None:
    """Send a signal; an error of a receiver is logged."""
    for receiver, outcome in signal.send_robust(Approval, **facts):
        if isinstance(outcome, Exception):
            logger.error("The receiver %r failed", receiver, exc_info=outcome)
