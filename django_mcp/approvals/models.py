"""The table of approvals: a call, who may decide on it, the decision, and the outcome.

Every change of the status is one UPDATE that names the status before (compare-and-set), so that of
two that happen at the same time only one has an effect, on every database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, models, router, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp import conf
from django_mcp.approvals import life_cycle
from django_mcp.approvals.life_cycle import OPEN, Event, Status
from django_mcp.frame.session import address
from django_mcp.models import StoredCall, delete_in_steps
from django_mcp.runtime import signing

TABLE = "approval"
MAX_WAITING = 50
"""Calls of one caller that wait for an approval: more than somebody decides in a day."""
MAX_COMMENT = 1000
"""Characters."""


class TooManyWaiting(Exception):
    """The caller has too many calls that wait."""


class ApprovalQuerySet(models.QuerySet["Approval"]):
    def for_lists(self) -> ApprovalQuerySet:
        """Return rows without what only the page of one call shows, which may be long."""
        return self.defer("call", "outcome", "comment")

    def current(self) -> ApprovalQuerySet:
        """Return rows of the database for writing: a replica may not have a decision yet."""
        return self.using(router.db_for_write(self.model))

    def find_or_add(self, row: Approval) -> tuple[Approval, bool]:
        """Store a new row, or return the open one for the same call of the same caller.

        Raises TooManyWaiting.
        """
        found = self._open_twin(row)
        if found is not None:
            return found, False
        waiting = self.current().filter(caller=row.caller, status=Status.WAITING)
        live = waiting.filter(expires_at__gt=timezone.now())
        if live.count() >= MAX_WAITING:
            raise TooManyWaiting
        using = router.db_for_write(self.model)
        try:
            with transaction.atomic(using=using):
                row.save(force_insert=True, using=using)
        except IntegrityError:
            # The same call came twice at the same time.
            found = self._open_twin(row)
            if found is None:
                raise
            return found, False
        return row, True

    def _open_twin(self, row: Approval) -> Approval | None:
        found = self.current().filter(open_key=row.open_key).first()
        settled = None if found is None else found.settle()
        return settled if settled is not None and settled.status in OPEN else None

    def move(self, event: Event, *conditions: Q, **changes: Any) -> int:
        """Apply ``event`` to the rows for which the life cycle allows it; return their number."""
        now = timezone.now()
        status = life_cycle.target(event)
        if status not in OPEN:
            changes["open_key"] = None
        rows = self.current().filter(*conditions, status__in=life_cycle.sources(event))
        return rows.update(status=status, updated_at=now, **changes)

    def settle(self) -> None:
        """Apply what time alone has decided: expiry, and the end of leases."""
        now = timezone.now()
        self.move(Event.EXPIRE, Q(expires_at__lte=now), ended_at=now)
        self.move(Event.LOSE, Q(lease_until__lte=now), ended_at=now)

    def prune(self) -> int:
        """Delete what is older than APPROVAL_RETENTION, and return the number of rows."""
        self.settle()
        retention = conf.get().approval_retention
        if retention is None:
            return 0
        past = timezone.now() - timedelta(seconds=retention)
        return delete_in_steps(self.exclude(status__in=OPEN).filter(updated_at__lt=past))


class Approval(StoredCall):
    """A tool call that waits for a person, or has waited."""

    STATUSES = (
        (Status.WAITING.value, _("waiting")),
        (Status.APPROVED.value, _("approved")),
        (Status.DECLINED.value, _("declined")),
        (Status.EXPIRED.value, _("expired")),
        (Status.CANCELLED.value, _("cancelled")),
        (Status.RUNNING.value, _("being carried out")),
        (Status.COMPLETED.value, _("carried out")),
        (Status.FAILED.value, _("failed")),
        (Status.LOST.value, _("outcome unknown")),
    )

    status = models.CharField(
        _("status"), max_length=20, choices=STATUSES, default=Status.WAITING.value
    )
    title = models.CharField(_("title"), max_length=500)
    permission = models.CharField(_("permission of approvers"), max_length=255, db_index=True)
    four_eyes = models.BooleanField(_("four eyes"), default=False)
    caller_name = models.CharField(_("caller"), max_length=255, blank=True)
    client = models.CharField(_("client"), max_length=255, blank=True)
    # A keyed digest of server, tool and arguments: the same for the same call.
    digest = models.CharField(_("fingerprint"), max_length=64)
    # Unique while the call is open, and null afterwards.
    open_key = models.CharField(max_length=64, unique=True, null=True)
    # Strings, as in ``user_key``: who decided stays known when the user is deleted.
    decided_by = models.CharField(_("decided by (key)"), max_length=255, blank=True)
    decided_by_name = models.CharField(_("decided by"), max_length=255, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    decided_in = models.CharField(_("decided in"), max_length=20, blank=True)
    comment = models.TextField(_("comment"), blank=True)
    # Encrypted, or empty: the result of the tool, or the message of a failure.
    outcome = models.TextField(_("outcome"), blank=True)
    is_error = models.BooleanField(_("error"), null=True)
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        # Nobody adds, changes or deletes them by hand.
        default_permissions = ("view",)
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=["status", "expires_at"], name="mcp_approval_by_status"),
            models.Index(fields=["caller", "status"], name="mcp_approval_of_caller"),
        ]

    # The call.

    def store_call(self, call: Mapping[str, Any]) -> None:
        """Store the call: its arguments, and what is needed to act as its caller.

        Whoever can write to the table can change neither: a copy of the columns that decide about
        the run is encrypted as well.
        """
        bound = {name: getattr(self, name) for name in BOUND}
        stored = {**call, "bound": bound, "expires": self.expires_at.timestamp()}
        self.call = signing.encrypt(TABLE, self.pk, "call", stored)
        arguments = call["params"].get("arguments", {})
        self.digest = fingerprint(self.server, self.tool, arguments, call["endpoint"])
        self.open_key = address(f"{self.owner} {self.digest}")

    def stored_call(self) -> dict[str, Any]:
        """Return what ``store_call`` was given; raises ValueError if the row was changed since."""
        call: dict[str, Any] = signing.decrypt(TABLE, self.pk, "call", self.call)
        arguments = call["params"].get("arguments", {})
        text = _described(self.server, self.tool, arguments, call["endpoint"])
        if not signing.is_signature(FINGERPRINT, text, self.digest):
            raise ValueError("The arguments are not those that were approved")
        if call["bound"] != {name: getattr(self, name) for name in BOUND}:
            raise ValueError("The columns of the row are not those of the call")
        if self._is_late(call["expires"] + ROUNDING):
            raise ValueError("The row expires later than the call, or was approved after that")
        return call

    def _is_late(self, expires: float) -> bool:
        """Whether the row expires, or was decided on, after the call did."""
        if self.decided_at is None:
            return self.expires_at.timestamp() > expires
        # The decision prolongs it once, for the run.
        lifetime = conf.get().approval_lifetime
        is_prolonged = self.expires_at.timestamp() > expires + lifetime
        return is_prolonged or self.decided_at.timestamp() > expires

    @property
    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = self.stored_call()["params"].get("arguments", {})
        return arguments

    @property
    def path_params(self) -> dict[str, str]:
        """What the path of the server captured, such as the tenant for which the call is."""
        captured: dict[str, str] = self.stored_call()["path_params"]
        return captured

    @property
    def short_digest(self) -> str:
        """What people compare."""
        return self.digest[:12]

    # The decision.

    def is_caller(self, user: Any) -> bool:
        return bool(self.user_key) and self.user_key == str(user.pk)

    def may_decide(self, user: Any) -> bool:
        """Whether ``user`` may approve or decline it: the permission, and four eyes."""
        if not (getattr(user, "is_active", False) and user.has_perm(self.permission)):
            return False
        return not (self.four_eyes and (self.is_caller(user) or not self.user_key))

    def decide(self, user: Any, event: Event, *, comment: str = "", where: str) -> bool:
        """Approve or decline; return False if it does not wait any more, or ``user`` may not."""
        if not self.may_decide(user):
            return False
        now = timezone.now()
        lifetime = timedelta(seconds=conf.get().approval_lifetime)
        later = {"expires_at": now + lifetime} if event is Event.APPROVE else {"ended_at": now}
        moved = Approval.objects.move(
            event,
            Q(pk=self.pk, expires_at__gt=now),
            decided_by=str(user.pk),
            decided_by_name=user.get_username(),
            decided_at=now,
            decided_in=where,
            comment=comment[:MAX_COMMENT],
            **later,
        )
        return moved == 1

    def cancel(self) -> bool:
        """Withdraw a call that was not started; False for any other."""
        own = Q(pk=self.pk)
        return Approval.objects.move(Event.CANCEL, own, ended_at=timezone.now()) == 1

    # Time, and the run.

    def still_waits(self) -> bool:
        """Whether nobody has decided yet, and it has not expired; this writes nothing."""
        waiting = Q(pk=self.pk, status=Status.WAITING, expires_at__gt=timezone.now())
        return Approval.objects.current().filter(waiting).exists()

    def note_caller(self, until: datetime) -> None:
        """Note that the call waits with its client until then, and runs itself when approved."""
        waiting = Approval.objects.current().filter(pk=self.pk, status=Status.WAITING)
        waiting.update(lease_until=until)

    @property
    def has_caller(self) -> bool:
        """Whether the call waits with its client, as far as is known."""
        return self.lease_until is not None and self.lease_until > timezone.now()

    def settle(self) -> Approval:
        """Return the row as it is now, after what time alone has decided.

        It is written only then: calls that wait read it often, and SQLite has one writer.
        """
        rows = Approval.objects.filter(pk=self.pk)
        now = timezone.now()
        is_due = Q(expires_at__lte=now) | Q(lease_until__lte=now)
        if rows.current().filter(is_due, status__in=OPEN).exists():
            rows.settle()
        return rows.current().get()

    def start(self, runner: str, lease_until: datetime) -> bool:
        """Let ``runner`` run it; False if it is not approved, or another one was first."""
        now = timezone.now()
        free = Q(pk=self.pk, expires_at__gt=now)
        lease = {"lease_by": runner, "lease_until": lease_until}
        return Approval.objects.move(Event.START, free, started_at=now, **lease) == 1

    def renew(self, runner: str, lease_until: datetime) -> bool:
        """Prolong the lease; False if somebody else has noted that it ended."""
        own = Approval.objects.current().filter(pk=self.pk, status=Status.RUNNING, lease_by=runner)
        return own.update(lease_until=lease_until) == 1

    def end(self, runner: str, event: Event, outcome: Any, *, is_error: bool) -> bool:
        """Store the outcome of the run by ``runner``."""
        return (
            Approval.objects.move(
                event,
                Q(pk=self.pk, lease_by=runner),
                outcome=signing.encrypt(TABLE, self.pk, "outcome", outcome),
                is_error=is_error,
                ended_at=timezone.now(),
                lease_until=None,
            )
            == 1
        )

    def stored_outcome(self) -> Any:
        """Return the result of a completed call, or the message of a failed one; or None."""
        return signing.decrypt(TABLE, self.pk, "outcome", self.outcome) if self.outcome else None


FINGERPRINT = "approval"
BOUND = ("user_key", "permission", "four_eyes", "owner")
"""The columns that decide as whom a call runs, and who may approve it."""
ROUNDING = 1.0
"""Seconds by which a database may round a time."""


def fingerprint(server: str, tool: str, arguments: Mapping[str, Any], endpoint: str) -> str:
    """Return a digest that only this site can compute, so that nobody can guess arguments by it.

    ``endpoint`` has what the path captured: the same call for another tenant is another call.
    """
    return signing.signature(FINGERPRINT, _described(server, tool, arguments, endpoint))


def _described(server: str, tool: str, arguments: Mapping[str, Any], endpoint: str) -> str:
    return json.dumps([server, tool, arguments, endpoint], sort_keys=True)
