"""What users allowed to clients, what clients registered, and what they redeemed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import models, router, transaction
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
)
from oauth2_provider.settings import oauth2_settings

from django_mcp.stores import retries


def current(model: Any) -> models.QuerySet[Any]:
    """Return the rows in the database for writing: a replica may not have a revocation yet.

    Rows of the toolkit that were just written are read back as well, in the same transaction.
    """
    rows: models.QuerySet[Any] = model._default_manager.using(router.db_for_write(model))
    return rows


class ConsentManager(models.Manager["Consent"]):
    def get_queryset(self) -> models.QuerySet[Consent]:
        return super().get_queryset().using(self._db or router.db_for_write(self.model))

    def add(self, user: Any, application: Any, resource: str, scopes: Iterable[str]) -> None:
        """Remember what a user allowed, in addition to what they allowed this client before.

        Several pages of one user may do it at once. The row is there before it is locked: a lock of
        a row that is missing would be one of a gap on MariaDB, within which nobody can insert.
        """
        key = {"user": user, "application": application, "resource": resource}
        given = {*scopes}

        def add() -> None:
            if not self.filter(**key).exists():
                self.bulk_create([self.model(**key)], ignore_conflicts=True)
            with transaction.atomic(using=router.db_for_write(self.model)):
                consent = self.select_for_update().get(**key)
                consent.scope = " ".join(sorted({*consent.scopes, *given}))
                consent.save()

        retries.retried(add, using=router.db_for_write(self.model))

    def covers(self, user: Any, application: Any, resource: str, scopes: Iterable[str]) -> bool:
        """Whether the user allowed all of ``scopes`` to this client before."""
        consent = self.filter(user=user, application=application, resource=resource).first()
        return consent is not None and {*scopes} <= {*consent.scopes}


class Consent(models.Model):
    """The scopes which a user allowed to one client, on one server."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_consents"
    )
    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="mcp_consents"
    )
    resource = models.CharField(max_length=255, blank=True)
    scope = models.TextField(blank=True)
    created = models.DateTimeField(auto_now_add=True)
    updated = models.DateTimeField(auto_now=True)

    objects = ConsentManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "application", "resource"], name="django_mcp_oauth_unique_consent"
            )
        ]

    def __str__(self) -> str:
        return f"Consent #{self.pk}"

    @property
    def scopes(self) -> list[str]:
        return self.scope.split()

    def revoke(self) -> None:
        """Take it back: the client's codes and tokens for this server are not valid any more."""
        access = get_access_token_model()
        refresh = get_refresh_token_model()
        with transaction.atomic(using=router.db_for_write(access)):
            for token in self._own(current(refresh).filter(revoked__isnull=True)):
                token.revoke()
            for model in (access, get_grant_model()):
                for row in self._own(current(model)):
                    row.delete()
            self.delete()

    def _own(self, rows: Any) -> list[Any]:
        """Those of ``rows`` that are of this user, this client and this server."""
        rows = rows.filter(user=self.user, application=self.application)
        return [row for row in rows if (row.resource or [""]) == [self.resource]]


def end_with_password(user: Any) -> None:
    """Take back what a user allowed to programs; the app connects it."""
    for consent in Consent.objects.filter(user=user).select_related("application", "user"):
        consent.revoke()


class Registration(models.Model):
    """What a client registered that the toolkit does not store, and from where (RFC 7591)."""

    application = models.OneToOneField(
        oauth2_settings.APPLICATION_MODEL,
        on_delete=models.CASCADE,
        related_name="mcp_registration",
    )
    network = models.CharField(max_length=64, db_index=True)
    metadata = models.JSONField()

    def __str__(self) -> str:
        return f"Registration #{self.pk}"


class Redemption(models.Model):
    """What a code or refresh token was exchanged for; ``redemptions`` has the states."""

    digest = models.CharField(max_length=64, unique=True)
    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="mcp_redemptions"
    )
    token_family = models.UUIDField(db_index=True)
    response = models.TextField(blank=True)
    """The tokens, encrypted for whoever has the refresh token; empty for a code."""
    created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"Redemption #{self.pk}"
