"""The tables of events, subscriptions and deliveries."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Counter",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("last", models.PositiveBigIntegerField(default=0)),
                ("pruned", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Interest",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("server", models.CharField(max_length=200)),
                ("event", models.CharField(max_length=200)),
                ("until", models.DateTimeField()),
                ("since", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Occurrence",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "position",
                    models.PositiveBigIntegerField(null=True, unique=True, verbose_name="position"),
                ),
                (
                    "event_id",
                    models.CharField(db_index=True, max_length=200, verbose_name="event id"),
                ),
                ("server", models.CharField(max_length=200, verbose_name="server")),
                ("event", models.CharField(max_length=200, verbose_name="event")),
                ("object_key", models.CharField(blank=True, max_length=255, verbose_name="object")),
                ("data", models.TextField(blank=True, verbose_name="data")),
                ("created_at", models.DateTimeField(db_index=True, verbose_name="created")),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        fields=["server", "event", "position"], name="mcp_event_by_position"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Subscription",
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
                ("event", models.CharField(max_length=200, verbose_name="event")),
                ("version", models.CharField(max_length=32, verbose_name="protocol version")),
                ("principal", models.CharField(max_length=500, verbose_name="principal")),
                (
                    "user_key",
                    models.CharField(
                        blank=True, db_index=True, max_length=255, verbose_name="user"
                    ),
                ),
                ("owner", models.CharField(db_index=True, max_length=64, verbose_name="owner")),
                ("counted_by", models.CharField(db_index=True, max_length=64)),
                ("client", models.CharField(blank=True, max_length=255, verbose_name="client")),
                ("arguments", models.TextField(default="{}", verbose_name="arguments")),
                ("url", models.TextField(verbose_name="URL")),
                ("secret", models.TextField()),
                ("old_secret", models.TextField(blank=True)),
                ("old_secret_until", models.DateTimeField(null=True)),
                ("caller", models.TextField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("active", "active"),
                            ("suspended", "suspended"),
                            ("ending", "ending"),
                            ("ended", "ended"),
                        ],
                        default="active",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("end_error", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("refreshed_at", models.DateTimeField(verbose_name="refreshed")),
                (
                    "expires_at",
                    models.DateTimeField(
                        blank=True, db_index=True, null=True, verbose_name="expires"
                    ),
                ),
                (
                    "verified_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="verified"),
                ),
                ("position", models.PositiveBigIntegerField(default=0, verbose_name="position")),
                ("lease_by", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                (
                    "next_attempt_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="next attempt"),
                ),
                ("attempts", models.PositiveIntegerField(default=0, verbose_name="attempts")),
                (
                    "last_delivery_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="last delivery"),
                ),
                (
                    "last_error",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("connection_refused", "connection refused"),
                            ("timeout", "timeout"),
                            ("tls_error", "TLS error"),
                            ("http_4xx", "HTTP status 4xx"),
                            ("http_5xx", "HTTP status 5xx"),
                            ("challenge_failed", "challenge failed"),
                        ],
                        max_length=20,
                        verbose_name="last error",
                    ),
                ),
                (
                    "failed_since",
                    models.DateTimeField(blank=True, null=True, verbose_name="failed since"),
                ),
            ],
            options={
                "verbose_name": "event subscription",
                "verbose_name_plural": "event subscriptions",
                "ordering": ("-created_at", "id"),
                "default_permissions": ("view", "delete"),
                "indexes": [
                    models.Index(fields=["status", "next_attempt_at"], name="mcp_event_sub_due"),
                    models.Index(
                        fields=["server", "event", "status"], name="mcp_event_sub_of_event"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("event_id", models.CharField(max_length=200, verbose_name="event id")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("delivered", "delivered"),
                            ("abandoned", "abandoned"),
                        ],
                        default="pending",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0, verbose_name="attempts")),
                (
                    "last_error",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("connection_refused", "connection refused"),
                            ("timeout", "timeout"),
                            ("tls_error", "TLS error"),
                            ("http_4xx", "HTTP status 4xx"),
                            ("http_5xx", "HTTP status 5xx"),
                            ("challenge_failed", "challenge failed"),
                        ],
                        max_length=20,
                        verbose_name="last error",
                    ),
                ),
                (
                    "next_attempt_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="next attempt"),
                ),
                ("created_at", models.DateTimeField(db_index=True, verbose_name="created")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
                (
                    "occurrence",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="django_mcp_events.occurrence",
                        verbose_name="event",
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="django_mcp_events.subscription",
                        verbose_name="subscription",
                    ),
                ),
            ],
            options={
                "verbose_name": "delivery",
                "verbose_name_plural": "deliveries",
                "ordering": ("-created_at", "-id"),
                "default_permissions": ("view", "change"),
                "indexes": [
                    models.Index(
                        fields=["status", "next_attempt_at"], name="mcp_event_delivery_due"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("subscription", "occurrence"), name="mcp_event_delivery_once"
                    )
                ],
            },
        ),
    ]
