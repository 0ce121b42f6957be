"""Personal access tokens."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PersonalAccessToken",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "name",
                    models.CharField(
                        help_text="What the token is for.", max_length=100, verbose_name="name"
                    ),
                ),
                (
                    "digest",
                    models.CharField(
                        editable=False, max_length=64, unique=True, verbose_name="digest"
                    ),
                ),
                ("start", models.CharField(editable=False, max_length=10, verbose_name="token")),
                ("scopes", models.JSONField(blank=True, default=list, verbose_name="scopes")),
                ("servers", models.JSONField(blank=True, default=list, verbose_name="servers")),
                ("groups", models.JSONField(blank=True, default=list, verbose_name="groups")),
                (
                    "read_only",
                    models.BooleanField(
                        default=False,
                        help_text="Only what changes nothing.",
                        verbose_name="read only",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False, verbose_name="created"
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                (
                    "revoked_at",
                    models.DateTimeField(editable=False, null=True, verbose_name="revoked"),
                ),
                (
                    "last_used_at",
                    models.DateTimeField(editable=False, null=True, verbose_name="last used"),
                ),
                ("made_by_owner", models.BooleanField(default=False, editable=False)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_access_tokens",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="owner",
                    ),
                ),
            ],
            options={
                "verbose_name": "access token",
                "verbose_name_plural": "access tokens",
                "ordering": ("-created_at", "-pk"),
            },
        ),
    ]
