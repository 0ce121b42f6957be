"""The tables of the database stores: sessions and the events of their streams.

Only ``stores.database`` writes to them. Values which are secret, or too long for an index, are
stored as SHA-256 digests in hexadecimal.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

DIGEST_LENGTH = 64
PRINCIPAL_LENGTH = 500


class McpSession(models.Model):
    """A session. Its key is a digest of the id, which only the client has."""

    address = models.CharField(_("address"), max_length=DIGEST_LENGTH, primary_key=True)
    server = models.CharField(_("server"), max_length=200)
    principal = models.CharField(_("principal"), max_length=PRINCIPAL_LENGTH)
    # The digest of what sessions are counted by: the principal, or the address of an anonymous one.
    caller = models.CharField(_("caller"), max_length=DIGEST_LENGTH)
    version = models.CharField(_("protocol version"), max_length=32)
    # No JSON column, since PostgreSQL accepts neither NUL nor half of a surrogate pair there,
    # both of which a client may send in its name.
    data = models.TextField(_("data"))
    initialized = models.BooleanField(_("initialized"), default=False)
    # An update which finds another number than it has read is retried.
    update_count = models.PositiveBigIntegerField(_("update count"), default=0)
    created_at = models.DateTimeField(_("created"))
    used_at = models.DateTimeField(_("last used"), db_index=True)

    class Meta:
        verbose_name = _("MCP session")
        verbose_name_plural = _("MCP sessions")
        indexes = [models.Index(fields=["caller", "used_at"], name="mcp_session_of_caller")]

    def __str__(self) -> str:
        return f"{self.server}: {self.principal}"


class Subscription(models.Model):
    """An index of the subscriptions in the sessions' data."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(
        McpSession, models.CASCADE, related_name="subscriptions", verbose_name=_("session")
    )
    # The digest of the server's name and the resource's URI.
    resource = models.CharField(_("resource"), max_length=DIGEST_LENGTH)

    class Meta:
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        indexes = [models.Index(fields=["resource"], name="mcp_subscription_of_resource")]
        constraints = [
            models.UniqueConstraint(fields=["session", "resource"], name="mcp_subscription_once")
        ]


class Stream(models.Model):
    """A stream of messages to a client, and its last event."""

    # The digest of the session's address and the stream's name.
    name = models.CharField(_("name"), max_length=DIGEST_LENGTH, primary_key=True)
    # No foreign key: sessions and events may be in different stores.
    session = models.CharField(_("session"), max_length=DIGEST_LENGTH)
    last = models.PositiveBigIntegerField(_("number of the last event"))
    closed = models.BooleanField(_("closed"), default=False)
    touched_at = models.DateTimeField(_("last written"), db_index=True)

    class Meta:
        verbose_name = _("stream")
        verbose_name_plural = _("streams")
        indexes = [models.Index(fields=["session"], name="mcp_stream_of_session")]


class StreamEvent(models.Model):
    id = models.BigAutoField(primary_key=True)
    stream = models.ForeignKey(
        Stream, models.CASCADE, related_name="events", verbose_name=_("stream"), db_index=False
    )
    number = models.PositiveBigIntegerField(_("number"))
    data = models.TextField(_("data"))
    created_at = models.DateTimeField(_("created"), db_index=True)

    class Meta:
        verbose_name = _("stream event")
        verbose_name_plural = _("stream events")
        constraints = [
            models.UniqueConstraint(fields=["stream", "number"], name="mcp_event_number_once")
        ]


class Component(models.Model):
    """A row of the admin without a table; it provides the permission to view components."""

    key = models.CharField(_("key"), max_length=500, primary_key=True)
    server = models.CharField(_("server"), max_length=200)
    kind = models.CharField(_("kind"), max_length=32)
    name = models.CharField(_("name"), max_length=500)
    title = models.CharField(_("title"), max_length=500)
    app = models.CharField(_("app"), max_length=200)
    permission = models.CharField(_("permission"), max_length=200)
    entry: Any  # The ``registry.Entry`` of the row.

    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = _("component")
        verbose_name_plural = _("components")

    def __str__(self) -> str:
        return self.name
