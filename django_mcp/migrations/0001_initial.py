"""Sessions, streams and their events, tasks, what is switched off, and permissions for the rest."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Component",
            fields=[
                (
                    "key",
                    models.CharField(
                        max_length=500, primary_key=True, serialize=False, verbose_name="key"
                    ),
                ),
                ("server", models.CharField(max_length=200, verbose_name="server")),
                ("kind", models.CharField(max_length=32, verbose_name="kind")),
                ("name", models.CharField(max_length=500, verbose_name="name")),
                ("title", models.CharField(max_length=500, verbose_name="title")),
                ("app", models.CharField(max_length=200, verbose_name="app")),
                ("permission", models.CharField(max_length=200, verbose_name="permission")),
            ],
            options={
                "verbose_name": "component",
                "verbose_name_plural": "components",
                "managed": False,
                "default_permissions": ("view", "change"),
                "permissions": (
                    ("see_as_user", "Can see which components any user is listed"),
                    ("try_component", "Can try components as themselves"),
                ),
            },
        ),
        migrations.CreateModel(
            name="McpServer",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=200, primary_key=True, serialize=False, verbose_name="name"
                    ),
                ),
                ("path", models.CharField(max_length=500, verbose_name="path")),
            ],
            options={
                "verbose_name": "MCP server",
                "verbose_name_plural": "MCP servers",
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="SwitchedOff",
            fields=[
                (
                    "id",
                    models.CharField(
                        editable=False,
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        verbose_name="id",
                    ),
                ),
                ("server", models.CharField(max_length=200, verbose_name="server")),
                ("kind", models.CharField(max_length=32, verbose_name="kind")),
                ("key", models.TextField(verbose_name="name or URI")),
                (
                    "by",
                    models.CharField(blank=True, max_length=255, verbose_name="switched off by"),
                ),
                ("at", models.DateTimeField(verbose_name="switched off")),
            ],
            options={
                "verbose_name": "switched off component",
                "verbose_name_plural": "switched off components",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="McpSession",
            fields=[
                (
                    "address",
                    models.CharField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="address"
                    ),
                ),
                ("server", models.CharField(max_length=200, verbose_name="server")),
                ("principal", models.CharField(max_length=500, verbose_name="principal")),
                ("caller", models.CharField(max_length=64, verbose_name="caller")),
                ("version", models.CharField(max_length=32, verbose_name="protocol version")),
                ("data", models.TextField(verbose_name="data")),
                ("initialized", models.BooleanField(default=False, verbose_name="initialized")),
                (
                    "update_count",
                    models.PositiveBigIntegerField(default=0, verbose_name="update count"),
                ),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("used_at", models.DateTimeField(db_index=True, verbose_name="last used")),
            ],
            options={
                "verbose_name": "MCP session",
                "verbose_name_plural": "MCP sessions",
                "indexes": [
                    models.Index(fields=["caller", "used_at"], name="mcp_session_of_caller")
                ],
            },
        ),
        migrations.CreateModel(
            name="McpTask",
            fields=[
                (
                    "id",
                    models.CharField(
                        editable=False,
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        verbose_name="id",
                    ),
                ),
                ("server", models.CharField(max_length=200, verbose_name="server")),
                ("tool", models.CharField(max_length=500, verbose_name="tool")),
                ("version", models.CharField(max_length=32, verbose_name="protocol version")),
                ("principal", models.CharField(max_length=500, verbose_name="principal")),
                ("user_key", models.CharField(blank=True, max_length=255, verbose_name="user")),
                ("owner", models.CharField(max_length=64, verbose_name="owner")),
                ("caller", models.CharField(max_length=64, verbose_name="caller")),
                ("call", models.TextField(verbose_name="call")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("held", "waiting for approval"),
                            ("working", "working"),
                            ("input_required", "input required"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("declined", "declined"),
                            ("expired", "expired"),
                        ],
                        max_length=20,
                        verbose_name="status",
                    ),
                ),
                ("status_message", models.TextField(blank=True, verbose_name="status message")),
                ("progress", models.FloatField(blank=True, null=True, verbose_name="progress")),
                ("total", models.FloatField(blank=True, null=True, verbose_name="total")),
                ("inputs", models.TextField(blank=True, verbose_name="inputs")),
                ("messages", models.TextField(blank=True, verbose_name="messages")),
                ("outcome", models.TextField(blank=True, verbose_name="outcome")),
                ("receiver", models.CharField(blank=True, max_length=32, verbose_name="receiver")),
                (
                    "needs_approval",
                    models.BooleanField(default=False, verbose_name="needs an approval"),
                ),
                (
                    "open_key",
                    models.CharField(editable=False, max_length=64, null=True, unique=True),
                ),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("updated_at", models.DateTimeField(verbose_name="last updated")),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires")),
                (
                    "update_count",
                    models.PositiveBigIntegerField(default=0, verbose_name="update count"),
                ),
                (
                    "lease_by",
                    models.CharField(blank=True, max_length=64, verbose_name="lease holder"),
                ),
                (
                    "lease_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="lease ends"),
                ),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "indexes": [
                    models.Index(fields=["owner", "created_at", "id"], name="mcp_task_of_owner"),
                    models.Index(fields=["caller", "expires_at"], name="mcp_task_of_caller"),
                    models.Index(fields=["status", "lease_until"], name="mcp_task_by_status"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Stream",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="name"
                    ),
                ),
                ("session", models.CharField(max_length=64, verbose_name="session")),
                ("last", models.PositiveBigIntegerField(verbose_name="number of the last event")),
                ("closed", models.BooleanField(default=False, verbose_name="closed")),
                ("touched_at", models.DateTimeField(db_index=True, verbose_name="last written")),
            ],
            options={
                "verbose_name": "stream",
                "verbose_name_plural": "streams",
                "indexes": [models.Index(fields=["session"], name="mcp_stream_of_session")],
            },
        ),
        migrations.CreateModel(
            name="StreamEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField(verbose_name="number")),
                ("data", models.TextField(verbose_name="data")),
                ("created_at", models.DateTimeField(db_index=True, verbose_name="created")),
                (
                    "stream",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="django_mcp.stream",
                        verbose_name="stream",
                    ),
                ),
            ],
            options={
                "verbose_name": "stream event",
                "verbose_name_plural": "stream events",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("stream", "number"), name="mcp_event_number_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("resource", models.CharField(max_length=64, verbose_name="resource")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="subscriptions",
                        to="django_mcp.mcpsession",
                        verbose_name="session",
                    ),
                ),
            ],
            options={
                "verbose_name": "subscription",
                "verbose_name_plural": "subscriptions",
                "indexes": [models.Index(fields=["resource"], name="mcp_subscription_of_resource")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "resource"), name="mcp_subscription_once"
                    )
                ],
            },
        ),
    ]
