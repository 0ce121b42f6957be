"""Input requests for the decision of a caller who may decide: a form, or a link to the page.

Hosts answer requests without their users: they decline all of them where nobody is there, or accept
a form that needs no value. So a form has a field that must be filled in, and its answer counts only
after a while:

==================================== ===================================================
the client answers                   the call
==================================== ===================================================
with ``decision``, after MIN_TIME    is approved or declined
with ``decision``, sooner            goes on waiting: nobody has read the question
accept without ``decision``          is asked about again, and then goes on waiting
decline, cancel, an error, nothing   goes on waiting
==================================== ===================================================
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial

from asgiref.sync import sync_to_async

from django_mcp.contrib.approvals import answers
from django_mcp.contrib.approvals.models import (
    CLIENT,
    MAX_COMMENT,
    Approval,
    Decision,
    send_decided,
)
from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ClientError, Json, MissingClientCapability
from django_mcp.core.protocol.tasks import Status
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import changes

KEY = "approval-"
"""The beginning of the key of an input request; the id of the approval follows."""
SEPARATOR = "/"
"""The next part of the key of a form; the time of the request in milliseconds follows."""
PAGE_WAIT = 30.0
"""Seconds that a repeated call waits for the page: a client may end a call after a minute."""
MAX_SHOWN = 2000
"""Characters of the arguments in a form of the client; the page shows all of them."""

MIN_TIME = 1.0
"""Seconds that a person needs at least to read the question."""

DECISION_FORM = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": [*map(str, Decision)]},
        "comment": {"type": "string", "title": "Comment", "maxLength": MAX_COMMENT},
    },
    "required": ["decision"],
}
UNANSWERED = (ClientError, TimeoutError, ConnectionError)


async def ask(frame: Frame, row: Approval) -> None:
    """Request the decision of the caller, if they may decide: by a form, or else on the page.

    Without a response, the call goes on waiting.
    """
    if row.four_eyes or not getattr(frame.user, "is_authenticated", False):
        return
    if not await sync_to_async(row.may_decide)(frame.user):
        return
    with suppress(MissingClientCapability):
        return await _ask_by_form(frame, row)
    with suppress(MissingClientCapability):
        await _ask_by_page(frame, row)


async def _ask_by_form(frame: Frame, row: Approval) -> None:
    message = f"Approve this call? {row.title}\n{shown_arguments(row)}"
    earlier = frame.client.earlier_response(KEY + row.pk + SEPARATOR)
    if earlier is not None:
        # A repeated call without a decision is not asked about again and again.
        content = earlier[1].get("content")
        if not isinstance(content, dict) or content.get("decision") not in [*map(str, Decision)]:
            return
    key = f"{KEY}{row.pk}{SEPARATOR}{int(time.time() * 1000)}" if earlier is None else earlier[0]
    try:
        response = await frame.client.aelicit(message, DECISION_FORM, key=key)
    except UNANSWERED:
        return
    asked_at = int(key.partition(SEPARATOR)[2]) / 1000  # In this round trip, or an earlier one.
    if not response.accepted or time.time() - asked_at < MIN_TIME:
        return
    # The site is told of a decision whose client does not wait any more.
    deciding = asyncio.ensure_future(_decide(frame, row, response.content))
    await asyncio.shield(deciding)


async def _decide(frame: Frame, row: Approval, content: Json) -> None:
    comment = str(content.get("comment") or "")
    decide = partial(row.decide, comment=comment, where=CLIENT)
    changed = await run_retried(decide, frame.user, Decision(content["decision"]))
    if changed is not None:
        await changes.publish(changed)
        await frame.exchange.run_hook(send_decided, row.pk)


def id_in(key: str) -> str:
    """Return the id of the approval in the key of an input request."""
    return key.removeprefix(KEY).partition(SEPARATOR)[0]


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
        await changes.wait_while({Status.WAITING}, row, PAGE_WAIT)
        return
    await changes.wait_while({Status.WAITING}, row, input_requests.RESPONSE_TIMEOUT)
    await frame.client.anotify("notifications/elicitation/complete", {"elicitationId": row.pk})


def shown_arguments(row: Approval) -> str:
    lines = "\n".join(f"{name}: {value}" for name, value in row.arguments.items())
    return lines if len(lines) <= MAX_SHOWN else f"{lines[:MAX_SHOWN]}…"
