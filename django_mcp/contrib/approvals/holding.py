"""Holding a call until a person has approved it: a step before the handler.

``hold`` stores the call as a task that waits for its start, or finds the row of a repeated one, and
asks the caller if they may decide themselves. A task is answered with its description. A plain call
waits a short time for its result. Once a person has approved it, its run makes the same call again,
with a grant that lets it pass.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from inspect import isawaitable
from secrets import token_urlsafe
from typing import Any

from django_mcp import conf
from django_mcp.contrib.approvals import answers, prompts, signals
from django_mcp.contrib.approvals.models import HOLDER, Approval, fingerprint
from django_mcp.core.components.signature import is_async
from django_mcp.core.components.tool import Approval as Declared
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
from django_mcp.extensions import CallPlan
from django_mcp.models import McpTask
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import StoreFull, digest
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import calls, changes, hand_over, steps, store, submission
from django_mcp.tasks.call_status import text
from django_mcp.tasks.calls import CallerGone
from django_mcp.tasks.steps import TaskTerms
from django_mcp.tasks.store import Held, NewTask

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
        """Use the right for this call; False if it is another one, or the right was used."""
        is_same = (self.server, self.tool, self.arguments) == (server, tool, arguments)
        if self.is_used or not is_same:
            return False
        self.is_used = True
        return True


granted: ContextVar[Grant | None] = ContextVar("django_mcp.granted", default=None)
"""The right of the task that runs in this context: ``grant`` sets it in the same asyncio task that
makes the call next, so that no other call finds it."""


async def grant(row: McpTask, facts: Mapping[str, Any]) -> None:
    """Grant the run of a stored call that was approved.

    Raises ValueError unless it was approved, and is as it was then.
    """
    approval = await read(row.pk)
    approval.require_approval()
    arguments = facts["params"].get("arguments", {})
    granted.set(Grant(row.pk, row.server, row.tool, arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCall:
    """A call that somebody with ``permission`` has to approve."""

    frame: Frame
    plan: CallPlan
    arguments: Json
    validated: Any
    permission: str
    terms: TaskTerms | None
    """How the call becomes a task for its client; None for a plain call."""

    @property
    def tool(self) -> ToolComponent:
        tool: ToolComponent = self.plan.component
        return tool

    @property
    def has_four_eyes(self) -> bool:
        return declared(self.tool).four_eyes


def declared(tool: ToolComponent) -> Declared:
    """The option of a tool."""
    approval: Declared = tool.options["approval"]
    return approval


async def hold(
    frame: Frame, plan: CallPlan, arguments: dict[str, Any], validated: Any
) -> Answer | None:
    """Return the answer to a call that has to be approved, or None for one that may run now.

    Raises InternalError where the author's function fails, and AuthenticationRequired for an
    anonymous caller.
    """
    tool = plan.component
    terms = steps.terms_of(frame, tool)
    permission = await _needed_permission(frame, tool, arguments, validated)
    if permission is None:
        return None
    if frame.principal.is_anonymous:
        raise AuthenticationRequired(scopes=tool.scopes | frame.server.scopes)
    call = HeldCall(
        frame=frame,
        plan=plan,
        arguments=arguments,
        validated=validated,
        permission=permission,
        terms=terms,
    )
    refusal = refusal_of(call)
    if refusal is not None:
        return text(refusal, is_error=True), frame
    try:
        row = await _of_repeated_call(call) or await _store(call)
    except StoreFull:
        return text(TOO_MANY, is_error=True), frame
    if row.status == Status.HELD:
        await _ask(call, row)
        row = await read(row.pk)
    if terms is not None:
        return await _answer_with_task(frame, row)
    if row.is_unstarted and not frame.client.is_multi_round_trip:
        answer = await _run_with_client(call, row)
        if answer is not None:
            return answer
    # A call that is decided has a result soon, unless this very run has to produce it.
    right = granted.get()
    is_running_here = right is not None and right.task_id == row.pk
    waits = row.status != Status.HELD and not is_running_here
    return await outcome(frame, row, waits=waits), frame


async def _needed_permission(
    frame: Frame, tool: ToolComponent, arguments: dict[str, Any], validated: Any
) -> str | None:
    """The permission that an approver needs; None for a call that may run now."""
    right = granted.get()
    if right is not None and right.take(frame.server.name, tool.name, arguments):
        return None
    try:
        return await _permission(frame, declared(tool).permission, validated)
    except Exception as error:
        frame.server.report(f"The approval of the tool {tool.name!r} failed", error)
        raise InternalError from error


async def _permission(frame: Frame, approvers: Any, validated: Any) -> str | None:
    """The permission that an approver needs; raises TypeError for any other value."""
    if isinstance(approvers, str):
        return approvers
    if is_async(approvers):
        returned: Any = approvers(validated, frame)
    else:
        returned = await frame.exchange.run_hook(approvers, validated, frame)
    if isawaitable(returned):
        returned = await returned
    if returned is None or returned is False:
        return None
    if isinstance(returned, str) and "." in returned:
        return returned
    raise TypeError(f'{returned!r} is no permission: return "app_label.codename", None or False')


def refusal_of(call: HeldCall) -> str | None:
    """Return why the call cannot be held, or None."""
    has_account = getattr(call.frame.user, "is_authenticated", False)
    if call.has_four_eyes and not has_account:
        return NO_ACCOUNT
    if len(json.dumps(call.arguments)) > MAX_ARGUMENTS:
        return TOO_LARGE
    return None


# The row.


async def read(key: str) -> Approval:
    return await run_retried(_read, key)


def _read(key: str) -> Approval:
    return Approval.objects.current().get(pk=key)


async def find_own(frame: Frame, key: str) -> Approval | None:
    """Return the approval with this id, if it is of this caller and this server.

    None also where the caller may not use its tool.

    A call whose time is over is noted as such before.
    """
    rows = Approval.objects.filter(pk=key, owner__in=(calls.owner_of(frame), owner_of_call(frame)))

    def find() -> Approval | None:
        rows.settle()
        return rows.current().first()

    row = await run_retried(find)
    is_visible = row is not None and await visibility.may_see_call(frame, row.tool)
    return row if is_visible else None


def owner_of_call(frame: Frame) -> str:
    """The digest of a plain call's owner: it is not listed among the caller's tasks."""
    return digest("call", frame.server.name, frame.server.path, frame.principal.key)


async def _of_repeated_call(call: HeldCall) -> Approval | None:
    """Return the approval of the client's response, if it is for this call."""
    earlier = call.frame.client.earlier_response(prompts.KEY)
    if earlier is None:
        return None
    row = await find_own(call.frame, prompts.id_in(earlier[0]))
    if row is None or (row.tool, row.arguments) != (call.tool.name, call.arguments):
        return None
    return row


