"""The tables: sessions and the events of their streams, calls that outlive their request, and
components that are switched off.

``stores.database`` writes sessions and events, ``tasks.store`` tasks, and ``pubsub.switches`` the
components that are switched off. Values which are secret, or too long for an index, are stored as
SHA-256 digests in hexadecimal. Columns that say so are encrypted by ``runtime.signing``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.checks import CheckMessage
from django.db import models
from django.utils.translation import gettext_lazy as _

DIGEST_LENGTH = 64
PRINCIPAL_LENGTH = 500
DELETED_AT_ONCE = 500
"""Rows that one statement deletes, so that nobody waits for long behind it."""


def delete_in_steps(rows: models.QuerySet[Any]) -> int:
    """Delete the rows, some at a time, and return their number without dependent rows."""
    deleted = 0
    while names := list(rows.values_list("pk", flat=True)[:DELETED_AT_ONCE]):
        _, by_model = rows.filter(pk__in=names).delete()
        deleted += by_model.get(rows.model._meta.label, 0)
        if len(names) < DELETED_AT_ONCE:
            break
    return deleted


class McpSession(models.Model):
    """A session. Its key is a digest of the id, which only the client has."""

    address = models.CharField(_("address"), max_length=DIGEST_LENGTH, primary_key=True)
    server = models.CharField(_("server"), max_length=200)
    principal = models.CharField(_("principal"), max_length=PRINCIPAL_LENGTH)
    # The digest of what sessions are counted by: the principal, or the address of an anonymous one.
    caller = models.CharField(_("caller"), max_length=DIGEST_LENGTH)
    version = models.CharField(_("protocol version"), max_length=32)
    # No JSON column, since PostgreSQL accepts neither NUL nor half of a surrogate pair there,
    # and a client may send both in its name.
    data = models.TextField(_("data"))
    initialized = models.BooleanField(_("initialized"), default=False)
    # An update which finds another number than it has read is retried.
    update_count = models.PositiveBigIntegerField(_("update count"), default=0)
    created_at = models.DateTimeField(_("created"))
    used_at = models.DateTimeField(_("last used"), db_index=True)

    # In the admin.
    user_name: str
    stream_count: int | None

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


class McpTask(models.Model):
    """A tool call that outlives its request: its caller, its arguments, and its worker.

    The statuses and who moves them are in ``core.protocol.tasks``.
    """

    STATUSES = (
        ("waiting", _("waiting for approval")),
        ("working", _("working")),
        ("input_required", _("input required")),
        ("completed", _("completed")),
        ("failed", _("failed")),
        ("cancelled", _("cancelled")),
        ("declined", _("declined")),
        ("expired", _("expired")),
    )

    # Unguessable: for anonymous callers, knowing it is the only proof of ownership.
    id = models.CharField(_("id"), max_length=64, primary_key=True, editable=False)
    server = models.CharField(_("server"), max_length=200)
    tool = models.CharField(_("tool"), max_length=500)
    version = models.CharField(_("protocol version"), max_length=32)
    principal = models.CharField(_("principal"), max_length=PRINCIPAL_LENGTH)
    # The primary key of the Django user as a string; no foreign key, because the user may be in
    # another database.
    user_key = models.CharField(_("user"), max_length=255, blank=True)
    # The digest of the principal and the server that the row is bound to: for others, it does not
    # exist.
    owner = models.CharField(_("owner"), max_length=DIGEST_LENGTH)
    # The digest of the caller or the session that the rows are counted for.
    caller = models.CharField(_("caller"), max_length=DIGEST_LENGTH)
    # Encrypted: the arguments, and the data for an answer without the request.
    call = models.TextField(_("call"))
    status = models.CharField(_("status"), max_length=20, choices=STATUSES)
    status_message = models.TextField(_("status message"), blank=True)
    progress = models.FloatField(_("progress"), null=True, blank=True)
    total = models.FloatField(_("total"), null=True, blank=True)
    # Encrypted, or empty: input requests and responses, messages for the client, and the result
    # or the error.
    inputs = models.TextField(_("inputs"), blank=True)
    messages = models.TextField(_("messages"), blank=True)
    outcome = models.TextField(_("outcome"), blank=True)
    # The newest tasks/result request, which sends messages and input requests to the client.
    receiver = models.CharField(_("receiver"), max_length=32, blank=True)
    # Whether it was made with an approval: the app of approvals keeps it longer, and deletes it.
    needs_approval = models.BooleanField(_("needs an approval"), default=False)
    # Where the same call is not stored twice while it is active: a digest of it; null afterwards.
    open_key = models.CharField(max_length=DIGEST_LENGTH, unique=True, null=True, editable=False)
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("last updated"))
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires"), db_index=True)
    # An update which finds another number than it has read is retried.
    update_count = models.PositiveBigIntegerField(_("update count"), default=0)
    # Who works on it. Without a renewal, the work is lost when the lease ends. Before the start,
    # the lease ends when the time to approve or start it is over.
    lease_owner = models.CharField(_("lease owner"), max_length=64, blank=True)
    lease_until = models.DateTimeField(_("lease ends"), null=True, blank=True)
    # When somebody first found that the lease had ended; before ``lease_until``, a former lease.
    overdue_at = models.DateTimeField(null=True, editable=False)

    read_at: datetime
    """The time of the database when the row was read, where the query asked for it."""
    user_name: str  # In the admin.

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        indexes = [
            models.Index(fields=["owner", "created_at", "id"], name="mcp_task_of_owner"),
            models.Index(fields=["caller", "expires_at"], name="mcp_task_of_caller"),
            models.Index(fields=["status", "lease_until"], name="mcp_task_by_status"),
        ]

    def __str__(self) -> str:
        return f"{self.server}: {self.tool}"


class SwitchedOff(models.Model):
    """A component that the site has switched off, on all workers: see ``pubsub.switches``."""

    # The digest of its server, kind and key, which is too long for an index.
    id = models.CharField(_("id"), max_length=DIGEST_LENGTH, primary_key=True, editable=False)
    server = models.CharField(_("server"), max_length=200)
    kind = models.CharField(_("kind"), max_length=32)
    key = models.TextField(_("name or URI"))
    # No foreign key, because the user may be in another database.
    by = models.CharField(_("switched off by"), max_length=255, blank=True)
    at = models.DateTimeField(_("switched off"))

    class Meta:
        verbose_name = _("switched off component")
        verbose_name_plural = _("switched off components")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.server}: {self.key}"


class WithoutTable(models.Model):
    """A row of the admin that is in no database."""

    class Meta:
        abstract = True

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        """Leave out the limits of databases for its fields, such as mysql.W003."""
        messages: list[CheckMessage] = super().check(**{**kwargs, "databases": None})
        return messages


class Component(WithoutTable):
    """A row of the admin without a table; it provides the permissions for components.

    Who may change components may switch them off and on.
    """

    key = models.CharField(_("key"), max_length=500, primary_key=True)
    server = models.CharField(_("server"), max_length=200)
    kind = models.CharField(_("kind"), max_length=32)
    name = models.CharField(_("name"), max_length=500)
    title = models.CharField(_("title"), max_length=500)
    app = models.CharField(_("app"), max_length=200)
    permission = models.CharField(_("permission"), max_length=200)
    entry: Any  # The ``registry.Entry`` of the row.
    # Of the last days, in a list.
    call_count: int
    error_count: int
    is_switched_off: bool

    class Meta:
        managed = False
        default_permissions = ("view", "change")
        permissions = (
            ("see_as_user", _("Can see which components any user is listed")),
            ("try_component", _("Can try components as themselves")),
        )
        verbose_name = _("component")
        verbose_name_plural = _("components")

    def __str__(self) -> str:
        return self.name


class McpServer(WithoutTable):
    """A row of the admin without a table; it provides the permission to view servers."""

    name = models.CharField(_("name"), max_length=200, primary_key=True)
    path = models.CharField(_("path"), max_length=500)
    server: Any  # The ``Server`` of the row.

    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = _("MCP server")
        verbose_name_plural = _("MCP servers")

    def __str__(self) -> str:
        return self.name
