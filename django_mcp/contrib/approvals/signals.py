"""Signals of approvals, for sites that notify people. The sender is the class ``Approval``.

They are sent after the change is committed, synchronously, on a thread where a receiver may block.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger("django_mcp")

approval_requested = Signal()
"""A call waits for an approval. With ``approval``, its row, and ``url`` of its page, or None."""

approval_decided = Signal()
"""A call was approved or declined. With ``approval``, its row."""


def send(signal: Signal, approval: Any, **facts: Any) -> None:
    """Send a signal of an approval; an error of a receiver is logged."""
    for receiver, outcome in signal.send_robust(type(approval), approval=approval, **facts):
        if isinstance(outcome, Exception):
            logger.error("The receiver %r failed", receiver, exc_info=outcome)
