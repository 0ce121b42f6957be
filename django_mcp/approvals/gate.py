"""What dispatch does with a call that needs an approval: storing it, requesting it, and the result.

If the client supports input requests, and the caller may decide, its response decides at once.
Otherwise the call waits for a decision on the page or in the admin.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from datetime import timedelta
from math import inf
from secrets import token_urlsafe
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, transaction
from django.urls import NoReverseMatch
from django.utils import timezone

from django_mcp import conf
from django_mcp.approvals import runner
from django_mcp.approvals.life_cycle import Event, Status
from django_mcp.approvals.models import MAX_COMMENT, Approval, TooManyWaiting
from django_mcp.approvals.signals import approval_decided, approval_requested
from django_mcp.components.tool import ToolComponent
from django_mcp.frame.client import input_requests
from django_mcp.frame.client.task import TaskClient
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import address
from django_mcp.log import log_repeated
from django_mcp.protocol.errors import Cancelled, ClientError, Json, MissingClientCapability
from django_mcp.runtime.pages import absolute_url
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import calls

logger = logging.getLogger("django_mcp")

KEY = "approval-"
"""What the key of an input request begins with; the id of the approval follows."""
POLL_INTERVAL = 0.5
"""Seconds between two looks for the decision of a user who visits the page."""
WAIT_LEASE = 30.0
"""Seconds for which a call that waits is known to run itself when it is approved."""
START_TIMEOUT = 3.0
"""Seconds in which it has to start then; otherwise the process of the decision runs it."""
MAX_WAIT = 30.0
"""Seconds for which a repeated call waits for it: a client may end a call after a minute."""
MAX_SHOWN = 2000
"""Characters of the arguments in a form of the client; the page shows all of them."""

COMMENT_FORM = {
    "type": "object",
    "properties": {
        "comment": {"type": "string", "title": "Comment", "maxLength": MAX_COMMENT},
    },
}


class StoredApprovals:
    """The ``Approvals`` of dispatch, in the database."""

    def is_approved(self, frame: Frame, tool: ToolComponent, arguments: dict[str, Any]) -> bool:
        approved = runner.current_run.get()
        if approved is None:
            return False
        endpoint = frame.principal.endpoint
        return approved.take(frame.server.name, tool.name, arguments, endpoint)

    async def hold(
        self, frame: Frame, tool: ToolComponent, arguments: dict[str, Any], permission: str
    ) -> dict[str, Any]:
        if tool.four_eyes and not getattr(frame.user, "is_authenticated", False):
            return text("This call needs a caller who has an account on this site.", is_error=True)
        if len(json.dumps(arguments)) > MAX_ARGUMENTS:
            return text(TOO_LARGE, is_error=True)
        row = await _of_repeated_call(frame, tool, arguments)
        if row is None:
            storing = asyncio.ensure_future(_store(frame, _row(frame, tool, arguments, permission)))
            try:
                row = await asyncio.shield(storing)
            except TooManyWaiting:
                return text(TOO_MANY, is_error=True)
            except asyncio.CancelledError:
                with suppress(TooManyWaiting, StoreUnavailable):  # Nothing is there then.
                    await _withdraw(frame, await storing)
                raise
        try:
            if row.status == Status.WAITING and await _may_decide(frame, row):
                await _ask(frame, row)
        except (asyncio.CancelledError, Cancelled):
            await _withdraw(frame, row)
            raise
        if isinstance(frame.client, TaskClient):
            return await _wait_in_task(frame, frame.client, row)
        return await look(frame, row, keeps_client=_keeps_client(frame))


TOO_MANY = (
    "Too many calls of yours wait for approval. Nothing was done. Ask the user to have some of "
    "them approved or declined first."
)


MAX_ARGUMENTS = 64_000
"""Characters of the arguments of one call, which is kept for days, and read by a person."""
TOO_LARGE = (
    f"The arguments are too large: a call that waits for approval may have {MAX_ARGUMENTS} "
    "characters of them as JSON. Nothing was done."
)


def _row(frame: Frame, tool: ToolComponent, arguments: Json, permission: str) -> Approval:
    principal, user, now = frame.principal, frame.user, timezone.now()
    is_known = getattr(user, "is_authenticated", False)
    client = frame.get_client_info() or {}
    row = Approval(
        id=token_urlsafe(16),
        server=frame.server.name,
        tool=tool.name,
        title=tool.display_title[:500],
        version=frame.get_protocol_version() or "",
        principal=principal.key[:500],
        user_key=calls.user_key(user),
        caller_name=(user.get_username() if is_known else principal.subject)[:255],
        client=f"{client.get('name', '')} {client.get('version', '')}".strip()[:255],
        owner=owner_of(frame),
        caller=address(principal.key),
        permission=permission,
        four_eyes=tool.four_eyes,
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(seconds=conf.get().approval_lifetime),
    )
    row.store_call(calls.facts_of(frame))
    return row


async def _store(frame: Frame, new: Approval) -> Approval:
    """Store the call, unless it waits already; let the site know of a new one."""
    row, is_new = await run_retried(Approval.objects.find_or_add, new)
    if is_new:
        await frame.exchange.run_hook(_send, approval_requested, row, page_url(frame, row))
    return row


def owner_of(frame: Frame) -> str:
    """Return what an approval is bound to: for others, it does not exist."""
    return address(f"{frame.server.name} {frame.principal.key}")


async def find_own(frame: Frame, key: str) -> Approval | None:
    """Return the approval with this id, if it is of this caller and this server."""
    rows = Approval.objects.filter(pk=key, owner=owner_of(frame))
    return await run_retried(lambda: rows.current().first())


async def _of_repeated_call(frame: Frame, tool: ToolComponent, arguments: Json) -> Approval | None:
    """Return the approval for which the client brings a response, if it is for this call."""
    earlier = frame.client.earlier_response(KEY)
    row = None if earlier is None else await find_own(frame, earlier[0].removeprefix(KEY))
    if row is None or (row.tool, row.arguments) != (tool.name, arguments):
        return None
    return row


# The client.


async def _may_decide(frame: Frame, row: Approval) -> bool:
    if row.four_eyes or not getattr(frame.user, "is_authenticated", False):
        return False
    return bool(await sync_to_async(row.may_decide)(frame.user))


async def _ask(frame: Frame, row: Approval) -> None:
    """Request the decision of the caller: by a form, or else on the page.

    Without a response, the call goes on waiting.
    """
    with suppress(MissingClientCapability):
        return await _ask_by_form(frame, row)
    with suppress(MissingClientCapability):
        await _ask_by_page(frame, row)


async def _ask_by_form(frame: Frame, row: Approval) -> None:
    message = f"Approve this call? {row.title}\n{shown_arguments(row)}"
    try:
        answer = await frame.client.aelicit(message, COMMENT_FORM, key=KEY + row.pk)
    except UNANSWERED:
        return
    event = DECISIONS.get(answer.action)
    if event is not None:
        comment = str((answer.content or {}).get("comment") or "")
        await run_retried(_decide_in_client, row, frame.user, event, comment)


UNANSWERED = (ClientError, TimeoutError, ConnectionError, input_requests.InvalidClientResponse)
DECISIONS = {"accept": Event.APPROVE, "decline": Event.DECLINE}
"""The events of a form; one that was cancelled decides nothing."""


def _decide_in_client(row: Approval, user: Any, event: Event, comment: str) -> None:
    if row.decide(user, event, comment=comment, where="client"):
        _send(approval_decided, row.settle())


async def _ask_by_page(frame: Frame, row: Approval) -> None:
    url = page_url(frame, row, view="own")
    if url is None:
        return
    message = f"Decide on this call: {row.title}"
    request = input_requests.url_elicitation(message, url, elicitation_id=row.pk)
    try:
        found = await frame.client.aask(**{KEY + row.pk: request})
    except UNANSWERED:
        return
    if found[KEY + row.pk].accepted:
        keeps_client = _keeps_client(frame)
        allowed = conf.get().client_response_timeout if keeps_client else MAX_WAIT
        await _wait_for_decision(frame, row, allowed)
        if keeps_client:
            params = {"elicitationId": row.pk}
            await frame.client.anotify("notifications/elicitation/complete", params)


def _keeps_client(frame: Frame) -> bool:
    """Whether the call may run with its client: not if an input request would run it again."""
    return not frame.client.is_multi_round_trip


async def _wait_for_decision(frame: Frame, row: Approval, allowed: float) -> None:
    """Wait for a decision; let the site know if the call then runs here, with its client."""
    renewal = time.monotonic() if _keeps_client(frame) else inf
    until = time.monotonic() + allowed
    while time.monotonic() < until:
        try:
            if time.monotonic() >= renewal:
                lease_end = timezone.now() + timedelta(seconds=WAIT_LEASE)
                await run_retried(row.note_caller, lease_end)
                renewal = time.monotonic() + WAIT_LEASE / 3
            if not await run_retried(row.still_waits):
                return
        except (OperationalError, StoreUnavailable):
            text = "An approval cannot be read; trying again"
            log_repeated(logging.ERROR, text, exc_info=True)
        await asyncio.sleep(POLL_INTERVAL)
        frame.cancellation.raise_if_requested()


async def _wait_in_task(frame: Frame, client: TaskClient, row: Approval) -> dict[str, Any]:
    """Wait until the call of a task was decided on, and run; cancelling the task withdraws it."""
    page = page_url(frame, row)
    where = f": {page}" if page else ""
    try:
        await client.aprogress(0, None, f"Waits for the approval of a person{where}")
        await _wait_for_decision(frame, row, inf)
    except (asyncio.CancelledError, Cancelled):
        await _withdraw(frame, row)
        raise
    client.set_status("A person has decided")
    await look(frame, row, keeps_client=True)
    while (now := await run_retried(row.settle)).status == Status.RUNNING:
        await asyncio.sleep(POLL_INTERVAL)  # Somebody has started it on the page.
        frame.cancellation.raise_if_requested()
    return describe(now, page)


async def _withdraw(frame: Frame, row: Approval) -> None:
    """Withdraw the call of a cancelled task, at whatever step the cancellation found it.

    A process that stops cancels its tasks as well: such a call goes on waiting, and so does one
    without a task, which its client repeats.
    """
    if frame.cancellation.requested and isinstance(frame.client, TaskClient):
        await run_retried(row.cancel)


def shown_arguments(row: Approval) -> str:
    lines = "\n".join(f"{name}: {value}" for name, value in row.arguments.items())
    return lines if len(lines) <= MAX_SHOWN else f"{lines[:MAX_SHOWN]}…"


# The result.


async def look(frame: Frame, row: Approval, *, keeps_client: bool = False) -> dict[str, Any]:
    """Return the result of a call that was approved, or one that describes its status.

    A call that was approved and that nobody runs yet is run now.
    """
    row = await run_retried(row.settle)
    if row.status == Status.APPROVED:
        await runner.run(row, frame if keeps_client else None)
        row = await run_retried(row.settle)
    return describe(row, page_url(frame, row))


def describe(row: Approval, url: str | None) -> dict[str, Any]:
    """Return the result for the caller of this approval."""
    if row.status == Status.COMPLETED:
        result: dict[str, Any] = row.stored_outcome()
        return result
    message, is_error = MESSAGES[Status(row.status)]
    page = f" They can decide at {url}." if url else ""
    comment = f" The comment was: {row.comment}" if row.comment else ""
    reason = row.stored_outcome() if row.status == Status.FAILED else ""
    words = {"tool": row.tool, "id": row.pk, "page": page, "comment": comment, "reason": reason}
    return text(message.format_map(words), is_error=is_error)


MESSAGES: dict[Status, tuple[str, bool]] = {
    Status.WAITING: (
        "Nothing was done yet: this call of {tool} waits until a person has approved it.{page} "
        'Tell the user. Do not call {tool} again for this: call approval_status with id="{id}" '
        "when the user asks for the result, or later.",
        False,
    ),
    Status.APPROVED: (
        "This call of {tool} was approved, and is not carried out yet. Call approval_status with "
        'id="{id}" again.',
        False,
    ),
    Status.RUNNING: (
        "This call of {tool} was approved, and is being carried out. Call approval_status with "
        'id="{id}" again in a while. Do not call {tool} again for this.',
        False,
    ),
    Status.DECLINED: (
        "A person has declined this call of {tool}. Nothing was done.{comment}",
        True,
    ),
    Status.EXPIRED: (
        "Nobody has approved this call of {tool} in time. Nothing was done. Ask the user whether "
        "to call it again.",
        True,
    ),
    Status.CANCELLED: ("This call of {tool} was cancelled. Nothing was done.", True),
    Status.FAILED: ("This call of {tool} was approved, but it failed. {reason}", True),
    Status.LOST: (
        "This call of {tool} was approved and started, but its outcome is unknown: it may have "
        "been carried out or not. It is not run again. Tell the user to check.",
        True,
    ),
}


def text(message: str, *, is_error: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": message}]}
    return {**result, "isError": True} if is_error else result


def page_url(frame: Frame, row: Approval, *, view: str = "detail") -> str | None:
    """Return the URL of the page, or None where the site has none or its host is unknown."""
    try:
        return absolute_url(frame.transport, f"django_mcp_approvals:{view}", pk=row.pk)
    except (NoReverseMatch, ImproperlyConfigured):
        return None


# Deciding on the site.


def decide(row: Approval, user: Any, event: Event, *, comment: str = "", where: str) -> bool:
    """Approve or decline for a page of the site; False if ``user`` may not, or it is too late.

    An approved call is run when the transaction is committed.
    """
    if not row.decide(user, event, comment=comment, where=where):
        return False
    transaction.on_commit(lambda: _after_decision(row.settle()), using=row._state.db)
    return True


def _after_decision(row: Approval) -> None:
    _send(approval_decided, row)
    until = time.monotonic() + START_TIMEOUT
    while row.status == Status.APPROVED and row.has_caller and time.monotonic() < until:
        time.sleep(min(POLL_INTERVAL, 0.1))
        row.refresh_from_db(fields=["status"])
    if row.status == Status.APPROVED:
        runner.run_in_thread(row)


def _send(signal: Any, row: Approval, url: str | None = None) -> None:
    given = {"url": url} if signal is approval_requested else {}
    for receiver, outcome in signal.send_robust(Approval, approval=row, **given):
        if isinstance(outcome, Exception):
            logger.error("The receiver %r failed", receiver, exc_info=outcome)
