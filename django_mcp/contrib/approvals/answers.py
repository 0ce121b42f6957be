"""The result of a call that needs an approval: a text for the model of its caller, and its card.

The view of the tool shows the card, with a link to the page of the site. No tool decides, because a
model could call whatever a view can call.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.template.loader import render_to_string
from django.urls import NoReverseMatch

from django_mcp.contrib.approvals.models import Approval, Phase
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.tasks import WAITS, Status
from django_mcp.runtime.pages import absolute_url
from django_mcp.tasks.call_status import kept, text, unfinished
from django_mcp.tasks.store import LOST
from django_mcp.ui.base import add_fragment

STATUS_TOOL = "approval_status"
"""The tool that returns the status or the result of a call."""
UNFINISHED = (Phase.WAITING, Phase.APPROVED, Phase.RUNNING)
MESSAGES: dict[Phase, tuple[str, bool]] = {
    Phase.WAITING: (
        f"Nothing was done yet: this call of {{tool}} {WAITS}.{{page}} "
        'Tell the user. Do not call {tool} again for this: call approval_status with id="{id}" '
        "when the user asks for the result, or later.",
        False,
    ),
    Phase.APPROVED: (
        "This call of {tool} was approved, and is not carried out yet. Call approval_status with "
        'id="{id}" again.',
        False,
    ),
    Phase.RUNNING: (
        "This call of {tool} was approved, and is being carried out. Call approval_status with "
        'id="{id}" again in a while. Do not call {tool} again for this.',
        False,
    ),
    Phase.WITHDRAWN: ("This call of {tool} was cancelled. Nothing was done.", True),
    Phase.STOPPED: (
        "This call of {tool} was cancelled while it ran: it may have been carried out in part.",
        True,
    ),
    Phase.FAILED: ("This call of {tool} was approved, but it failed. {reason}", True),
}

UNKNOWN_OUTCOME = (
    "This call of {tool} was approved and started, but its outcome is unknown: it may have been "
    "carried out or not. It is not run again. Tell the user to check."
)
NO_CLIENT = (
    "This call of {tool} was approved, but the tool requests input, which is impossible after an "
    "approval that was not given in the call itself. Have the call made as a task, or approved in "
    "the client."
)


TEMPLATE = "django_mcp_approvals/card.html"
TONES = {
    Phase.WAITING: "warning",
    Phase.COMPLETED: "success",
    Phase.FAILED: "danger",
    Phase.DECLINED: "danger",
    Phase.EXPIRED: "danger",
}
"""The classes of the phases that stand out."""


def of(frame: Frame, row: Approval) -> dict[str, Any]:
    """Return the result for the caller, with a card if the view of the tool shows fragments."""
    url = page_url(frame, row.pk)
    result = describe(row, url)
    tool = frame.server.components.find(ToolComponent.kind, row.tool)
    return add_fragment(tool, result, partial(_card, row, url))


def describe(row: Approval, url: str | None) -> dict[str, Any]:
    """Return the result without a card; ``url`` is the page's."""
    outcome = row.stored_outcome()
    if "result" in outcome:
        return kept(outcome["result"])
    message, is_error = MESSAGES[row.phase]
    error = outcome.get("error") or {}
    if error == LOST:
        message = UNKNOWN_OUTCOME
    elif "requiredCapabilities" in (error.get("data") or ()):
        message = NO_CLIENT
    words = {
        "tool": row.tool,
        "id": row.pk,
        "page": f" They can decide at {url}." if url else "",
        "reason": error.get("message", ""),
    }
    message = message.format_map(words)
    if row.phase in UNFINISHED:
        return unfinished(message, STATUS_TOOL, row.pk)
    return text(message, is_error=is_error)


# The card.


def _card(row: Approval, url: str | None) -> str:
    context = {
        "approval": row,
        "arguments": readable(row),
        "is_waiting": row.status == Status.WAITING,
        "key": str(row.pk),
        "may_change": row.phase in UNFINISHED,
        "tone": TONES.get(row.phase, ""),
        "url": url,
    }
    return render_to_string(TEMPLATE, context)


def readable(row: Approval) -> list[tuple[str, str]] | None:
    """Return the arguments as pairs of text; None where they cannot be decrypted any more."""
    try:
        arguments = row.arguments
    except ValueError:
        return None
    return [(name, as_text(value)) for name, value in arguments.items()]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def page_url(frame: Frame, key: str, *, view: str = "detail") -> str | None:
    """Return the URL of the page, or None where the site has none or its host is unknown."""
    try:
        return absolute_url(frame.transport, f"django_mcp_approvals:{view}", pk=key)
    except (NoReverseMatch, ImproperlyConfigured):
        return None
