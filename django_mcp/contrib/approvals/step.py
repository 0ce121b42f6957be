"""The step before the handler that requests an approval, and the grant that lets a run pass it.

The path of a call is described in ``django_mcp.contrib.approvals``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from inspect import isawaitable
from secrets import token_urlsafe
from typing import Any

from django_mcp import conf
from django_mcp.contrib.approvals import answers, prompts, signals
from django_mcp.contrib.approvals.models import EXTENSION, Approval, fingerprint
from django_mcp.core.components.signature import is_async
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.dispatch import visibility
from django_mcp.core.dispatch.invocation import Answer
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    Cancelled,
    InternalError,
    Json,
)
from django_mcp.core.protocol.tasks import ACTIVE, WAITS, Status
from django_mcp.core.protocol.texts import storable
from django_mcp.extensions import CallPlan
from django_mcp.models import McpTask
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import StoreFull, digest
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import calls, changes, continued_calls, steps, store, submission
from django_mcp.tasks.call_status import text
from django_mcp.tasks.calls import CallerGone
from django_mcp.tasks.steps import TaskTerms
from django_mcp.tasks.store import ApprovalRequest, NewTask

MAX_ARGUMENTS = 64_000
"""Characters of the arguments of one call, which is kept for days, and read by a person."""
MAX_WAITING = 50
"""Calls of one caller that wait for an approval: more than somebody decides in a day."""
RUN_WAIT = 30.0
"""Seconds that a call waits for the end of a run: a client may end it after a minute."""

TOO_MANY = (
    "Too many calls of yours wait for approval. Nothing was done. Ask the user to have some of "
    "them approved or declined first."
)
TOO_LARGE = (
    f"The arguments are too large: a call that waits for approval may have {MAX_ARGUMENTS} "
    "characters of them as JSON. Nothing was done."
)
NO_ACCOUNT = "This call needs a caller who has an account on this site."


@dataclass(slots=True)
class Grant:
    """The right to make one approved call, in the run of the task ``task_id``."""

    task_id: str
    server: str
    tool: str
    arguments: Json
    is_used: bool = False

    def take(self, server: str, tool: str, arguments: Json) -> bool:
        """Use the grant for this call; False if it is for another one, or was used."""
        is_same = (self.server, self.tool, self.arguments) == (server, tool, arguments)
        if self.is_used or not is_same:
            return False
        self.is_used = True
        return True


granted: ContextVar[Grant | None] = ContextVar("django_mcp.granted", default=None)
"""The grant of the task that runs in this context. ``grant`` sets it in the same asyncio task that
makes the call next, so that no other call finds it."""


async def grant(row: McpTask, call: Mapping[str, Any]) -> None:
    """Grant the run of a stored call that was approved; ``execution`` calls it before the run.

    Raises ValueError unless it was approved, and is as it was then.
    """
    approval = await read(row.pk)
    approval.stored_call()
    if approval.decided_at is None or not approval.decided_by:
        raise ValueError("Nobody has approved the call")
    granted.set(Grant(row.pk, row.server, row.tool, call["params"].get("arguments", {})))


async def request_approval(
    frame: Frame, plan: CallPlan, arguments: dict[str, Any], validated: Any
) -> Answer | None:
    """Return the answer to a call that needs an approval, or None for one that may run now.

    Raises InternalError where the author's function fails, and AuthenticationRequired for an
    anonymous caller.
    """
    tool: ToolComponent = plan.component
    terms = steps.terms_of(frame, tool)
    present = granted.get()
    if present is not None and present.take(frame.server.name, tool.name, arguments):
        return None
    try:
        permission = await _needed_permission(frame, tool, validated)
    except Exception as error:
        frame.server.report(f"The approval of the tool {tool.name!r} failed", error)
        raise InternalError from error
    if permission is None:
        return None
    if frame.principal.is_anonymous:
        raise AuthenticationRequired(scopes=tool.scopes | frame.server.scopes)
    has_account = getattr(frame.user, "is_authenticated", False)
    if tool.options["approval"].four_eyes and not has_account:
        return text(NO_ACCOUNT, is_error=True), frame
    if len(json.dumps(arguments)) > MAX_ARGUMENTS:
        return text(TOO_LARGE, is_error=True), frame
    try:
        row = await _of_repeated_call(frame, tool, arguments)
        if row is None:
            row = await _store(frame, *describe(frame, tool, arguments, permission, terms))
    except StoreFull:
        return text(TOO_MANY, is_error=True), frame
    return await _answer(frame, plan, arguments, validated, row, terms)


async def _answer(
    frame: Frame,
    plan: CallPlan,
    arguments: dict[str, Any],
    validated: Any,
    row: Approval,
    terms: TaskTerms | None,
) -> Answer:
    """Answer a stored call, after its caller was asked, who may be able to decide.

    ======================================= ================================================
    the client                              its answer
    ======================================= ================================================
    has a task                              the task, which runs once it was approved
    has asked its user, and still waits     the result: the call runs here, with its client
    repeats a call that was decided         the result, if it comes within ``RUN_WAIT``
    any other                               the status
    ======================================= ================================================
    """
    if row.status == Status.WAITING:
        try:
            await prompts.ask(frame, row)
        except (asyncio.CancelledError, Cancelled):
            await _withdraw(frame, row.pk, is_task=terms is not None)
            raise
        row = await read(row.pk)
    if terms is not None:  # The client has a task.
        if row.is_unstarted:
            await submission.submit_approved(row.pk)
        task = await store.get().load(row.pk, row.owner)
        assert task is not None
        return steps.created(frame, task), frame
    # The client has asked its user, and still waits.
    if row.is_unstarted and not frame.client.is_multi_round_trip:
        answer = await _run_with_client(frame, plan, arguments, validated, row)
        if answer is not None:
            return answer
    # The client repeats a call that was decided, or any other. A handler that makes its own call
    # again would wait for itself.
    present = granted.get()
    is_running_here = present is not None and present.task_id == row.pk
    waits = row.status != Status.WAITING and not is_running_here
    return await outcome(frame, row, waits=waits), frame


async def _needed_permission(frame: Frame, tool: ToolComponent, validated: Any) -> str | None:
    """The permission that an approver needs; None for a call that needs no approval.

    Raises TypeError for another value of the author's function.
    """
    permission: Any = tool.options["approval"].permission
    if isinstance(permission, str):
        return permission
    if is_async(permission):
        returned: Any = permission(validated, frame)
    else:
        returned = await frame.exchange.run_hook(permission, validated, frame)
    if isawaitable(returned):
        returned = await returned
    if returned is None or returned is False:
        return None
    if isinstance(returned, str) and "." in returned:
        return returned
    raise TypeError(f'{returned!r} is no permission: return "app_label.codename", None or False')


# The row.


async def read(key: str) -> Approval:
    return await run_retried(Approval.objects.current().get, pk=key)


async def find_own(frame: Frame, key: str) -> Approval | None:
    """Return the approval with this id, if it is of this caller and this server.

    None also where the caller may not use its tool. The row is settled before.
    """
    if not store.ID.fullmatch(key):
        return None
    rows = Approval.objects.filter(pk=key, owner__in=(calls.owner_of(frame), owner_of_call(frame)))

    def settle_and_find() -> Approval | None:
        rows.settle()
        return rows.current().first()

    row = await run_retried(settle_and_find)
    is_visible = row is not None and await visibility.may_see_call(frame, row.tool)
    return row if is_visible else None


def owner_of_call(frame: Frame) -> str:
    """The digest of a plain call's owner: it is not listed among the caller's tasks."""
    return digest("call", frame.server.name, frame.server.path, frame.principal.key)


async def _of_repeated_call(frame: Frame, tool: ToolComponent, arguments: Json) -> Approval | None:
    """Return the approval of the client's response, if it is for this call."""
    earlier = frame.client.earlier_response(prompts.KEY)
    if earlier is None:
        return None
    row = await find_own(frame, prompts.id_in(earlier[0]))
    if row is None or (row.tool, row.arguments) != (tool.name, arguments):
        return None
    return row


