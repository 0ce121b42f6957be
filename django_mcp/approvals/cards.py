"""The card of a call that waits: what the view of its tool shows of it.

It only shows, and leads to the page of the site. Whatever a view may call, a model might call as
well, so no tool decides.
"""

from __future__ import annotations

import json
from typing import Any

from django.template.loader import render_to_string

from django_mcp.approvals.models import Approval, Phase
from django_mcp.components.tool import ToolComponent
from django_mcp.components.views import FRAGMENT
from django_mcp.frame.frame import Frame
from django_mcp.protocol.tasks import Status

TEMPLATE = "django_mcp_approvals/card.html"
TONES = {
    Phase.WAITING: "warning",
    Phase.COMPLETED: "success",
    Phase.FAILED: "danger",
    Phase.DECLINED: "danger",
    Phase.EXPIRED: "danger",
}
"""The classes of the phases that stand out."""


def with_card(
    frame: Frame, row: Approval, url: str | None, result: dict[str, Any]
) -> dict[str, Any]:
    """Return the result of a call with the card, for a tool whose view shows fragments."""
    tool = frame.server.components.find(ToolComponent.kind, row.tool)
    view = tool.view if isinstance(tool, ToolComponent) else None
    meta = result.get("_meta") or {}
    if view is None or not view.has_fragment or FRAGMENT in meta:
        return result
    return {**result, "_meta": {**meta, FRAGMENT: render(row, url)}}


def render(row: Approval, url: str | None) -> str:
    context = {
        "approval": row,
        "arguments": readable(row),
        "is_waiting": row.status == Status.HELD,
        "key": str(row.pk),
        "may_change": row.phase in (Phase.WAITING, Phase.APPROVED, Phase.RUNNING),
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
