"""The table of approvals: the columns for approvers, and the decision.

An approval is a task (``McpTask``) with a second row. The row of the task has the call, the status,
the lease and the outcome; the columns here are for its approvers. People see the phase:

==========  ===========================  ============================================  ==========
phase       status of the task           who moves it there                            start
==========  ===========================  ============================================  ==========
waiting     waiting                      the call                                      none
approved    working, not started         a person (``decide``)                         none
running     working or input required,   the runner, or the call that still waits,     one
            started                      by the lease
completed   completed                    the run                                       one
failed      failed; or completed, with   the run; or time: nobody has started it, or   at most one
            a result that is an error    its lease has ended
withdrawn   cancelled, not started       the caller, who cancels the task              none
stopped     cancelled, started           the caller, who cancels the task              one
declined    declined                     a person (``decide``)                         none
expired     expired                      time, when nobody has decided                 none
==========  ===========================  ============================================  ==========

No status leads back, and a task starts once. ``tasks.store`` makes the changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from django.db import models, router, transaction
from django.utils.translation import gettext_lazy as _

from django_mcp import conf
from django_mcp.contrib import require_app
from django_mcp.contrib.approvals import signals
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import Status, TaskEnded
from django_mcp.core.protocol.texts import storable
from django_mcp.models import McpTask, delete_in_steps
from django_mcp.runtime import signing
from django_mcp.tasks import database_clock, store, submission
from django_mcp.tasks.database_clock import Now
from django_mcp.tasks.store import Changed

require_app(__name__)

MAX_COMMENT = 1000
"""Characters of the comment on a decision."""
EXTENSION = "django-mcp/approvals"
"""The name of the extension. Stored calls have it that need its grant."""
FINGERPRINT = "approval"
CLIENT = "client"
"""Where a decision was made that a form of the client has brought."""
ROUNDING = 1.0
"""Seconds that a database may round a time by."""


class Decision(StrEnum):
    """The decisions of a person; the values are the buttons' values."""

    APPROVE = "approve"
    DECLINE = "decline"


class Phase(StrEnum):
    """Where a call is, as people see it: see the table above."""

    WAITING = "waiting"
    APPROVED = "approved"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    STOPPED = "stopped"
    DECLINED = "declined"
    EXPIRED = "expired"


UNSTARTED: Mapping[str, Phase] = {
    Status.WAITING: Phase.WAITING,
    Status.WORKING: Phase.APPROVED,
    Status.CANCELLED: Phase.WITHDRAWN,
    Status.FAILED: Phase.FAILED,
    Status.DECLINED: Phase.DECLINED,
    Status.EXPIRED: Phase.EXPIRED,
}
"""The phase of a task that was not started, by its status."""
STARTED: Mapping[str, Phase] = {
    Status.WORKING: Phase.RUNNING,
    Status.INPUT_REQUIRED: Phase.RUNNING,
    Status.COMPLETED: Phase.COMPLETED,
    Status.FAILED: Phase.FAILED,
    Status.CANCELLED: Phase.STOPPED,
}
"""The phase of a task that was started, by its status."""
PHASES: Mapping[Phase, Any] = {
    Phase.WAITING: _("waiting"),
    Phase.APPROVED: _("approved"),
    Phase.RUNNING: _("being carried out"),
    Phase.COMPLETED: _("carried out"),
    Phase.FAILED: _("failed"),
    Phase.WITHDRAWN: _("cancelled"),
    Phase.STOPPED: _("cancelled while it ran"),
    Phase.DECLINED: _("declined"),
    Phase.EXPIRED: _("expired"),
}


LONG = ("inputs", "messages", "outcome", "comment")


class ApprovalQuerySet(models.QuerySet["Approval"]):
    def with_arguments(self) -> ApprovalQuerySet:
        """Return rows for lists, without the long columns that only the page of one call shows."""
        return self.defer(*LONG)

    def current(self) -> ApprovalQuerySet:
        """Return rows of the database for writing: a replica may not have a decision yet."""
        return self.using(router.db_for_write(self.model))

    def waiting(self) -> ApprovalQuerySet:
        """Return the calls that somebody can decide now: until a run has started, ``lease_until``
        is their deadline.
        """
        return self.filter(status=Status.WAITING, lease_until__gt=Now())

    def settle(self) -> None:
        """Store the end of calls that have expired, and of runs that have lost their lease."""
        overdue = self.current().filter(status__in=store.ACTIVE, lease_until__lte=Now())
        store.get().settle_here(overdue.values_list("pk", flat=True))

    def prune(self) -> int:
        """Delete rows older than APPROVAL_RETENTION, and return their number."""
        self.settle()
        retention = conf.get().approval_retention
        if retention is None:
            return 0
        ended = self.current().exclude(status__in=store.ACTIVE)
        return delete_in_steps(
            ended.filter(updated_at__lt=database_clock.after(-timedelta(0, retention)))
        )


