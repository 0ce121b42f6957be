"""Tasks: tool calls that outlive their request."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp", "0001_initial"),
    ]

    operations = [
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
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("updated_at", models.DateTimeField(verbose_name="last updated")),
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
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("working", "working"),
                            ("input_required", "input required"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
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
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "indexes": [
                    models.Index(fields=["owner", "created_at", "id"], name="mcp_task_of_owner"),
                    models.Index(fields=["caller", "expires_at"], name="mcp_task_of_caller"),
                ],
            },
        ),
    ]
