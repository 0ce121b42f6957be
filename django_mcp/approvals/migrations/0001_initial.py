"""Approvals: tool calls that wait for a person."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.CreateModel(
            name="Approval",
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
                            ("waiting", "waiting"),
                            ("approved", "approved"),
                            ("declined", "declined"),
                            ("expired", "expired"),
                            ("cancelled", "cancelled"),
                            ("running", "being carried out"),
                            ("completed", "carried out"),
                            ("failed", "failed"),
                            ("lost", "outcome unknown"),
                        ],
                        default="waiting",
                        max_length=20,
                        verbose_name="status",
                    ),
                ),
                ("title", models.CharField(max_length=500, verbose_name="title")),
                (
                    "permission",
                    models.CharField(
                        db_index=True, max_length=255, verbose_name="permission of approvers"
                    ),
                ),
                ("four_eyes", models.BooleanField(default=False, verbose_name="four eyes")),
                (
                    "caller_name",
                    models.CharField(blank=True, max_length=255, verbose_name="caller"),
                ),
                ("client", models.CharField(blank=True, max_length=255, verbose_name="client")),
                ("digest", models.CharField(max_length=64, verbose_name="fingerprint")),
                ("open_key", models.CharField(max_length=64, null=True, unique=True)),
                (
                    "decided_by",
                    models.CharField(blank=True, max_length=255, verbose_name="decided by (key)"),
                ),
                (
                    "decided_by_name",
                    models.CharField(blank=True, max_length=255, verbose_name="decided by"),
                ),
                ("decided_at", models.DateTimeField(blank=True, null=True, verbose_name="decided")),
                (
                    "decided_in",
                    models.CharField(blank=True, max_length=20, verbose_name="decided in"),
                ),
                ("comment", models.TextField(blank=True, verbose_name="comment")),
                ("outcome", models.TextField(blank=True, verbose_name="outcome")),
                ("is_error", models.BooleanField(null=True, verbose_name="error")),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
            ],
            options={
                "verbose_name": "approval",
                "verbose_name_plural": "approvals",
                "ordering": ("-created_at", "-id"),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["status", "expires_at"], name="mcp_approval_by_status"),
                    models.Index(fields=["caller", "status"], name="mcp_approval_of_caller"),
                ],
            },
        ),
    ]
