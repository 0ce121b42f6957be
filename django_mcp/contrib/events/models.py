"""The tables of events: occurrences, subscriptions, and deliveries.

An ``Occurrence`` is written in the transaction of the change (an outbox), so that it exists if and
only if the change was committed. It gets its ``position`` afterwards, from ``occurrences.after``,
under the lock of the ``Counter``: transactions may be committed in another order than they have
written, and a reader that has seen position 7 must never miss 6. Positions are the cursors of poll,
push and webhooks.

A ``Subscription`` is a webhook of a caller, at a position. It is deleted when its time is over. A
``Delivery`` is written for each occurrence that was sent, or that could not be. The module
``delivery`` has the states of both, and who moves them.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import models, router
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.contrib import require_app
from django_mcp.models import DIGEST_LENGTH, PRINCIPAL_LENGTH
from django_mcp.runtime import signing
from django_mcp.tasks.database_clock import Now

require_app(__name__)

EVENT_LENGTH = 200
"""Characters of the name of an event type."""
EVENT_ID_LENGTH = 200
TABLE = "event_subscription"
"""The name for the encryption of columns of subscriptions."""
ROTATION = timedelta(minutes=10)
"""How long deliveries are signed with the former secret as well (EV-46)."""


class Counter(models.Model):
    """The last position that was given, and that of the last occurrence that was deleted.

    Its one row is the lock for giving positions.
    """

    id = models.PositiveSmallIntegerField(primary_key=True)
    last = models.PositiveBigIntegerField(default=0)
    # Up to here, occurrences may be deleted.
    pruned = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()


class Interest(models.Model):
    """That somebody polls or streams an event type, so that its occurrences are written.

    A type that nobody is interested in writes nothing. A type that has only webhooks has a row
    whose time is over: they are the interest, and the row says since when.
    """

    # The digest of server and event.
    id = models.CharField(max_length=DIGEST_LENGTH, primary_key=True)
    server = models.CharField(max_length=200)
    event = models.CharField(max_length=EVENT_LENGTH)
    until = models.DateTimeField()
    # Before this position, nobody was interested: occurrences may not have been written.
    since = models.PositiveBigIntegerField(default=0)
    # When it became of interest; null in rows of former versions.
    began_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()


class Occurrence(models.Model):
    """Something that has happened, with the data for a description to each subscriber."""

    # In the order of writing, which differs from the order of commits.
    id = models.BigAutoField(primary_key=True)
    # Null until the transaction is committed and somebody reads.
    position = models.PositiveBigIntegerField(_("position"), null=True, unique=True)
    # The same for all subscribers and deliveries, so that receivers can recognize it.
    event_id = models.CharField(_("event id"), max_length=EVENT_ID_LENGTH, db_index=True)
    server = models.CharField(_("server"), max_length=200)
    event = models.CharField(_("event"), max_length=EVENT_LENGTH)
    # The primary key of the object as a string; empty for an event that has no model.
    object_key = models.CharField(_("object"), max_length=255, blank=True)
    # JSON: the payload, or the fields of a deleted object; empty where the object is read.
    data = models.TextField(_("data"), blank=True)
    created_at = models.DateTimeField(_("created"), db_index=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["server", "event", "position"], name="mcp_event_by_position")
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.event_id}"


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def current(self) -> SubscriptionQuerySet:
        """Return rows of the database for writing: a replica may not have the newest ones."""
        return self.using(router.db_for_write(self.model))

    def unexpired(self) -> SubscriptionQuerySet:
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()))

    def live(self) -> SubscriptionQuerySet:
        """Return those that are neither over nor ended."""
        return self.unexpired().filter(status__in=(Status.ACTIVE, Status.SUSPENDED))

    def due(self) -> SubscriptionQuerySet:
        """Return those that a deliverer may lease now, the longest waiting first."""
        unleased = Q(lease_until=None) | Q(lease_until__lte=Now())
        is_time = Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now())
        states = (Status.ACTIVE, Status.ENDING)
        rows = self.unexpired().filter(unleased, is_time, status__in=states)
        return rows.filter(verified_at__isnull=False).order_by("next_attempt_at", "created_at")


class Status(models.TextChoices):
    ACTIVE = "active", _("active")
    SUSPENDED = "suspended", _("suspended")
    ENDING = "ending", _("ending")
    ENDED = "ended", _("ended")


class LastError(models.TextChoices):
    """Why a delivery failed: a word for clients, never text of the endpoint (EV-47)."""

    CONNECTION_REFUSED = "connection_refused", _("connection refused")
    TIMEOUT = "timeout", _("timeout")
    TLS_ERROR = "tls_error", _("TLS error")
    HTTP_4XX = "http_4xx", _("HTTP status 4xx")
    HTTP_5XX = "http_5xx", _("HTTP status 5xx")
    CHALLENGE_FAILED = "challenge_failed", _("challenge failed")


class Subscription(models.Model):
    """A webhook of a caller for one event type, with arguments."""

    # Derived from server, principal, URL, event and arguments: the same after a restart. Receivers
    # read it; it proves nothing.
    id = models.CharField(_("id"), max_length=DIGEST_LENGTH, primary_key=True, editable=False)
    server = models.CharField(_("server"), max_length=200)
    event = models.CharField(_("event"), max_length=EVENT_LENGTH)
    version = models.CharField(_("protocol version"), max_length=32)
    principal = models.CharField(_("principal"), max_length=PRINCIPAL_LENGTH)
    # The primary key of the Django user as a string; no foreign key, because the user may be in
    # another database.
    user_key = models.CharField(_("user"), max_length=255, blank=True, db_index=True)
    # The digest of server and principal: for anybody else, it does not exist.
    owner = models.CharField(_("owner"), max_length=DIGEST_LENGTH, db_index=True)
    # The digest of what subscriptions are counted by: the caller at all their endpoints.
    counted_by = models.CharField(max_length=DIGEST_LENGTH, db_index=True)
    client = models.CharField(_("client"), max_length=255, blank=True)
    # Canonical JSON.
    arguments = models.TextField(_("arguments"), default="{}")
    url = models.TextField(_("URL"))
    # Encrypted: the secrets, and who has subscribed.
    secret = models.TextField()
    old_secret = models.TextField(blank=True)
    old_secret_until = models.DateTimeField(null=True)
    caller = models.TextField()
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.ACTIVE
    )
    # JSON: the error that its receiver is told at the end.
    end_error = models.TextField(blank=True)
    created_at = models.DateTimeField(_("created"))
    refreshed_at = models.DateTimeField(_("refreshed"))
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True, db_index=True)
    # When the receiver answered the challenge, or another one of this principal at this URL did.
    verified_at = models.DateTimeField(_("verified"), null=True, blank=True)
    # Up to here, all occurrences are acknowledged, abandoned, or not for the receiver.
    position = models.PositiveBigIntegerField(_("position"), default=0)
    # Of the deliverer: its lease, and the state of the receiver.
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    next_attempt_at = models.DateTimeField(_("next attempt"), null=True, blank=True)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    last_delivery_at = models.DateTimeField(_("last delivery"), null=True, blank=True)
    last_error = models.CharField(
        _("last error"), max_length=20, choices=LastError.choices, blank=True
    )
    failed_since = models.DateTimeField(_("failed since"), null=True, blank=True)

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        verbose_name = _("event subscription")
        verbose_name_plural = _("event subscriptions")
        # Clients add and change them.
        default_permissions = ("view", "delete")
        ordering = ("-created_at", "id")
        indexes = [
            models.Index(fields=["status", "next_attempt_at"], name="mcp_event_sub_due"),
            models.Index(fields=["server", "event", "status"], name="mcp_event_sub_of_event"),
        ]

    def __str__(self) -> str:
        return f"{self.event}: {self.url}"

    def set_secret(self, secret: str) -> None:
        """Sign with this secret from now on, and for a while with the former one as well."""
        former = []
        with suppress(ValueError):  # After a change of SECRET_KEY.
            former = self.secrets()[:1] if self.secret else []
        if former and former != [secret]:
            self.old_secret = signing.encrypt(TABLE, self.id, "old_secret", former[0])
            self.old_secret_until = timezone.now() + ROTATION
        self.secret = signing.encrypt(TABLE, self.id, "secret", secret)

    def secrets(self) -> list[str]:
        """Return the secrets, ``whsec_…``, to sign with; raises ValueError without a readable one.

        A former one that cannot be read is left out.
        """
        secrets = [signing.decrypt(TABLE, self.id, "secret", self.secret)]
        if self.old_secret and self.old_secret_until and self.old_secret_until > timezone.now():
            with suppress(ValueError):
                secrets.append(signing.decrypt(TABLE, self.id, "old_secret", self.old_secret))
        return secrets

    def set_caller(self, facts: dict[str, Any]) -> None:
        self.caller = signing.encrypt(TABLE, self.id, "caller", facts)

    def caller_facts(self) -> dict[str, Any]:
        """Return who has subscribed; raises ValueError for a row that was changed."""
        facts: dict[str, Any] = signing.decrypt(TABLE, self.id, "caller", self.caller)
        return facts

    @property
    def argument_values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.arguments)
        return values

    def is_live(self, now: datetime) -> bool:
        return self.status in (Status.ACTIVE, Status.SUSPENDED) and (
            self.expires_at is None or self.expires_at > now
        )

    def terminate(self, error: dict[str, Any] | None = None) -> None:
        """End it: with an error, its receiver is told once; without, nothing more is sent."""
        rows = type(self).objects.current().filter(pk=self.pk)
        self.status = Status.ENDED if error is None else Status.ENDING
        self.end_error = "" if error is None else json.dumps(error)
        rows.exclude(status=Status.ENDED).update(
            status=self.status, end_error=self.end_error, next_attempt_at=None, attempts=0
        )

    terminate.alters_data = True  # type: ignore[attr-defined]


class DeliveryStatus(models.TextChoices):
    PENDING = "pending", _("pending")
    DELIVERED = "delivered", _("delivered")
    ABANDONED = "abandoned", _("abandoned")


class Delivery(models.Model):
    """An occurrence that was sent to a receiver, or should have been."""

    id = models.BigAutoField(primary_key=True)
    subscription = models.ForeignKey(
        Subscription, models.CASCADE, related_name="deliveries", verbose_name=_("subscription")
    )
    # Null once the occurrence is deleted.
    occurrence = models.ForeignKey(
        Occurrence, models.SET_NULL, null=True, related_name="+", verbose_name=_("event")
    )
    event_id = models.CharField(_("event id"), max_length=EVENT_ID_LENGTH)
    status = models.CharField(
        _("status"),
        max_length=10,
        choices=DeliveryStatus.choices,
        default=DeliveryStatus.PENDING,
    )
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    last_error = models.CharField(
        _("last error"), max_length=20, choices=LastError.choices, blank=True
    )
    next_attempt_at = models.DateTimeField(_("next attempt"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), db_index=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        default_permissions = ("view", "change")
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=["status", "next_attempt_at"], name="mcp_event_delivery_due")
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["subscription", "occurrence"], name="mcp_event_delivery_once"
            )
        ]

    def __str__(self) -> str:
        return self.event_id