async def _store(frame: Frame, new: NewTask, request: ApprovalRequest) -> Approval:
    """Store the call, unless it waits already; send the signal for a new one."""
    storing = asyncio.ensure_future(store.get().create_waiting(new, request))
    try:
        key, is_new = await asyncio.shield(storing)
    except asyncio.CancelledError:
        with suppress(StoreFull, StoreUnavailable):  # Nothing is there then.
            key, _ = await storing
            await _withdraw(frame, key, is_task=new.call["is_task"])
        raise
    row = await read(key)
    if is_new:
        url = answers.page_url(frame, key)
        send = partial(signals.send, signals.approval_requested, url=url)
        await frame.exchange.run_hook(send, row)
    return row


def describe(
    frame: Frame, tool: ToolComponent, arguments: Json, permission: str, terms: TaskTerms | None
) -> tuple[NewTask, ApprovalRequest]:
    """The row of a call that waits: the columns of its task, and those for its approvers."""
    is_task = terms is not None
    task = calls.describe(frame, None if terms is None else terms.ttl_ms, is_task=is_task)
    owner = task.owner if is_task else owner_of_call(frame)
    own_digest = fingerprint(task.server, task.tool, arguments, task.call["endpoint"])
    lifetime = timedelta(seconds=conf.get().approval_lifetime)
    # Columns that nobody can change: ``Approval.stored_call`` compares them.
    bound = {
        "permission": permission,
        "four_eyes": tool.options["approval"].four_eyes,
        "owner": owner,
    }
    new = task._replace(
        owner=owner,
        caller=digest("approval", frame.principal.key),
        call={**task.call, "granted_by": EXTENSION, "approval": bound},
        # Its result can be read for a while after the last decision.
        ttl_ms=task.ttl_ms + round(lifetime.total_seconds() * 1000),
        open_key=digest(owner, own_digest),
    )
    task_id = token_urlsafe(16)
    page = answers.page_url(frame, task_id)
    has_account = getattr(frame.user, "is_authenticated", False)
    caller_name = frame.user.get_username() if has_account else frame.principal.subject
    client = frame.get_client_info() or {}
    client_name = f"{client.get('name', '')} {client.get('version', '')}"
    columns = {
        "status_message": f"The call {WAITS}" + ("" if page is None else f": {page}"),
        "title": tool.display_title[:500],
        "permission": permission,
        "four_eyes": bound["four_eyes"],
        "caller_name": storable(str(caller_name)[:255]),
        "client": storable(client_name.strip()[:255]),
        "digest": own_digest,
    }
    return new, ApprovalRequest(task_id, Approval, columns, lifetime, MAX_WAITING)


