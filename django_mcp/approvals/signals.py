"""Signals of approvals, for sites that notify people. The sender is the class ``Approval``.

They are sent after the change is committed, synchronously, on a thread where a receiver may block.
"""

from __future__ import annotations

from django.dispatch import Signal

approval_requested = Signal()
"""A call waits for an approval. With ``approval``, its row, and ``url`` of its page, or None."""

approval_decided = Signal()
"""A call was approved or declined. With ``approval``, its row."""
