"""Requesting the decision of a caller who may decide: by a form of the client, or on the page."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async

from django_mcp.approvals import answers, decisions
from django_mcp.approvals.models import MAX_COMMENT, Approval, Decision
from django_mcp.frame.client import input_requests
from django_mcp.frame.frame import Frame
from django_mcp.protocol.errors import ClientError, MissingClientCapability
from django_mcp.protocol.tasks import Status
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import changes

KEY = "approval-"
"""What the key of an input request begins with; the id of the approval follows."""
PAGE_WAIT = 30.0
"""Seconds for which a repeated call waits for the page: a client may end a call after a minute."""
MAX_SHOWN = 2000
"""Characters of the arguments in a form of the client; the page shows all of them."""

COMMENT_FORM = {
    "type": "object",
    "properties": {
        "comment": {"type": "string", "title": "Comment", "maxLength": MAX_COMMENT},
    },
}
UNANSWERED = (ClientError, TimeoutError, ConnectionError, input_requests.InvalidClientResponse)
DECISIONS = {"accept": Decision.APPROVE, "decline": Decision.DECLINE}
"""The decisions of a form; one that was cancelled decides nothing."""


async def ask(frame: Frame, row: Approval) -> None:
    """Request the decision of the caller, if they may decide: by a form, or else on the page.

    Without a response, the call goes on waiting.
    """
    if not await _may_decide(frame, row):
        return
    with suppress(MissingClientCapability):
        return await _ask_by_form(frame, row)
    with suppress(MissingClientCapability):
        await _ask_by_page(frame, row)


async def _may_decide(frame: Frame, row: Approval) -> bool:
    if row.four_eyes or not getattr(frame.user, "is_authenticated", False):
        return False
    return bool(await sync_to_async(row.may_decide)(frame.user))


async def _ask_by_form(frame: Frame, row: Approval) -> None:
    message = f"Approve this call? {row.title}\n{shown_arguments(row)}"
    try:
        response = await frame.client.aelicit(message, COMMENT_FORM, key=KEY + row.pk)
    except UNANSWERED:
        return
    decision = DECISIONS.get(response.action)
    if decision is None:
        return
    comment = str((response.content or {}).get("comment") or "")
    changed = await run_retried(_note_in_client, row, frame.user, decision, comment)
    if changed is not None:
        await changes.publish(changed)


def _note_in_client(row: Approval, user: Any, decision: Decision, comment: str) -> Any:
    return decisions.note(row, user, decision, comment=comment, where="client")


async def _ask_by_page(frame: Frame, row: Approval) -> None:
    url = answers.page_url(frame, row.pk, view="own")
    if url is None:
        return
    message = f"Decide on this call: {row.title}"
    request = input_requests.url_elicitation(message, url, elicitation_id=row.pk)
    try:
        responses = await frame.client.aask(**{KEY + row.pk: request})
    except UNANSWERED:
        return
    if not responses[KEY + row.pk].accepted:
        return
    if frame.client.is_multi_round_trip:
        await changes.wait_while({Status.HELD}, row, PAGE_WAIT)
        return
    await changes.wait_while({Status.HELD}, row, input_requests.RESPONSE_TIMEOUT)
    await frame.client.anotify("notifications/elicitation/complete", {"elicitationId": row.pk})


def shown_arguments(row: Approval) -> str:
    lines = "\n".join(f"{name}: {value}" for name, value in row.arguments.items())
    return lines if len(lines) <= MAX_SHOWN else f"{lines[:MAX_SHOWN]}…"
