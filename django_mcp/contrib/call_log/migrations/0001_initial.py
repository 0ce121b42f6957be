"""The table of calls."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Call",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("called_at", models.DateTimeField(verbose_name="called")),
                ("day", models.DateField(verbose_name="day")),
                ("principal", models.CharField(max_length=500, verbose_name="principal")),
                ("program", models.CharField(blank=True, max_length=255, verbose_name="program")),
                ("token", models.CharField(blank=True, max_length=64, verbose_name="token")),
                ("server", models.CharField(max_length=200, verbose_name="server")),
                (
                    "kind",
                    models.CharField(
                        choices=[("tool", "tool"), ("resource", "resource"), ("prompt", "prompt")],
                        max_length=10,
                        verbose_name="kind",
                    ),
                ),
                (
                    "component",
                    models.CharField(blank=True, max_length=255, verbose_name="component"),
                ),
                ("target", models.CharField(max_length=500, verbose_name="name or URI")),
                ("revision", models.CharField(max_length=32, verbose_name="protocol version")),
                (
                    "client_name",
                    models.CharField(blank=True, max_length=100, verbose_name="client"),
                ),
                (
                    "client_version",
                    models.CharField(
                        blank=True, max_length=50, verbose_name="version of the client"
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("ok", "ok"),
                            ("error", "error for the model"),
                            ("input_required", "input required"),
                            ("task", "continues as a task"),
                            ("client_error", "client error"),
                            ("server_error", "server error"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=20,
                        verbose_name="outcome",
                    ),
                ),
                ("is_error", models.BooleanField(verbose_name="error")),
                ("duration", models.FloatField(verbose_name="duration")),
                (
                    "duration_class",
                    models.PositiveSmallIntegerField(verbose_name="class of the duration"),
                ),
                ("arguments", models.TextField(blank=True, verbose_name="arguments")),
                (
                    "arguments_size",
                    models.PositiveIntegerField(null=True, verbose_name="size of the arguments"),
                ),
                (
                    "response_size",
                    models.PositiveIntegerField(null=True, verbose_name="size of the response"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "call",
                "verbose_name_plural": "calls",
                "ordering": ("-id",),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["day", "is_error"], name="mcp_call_by_day"),
                    models.Index(
                        fields=[
                            "server",
                            "kind",
                            "component",
                            "is_error",
                            "duration_class",
                            "day",
                            "response_size",
                        ],
                        name="mcp_call_by_component",
                    ),
                    models.Index(
                        fields=["user", "is_error", "duration_class", "day", "response_size"],
                        name="mcp_call_by_user",
                    ),
                    models.Index(fields=["component", "id"], name="mcp_call_of_component"),
                    models.Index(fields=["user", "id"], name="mcp_call_of_user"),
                    models.Index(fields=["program", "id"], name="mcp_call_of_program"),
                    models.Index(fields=["outcome", "id"], name="mcp_call_with_outcome"),
                ],
            },
        ),
    ]