UNREADABLE = "This call is over, but its result cannot be decrypted any more."


class Approval(McpTask):
    """A tool call that waits for a person, or has waited."""

    task = models.OneToOneField(
        McpTask, models.CASCADE, parent_link=True, primary_key=True, related_name="approval"
    )
    title = models.CharField(_("title"), max_length=500)
    permission = models.CharField(_("permission of approvers"), max_length=255, db_index=True)
    four_eyes = models.BooleanField(_("four eyes"), default=False)
    caller_name = models.CharField(_("caller"), max_length=255, blank=True)
    client = models.CharField(_("client"), max_length=255, blank=True)
    # A keyed digest of server, tool, arguments and endpoint: the same for the same call.
    digest = models.CharField(_("fingerprint"), max_length=64)
    # Strings, as in ``user_key``: who decided stays known when the user is deleted.
    decided_by = models.CharField(_("decided by (key)"), max_length=255, blank=True)
    decided_by_name = models.CharField(_("decided by"), max_length=255, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    decided_in = models.CharField(_("decided in"), max_length=20, blank=True)
    comment = models.TextField(_("comment"), blank=True)

    objects = ApprovalQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        # Nobody adds, changes or deletes them by hand.
        default_permissions = ("view",)
        ordering = ("-created_at", "-id")

    # Values to show.

    @property
    def phase(self) -> Phase:
        phase = (UNSTARTED if self.started_at is None else STARTED)[self.status]
        if phase is Phase.COMPLETED and self.status_message == tasks.RETURNED_ERROR:
            return Phase.FAILED  # As its message says, because lists do not read the result.
        return phase

    @property
    def phase_text(self) -> str:
        return str(PHASES[self.phase])

    @property
    def is_unstarted(self) -> bool:
        """Whether it was approved, and nobody has started it."""
        return self.phase is Phase.APPROVED

    @property
    def is_unknown(self) -> bool:
        """Whether it was started and its process died, so that nobody knows if the tool ran."""
        return self.phase is Phase.FAILED and self.stored_outcome().get("error") == store.LOST

    @property
    def is_error(self) -> bool:
        """Whether the run ended with an error, which its caller can read."""
        result = self.stored_outcome().get("result") or {}
        return self.phase is Phase.FAILED or bool(self.started_at and result.get("isError"))

    @property
    def error_text(self) -> str:
        """The error for its caller; empty if there is none."""
        result = self.stored_outcome().get("result") or {}
        if not (self.is_error and result):
            return ""
        texts = [item["text"] for item in result.get("content", ()) if item.get("type") == "text"]
        return "\n".join(texts)

    def stored_outcome(self) -> dict[str, Any]:
        """Return the ``result`` or the ``error`` of the call; empty before it has one.

        A text in place of a result that cannot be decrypted: SECRET_KEY was changed.
        """
        try:
            return store.outcome_of(self)
        except ValueError:
            content = [{"type": "text", "text": UNREADABLE}]
            return {"result": {"content": content, "isError": True}}

    @property
    def short_digest(self) -> str:
        """The beginning of the fingerprint, which people compare."""
        return self.digest[:12]

    # The call.

    def stored_call(self) -> dict[str, Any]:
        """Return the stored call; raises ValueError if the row was changed since.

        Whoever can write to the table can change neither the arguments nor the columns that decide
        as whom a call runs, who may approve it, and until when.
        """
        call = store.call_of(self)
        arguments = call["params"].get("arguments", {})
        described = _described(self.server, self.tool, arguments, call["endpoint"])
        if not signing.is_signature(FINGERPRINT, described, self.digest):
            raise ValueError("The arguments are not those that were approved")
        bound = call["approval"]
        if any(getattr(self, name) != value for name, value in bound.items()):
            raise ValueError("The columns of the row are not those of the call")
        if call["user_key"] != self.user_key:
            raise ValueError("The user of the row is not the one who called")
        last = self.lease_until if self.decided_at is None else self.decided_at
        if last is None or database_clock.timestamp(last) > call["deadline"] + ROUNDING:
            raise ValueError("The row expires later than the call, or was decided on after that")
        return call

    @property
    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = self.stored_call()["params"].get("arguments", {})
        return arguments

    @property
    def path_params(self) -> dict[str, str]:
        """The captured values of the server's path, such as the tenant of the call."""
        captured: dict[str, str] = self.stored_call()["path_params"]
        return captured

    # The decision.

    def is_caller(self, user: Any) -> bool:
        return bool(self.user_key) and self.user_key == str(user.pk)

    def may_decide(self, user: Any) -> bool:
        """Whether ``user`` may approve or decline it: the permission, and four eyes."""
        if not (getattr(user, "is_active", False) and user.has_perm(self.permission)):
            return False
        return not (self.four_eyes and (self.is_caller(user) or not self.user_key))

    def decide_on_page(
        self, user: Any, decision: Decision, *, comment: str = "", where: str
    ) -> bool:
        """``decide`` for a page of the site; False if ``user`` may not, or it is too late.

        An approved call is submitted when the transaction is committed; this waits for nothing.
        """
        changed = self.decide(user, decision, comment=comment, where=where)
        if changed is None:
            return False
        follow_decisions([changed])
        return True

    def decide(
        self, user: Any, decision: Decision, *, comment: str = "", where: str
    ) -> Changed | None:
        """Approve or decline; None if it does not wait any more, or ``user`` may not.

        Of several decisions the first counts: the change of the task has an effect once, and the
        decision is stored in the same transaction. Who calls this sends the signal then
        (``send_decided``), as ``follow_decisions`` does.
        """
        if not self.may_decide(user):
            return None
        comment = storable(comment[:MAX_COMMENT])
        times: dict[str, Any] = {}
        if decision is Decision.APPROVE:
            change: store.Apply = tasks.approve
            # The run may start within the same time again. Its row is deleted after that: it has
            # the time that the client has requested.
            deadline = self.lease_until
            assert deadline is not None
            lifetime = timedelta(seconds=conf.get().approval_lifetime)
            usual = timedelta(seconds=conf.get().task_ttl)
            times["lease_until"] = database_clock.after(lifetime)
            kept = max(self.expires_at - deadline, usual)
            times["expires_at"] = database_clock.after(lifetime + kept)
        else:
            # A client is a program: who has filled in its form is not known here.
            by = "Somebody in the client of its user" if where == CLIENT else "A person"
            message = f"{by} has declined this call of {self.tool}. Nothing was done."
            if comment:
                message += f" The comment was: {comment}"
            change = partial(tasks.decline, text=message)
        own_row = Approval.objects.current().filter(pk=self.pk)
        store_decision = partial(
            own_row.update,
            decided_by=str(user.pk),
            decided_by_name=user.get_username(),
            decided_at=Now(),
            decided_in=where,
            comment=comment,
        )
        try:
            return store.get().change_here(self.pk, change, times, follow=store_decision)
        except TaskEnded:
            return None


def send_decided(key: str) -> None:
    """Tell the site of a decision, on a thread where receivers may block."""
    signals.send(signals.approval_decided, Approval.objects.current().get(pk=key))


def follow_decisions(decided: Sequence[Changed]) -> None:
    """Publish decisions, and submit what was approved, when the transaction is committed."""
    for one in decided:
        send = partial(send_decided, one.after.id)
        transaction.on_commit(send, using=router.db_for_write(Approval))
    if decided:
        approved = [one.after.id for one in decided if one.after.status is Status.WORKING]
        follow = partial(submission.follow, *decided, submit=approved)
        transaction.on_commit(follow, using=router.db_for_write(Approval))


def fingerprint(server: str, tool: str, arguments: Mapping[str, Any], endpoint: str) -> str:
    """Return a digest that only this site can compute, so that nobody can guess arguments by it.

    ``endpoint`` has the path's captured values: for another tenant, it is another call.
    """
    return signing.signature(FINGERPRINT, _described(server, tool, arguments, endpoint))


def _described(server: str, tool: str, arguments: Mapping[str, Any], endpoint: str) -> str:
    return json.dumps([server, tool, arguments, endpoint], sort_keys=True)
