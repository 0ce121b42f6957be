"""Approvals: tasks that wait for a person."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("django_mcp", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Approval",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        parent_link=True,
                        primary_key=True,
                        related_name="approval",
                        serialize=False,
                        to="django_mcp.mcptask",
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
            ],
            options={
                "verbose_name": "approval",
                "verbose_name_plural": "approvals",
                "ordering": ("-created_at", "-id"),
                "default_permissions": ("view",),
            },
            bases=("django_mcp.mcptask",),
        ),
    ]
