"""The table of calls. It never has results, and of arguments only those that a tool names.

``rows.COLUMNS`` are the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from math import ceil, log2
from typing import Any

from django.conf import settings
from django.db import models, router
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp import conf
from django_mcp.contrib import require_app
from django_mcp.models import PRINCIPAL_LENGTH

require_app(__name__)

DELETED_AT_ONCE = 1000
"""Rows that one statement deletes."""
PAUSE = 0.02
"""Seconds between two of them, which leave the database to requests."""
PRUNE_WITHIN = 2.0
"""Seconds of a round; the next one goes on."""

OUTCOMES = (
    ("ok", _("ok")),
    ("error", _("error for the model")),
    ("input_required", _("input required")),
    ("task", _("continues as a task")),
    ("challenged", _("login or scope required")),
    ("client_error", _("client error")),
    ("server_error", _("server error")),
    ("cancelled", _("cancelled")),
)
"""The words of ``core.dispatch.call_records``."""
FAILURES = frozenset({"error", "client_error", "server_error"})
"""The outcomes that are counted as errors."""
KINDS = (("tool", _("tool")), ("resource", _("resource")), ("prompt", _("prompt")))
PER_OCTAVE = 8
"""Classes from a duration to the double of it."""
SHORTEST = 1e-6
"""Seconds: the lower bound of the first class."""


class CallQuerySet(models.QuerySet["Call"]):
    def prune(self) -> int:
        """Delete rows older than CALL_LOG_RETENTION, within a time; return how many."""
        retention = conf.get().call_log_retention
        if retention is None:
            return 0
        oldest = timezone.now() - timedelta(seconds=retention)
        rows = self.using(router.db_for_write(self.model)).order_by()
        # The day is in an index. A time zone differs from another one by a day at most.
        expired = rows.filter(day__lte=oldest.date() + timedelta(days=1), called_at__lt=oldest)
        return _delete(expired)


def _delete(expired: CallQuerySet) -> int:
    deleted = 0
    until = time.monotonic() + PRUNE_WITHIN
    while keys := list(expired.values_list("pk", flat=True)[:DELETED_AT_ONCE]):
        expired.filter(pk__in=keys).delete()
        deleted += len(keys)
        if len(keys) < DELETED_AT_ONCE or time.monotonic() > until:
            break
        time.sleep(PAUSE)
    return deleted


def set_null_beside_users(collector: Any, field: Any, rows: Any, using: str) -> None:
    """Let the calls of a deleted user have none, where they are in the database of the users.

    Elsewhere, the key stays, of which pages know that it is no user.
    """
    if router.db_for_write(Call) == using:
        models.SET_NULL(collector, field, rows, using)


# As that of Django: the rows are not read.
set_null_beside_users.lazy_sub_objs = True  # type: ignore[attr-defined]


class Call(models.Model):
    """A call that is over: who called what, how it ended and how long it took."""

    id = models.BigAutoField(primary_key=True)
    called_at = models.DateTimeField(_("called"))
    # The day in TIME_ZONE: rows are counted by it.
    day = models.DateField(_("day"))
    # No constraint: a user may be deleted before the row is written, or be in another database.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        set_null_beside_users,
        null=True,
        blank=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=_("user"),
    )
    principal = models.CharField(_("principal"), max_length=PRINCIPAL_LENGTH)
    # The client of OAuth, else the name of the personal access token.
    program = models.CharField(_("program"), max_length=255, blank=True)
    token = models.CharField(_("token"), max_length=64, blank=True)
    server = models.CharField(_("server"), max_length=200)
    kind = models.CharField(_("kind"), max_length=10, choices=KINDS)
    # The name or URI as it is declared; empty for what no server declares.
    component = models.CharField(_("component"), max_length=255, blank=True)
    # The name or URI that the client sent.
    target = models.CharField(_("name or URI"), max_length=500)
    revision = models.CharField(_("protocol version"), max_length=32)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("version of the client"), max_length=50, blank=True)
    outcome = models.CharField(_("outcome"), max_length=20, choices=OUTCOMES)
    is_error = models.BooleanField(_("error"))
    duration = models.FloatField(_("duration"))
    # Its class: see ``class_of``.
    duration_class = models.PositiveSmallIntegerField(_("class of the duration"))
    # JSON of the arguments that the tool names in log_arguments. No JSON column: see McpSession.
    arguments = models.TextField(_("arguments"), blank=True)
    # Bytes of JSON; none for a call without arguments.
    arguments_size = models.PositiveIntegerField(_("size of the arguments"), null=True)
    # Bytes of JSON, as they are sent; none for a call that was cancelled.
    response_size = models.PositiveIntegerField(_("size of the response"), null=True)
    # The text that the client received, cut; empty without an error.
    error = models.TextField(_("error"), blank=True, default="")
    # An unexpected exception in a line, and what groups equal ones.
    exception = models.TextField(_("exception"), blank=True, default="")
    fingerprint = models.CharField(_("fingerprint"), max_length=12, blank=True, default="")

    # For pages, which read the names of many users at once.
    user_name: str

    objects = CallQuerySet.as_manager()

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")
        ordering = ("-id",)
        default_permissions = ("view",)
        permissions = [("view_exception", _("Can view exceptions of calls"))]
        indexes = [
            # The dashboard reads this alone, and of it only its days. Rows of one day are near each
            # other: one index is written where one for each table of the dashboard was three.
            models.Index(
                fields=[
                    *("day", "is_error", "server", "kind", "component", "user"),
                    *("duration_class", "response_size"),
                ],
                name="mcp_call_of_day",
            ),
            # A filter of the list, newest first.
            models.Index(fields=["component", "id"], name="mcp_call_of_component"),
            models.Index(fields=["user", "id"], name="mcp_call_of_user"),
            models.Index(fields=["program", "id"], name="mcp_call_of_program"),
            models.Index(fields=["outcome", "id"], name="mcp_call_with_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.server}: {self.target}"

    @property
    def user_key(self) -> str:
        """The primary key of the user, as a string; "" without one."""
        return "" if self.user_id is None else str(self.user_id)


# Classes of durations: each row has the number of its class, so that databases count them.
#
# A class is 9 % wide, so a percentile is exact to 4.5 %. Percentiles of any number of rows are then
# those of about a hundred counts, on every database.


def class_of(seconds: float) -> int:
    """The class of a duration; shorter ones than SHORTEST are in the first."""
    if seconds <= SHORTEST:
        return 0
    return int(log2(seconds / SHORTEST) * PER_OCTAVE)


def middle_of_class(number: int) -> float:
    """The duration in the middle of a class, in seconds."""
    octaves = (number + 0.5) / PER_OCTAVE
    return float(SHORTEST * 2**octaves)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that this share of calls does not exceed (nearest rank); None without calls."""
    rank = max(ceil(share * sum(counts.values())), 1)
    for number in sorted(counts):
        rank -= counts[number]
        if rank <= 0:
            return middle_of_class(number)
    return None