async def _withdraw(frame: Frame, key: str, *, is_task: bool) -> None:
    """Withdraw a call that its client cancelled before it learned of its task.

    A plain call goes on waiting, because its client repeats it. Every call goes on waiting when
    the process stops.
    """
    if is_task and frame.cancellation.requested:
        await submission.cancel(key)


# The run, and the result.


async def _run_with_client(
    frame: Frame, plan: CallPlan, arguments: Json, validated: Any, row: Approval
) -> Answer | None:
    """Run a call that was approved in its client, which it keeps; None if others have started it.

    The caller may have lost the permission for the tool meanwhile, or the account.
    """
    try:
        call = await run_retried(row.stored_call)
        principal = await calls.caller_of(row.user_key, call)
    except (CallerGone, ValueError):
        return None  # The runner says why it cannot run.

    async def proceed(frame: Frame) -> Answer:
        granted.set(Grant(row.pk, row.server, row.tool, arguments, is_used=True))
        return await plan.run_handler(frame, validated)

    frame = replace(frame, user=principal.user, auth=principal)
    return await continued_calls.run_here(frame, proceed, row.pk)


async def outcome(frame: Frame, row: Approval, *, waits: bool = False) -> dict[str, Any]:
    """Return the result of a call that was approved, or one that describes its status.

    A call that was approved and not started is submitted again, and waited for: the process of the
    decision may have died. A task that is submitted twice runs once.
    """
    if row.is_unstarted:
        await submission.submit_approved(row.pk)
        waits = True
    if waits:
        await changes.wait_while(ACTIVE, row, RUN_WAIT)
        row = await find_own(frame, row.pk) or row
    # A site's own template of the card may run queries.
    return await frame.exchange.run_hook(answers.of, frame, row)