async def _store(call: HeldCall) -> Approval:
    """Store the call, unless it waits already; send the signal for a new one."""
    storing = asyncio.ensure_future(store.get().hold(*describe(call)))
    try:
        key, is_new = await asyncio.shield(storing)
    except asyncio.CancelledError:
        with suppress(StoreFull, StoreUnavailable):  # Nothing is there then.
            key, _ = await storing
            await _withdraw(call, key)
        raise
    row = await read(key)
    if is_new:
        url = answers.page_url(call.frame, key)
        send = partial(signals.send, signals.approval_requested, url=url)
        await call.frame.exchange.run_hook(send, row)
    return row


def describe(call: HeldCall) -> tuple[NewTask, Held]:
    """The row of a call that is held: the columns of a task, and columns for its approvers."""
    frame = call.frame
    lifetime = timedelta(seconds=conf.get().approval_lifetime)
    ttl_ms = None if call.terms is None else call.terms.ttl_ms
    task = calls.describe(frame, ttl_ms, is_task=call.terms is not None)
    owner = task.owner if call.terms is not None else owner_of_call(frame)
    own_digest = fingerprint(task.server, task.tool, call.arguments, task.call["endpoint"])
    four_eyes = call.has_four_eyes
    bound = {"permission": call.permission, "four_eyes": four_eyes, "owner": owner}
    task_id = token_urlsafe(16)
    columns = {
        "status_message": _message(call, task_id),
        "title": call.tool.display_title[:500],
        "permission": call.permission,
        "four_eyes": four_eyes,
        "caller_name": _caller_name(frame),
        "client": _client_name(frame),
        "digest": own_digest,
    }
    new = task._replace(
        owner=owner,
        caller=digest("approval", frame.principal.key),
        call={**task.call, "held_by": HOLDER, "approval": bound},
        # Its result can be read for a while after the last decision.
        ttl_ms=task.ttl_ms + round(lifetime.total_seconds() * 1000),
        open_key=digest(owner, own_digest),
    )
    return new, Held(task_id, Approval, columns, lifetime, MAX_WAITING)


def _message(call: HeldCall, task_id: str) -> str:
    """The status message, which clients of tasks show."""
    message = f"The call {WAITS}"
    page = answers.page_url(call.frame, task_id)
    return message if page is None else f"{message}: {page}"


def _caller_name(frame: Frame) -> str:
    is_known = getattr(frame.user, "is_authenticated", False)
    name = frame.user.get_username() if is_known else frame.principal.subject
    return str(name)[:255]


def _client_name(frame: Frame) -> str:
    client = frame.get_client_info() or {}
    return f"{client.get('name', '')} {client.get('version', '')}".strip()[:255]


# The client.


async def _ask(call: HeldCall, row: Approval) -> None:
    try:
        await prompts.ask(call.frame, row)
    except (asyncio.CancelledError, Cancelled):
        await _withdraw(call, row.pk)
        raise


async def _withdraw(call: HeldCall, key: str) -> None:
    """Withdraw a call whose client cancelled it before it learned of its task.

    A plain call stays held, because its client repeats it. Every call stays held when the process
    stops.
    """
    if call.frame.cancellation.requested and call.terms is not None:
        await submission.cancel(key)


async def _run_with_client(call: HeldCall, row: Approval) -> Answer | None:
    """Run a call that was approved in its client, which it keeps; None if others have started it.

    The caller may have lost the permission for the tool meanwhile, or the account.
    """
    try:
        facts = await run_retried(row.stored_call)
        frame = await calls.restore_caller(call.frame, row, facts)
    except (CallerGone, ValueError):
        return None  # The runner says why it cannot run.

    async def proceed(frame: Frame) -> Answer:
        granted.set(Grant(row.pk, row.server, row.tool, call.arguments, is_used=True))
        return await call.plan.run_handler(frame, call.validated)

    return await hand_over.run_here(frame, proceed, row.pk)


# The result.


async def _answer_with_task(frame: Frame, row: Approval) -> Answer:
    """Answer with the task of a call; one that was approved already is submitted."""
    if row.is_unstarted:
        await submission.submit_approved(row.pk)
    task = await store.get().load(row.pk, row.owner)
    assert task is not None
    return steps.created(frame, task), frame


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
    return answers.of(frame, row)
