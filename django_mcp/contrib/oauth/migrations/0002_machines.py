"""Clients that are machines, and issuers whose assertions name users."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from oauth2_provider.settings import oauth2_settings


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp_oauth", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        migrations.swappable_dependency(oauth2_settings.APPLICATION_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="TrustedIssuer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("issuer", models.CharField(max_length=255, unique=True, verbose_name="issuer")),
                (
                    "jwks_uri",
                    models.CharField(blank=True, max_length=255, verbose_name="URL of public keys"),
                ),
                (
                    "algorithms",
                    models.CharField(blank=True, max_length=255, verbose_name="algorithms"),
                ),
                (
                    "tenant_claim",
                    models.CharField(
                        blank=True, max_length=100, verbose_name="claim of the tenant"
                    ),
                ),
                ("tenants", models.TextField(blank=True, verbose_name="tenants")),
                ("scope", models.TextField(blank=True, verbose_name="scopes")),
                (
                    "link_by_email",
                    models.BooleanField(default=False, verbose_name="link users by email"),
                ),
                ("create_users", models.BooleanField(default=False, verbose_name="create users")),
                ("email_domains", models.TextField(blank=True, verbose_name="domains of email")),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                ("created", models.DateTimeField(auto_now_add=True, verbose_name="created")),
            ],
            options={
                "verbose_name": "trusted issuer",
                "verbose_name_plural": "trusted issuers",
            },
        ),
        migrations.CreateModel(
            name="UsedAssertion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("expires", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="MachineClient",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.TextField(blank=True, verbose_name="scopes")),
                ("jwks", models.JSONField(blank=True, null=True, verbose_name="public keys")),
                (
                    "jwks_uri",
                    models.CharField(blank=True, max_length=255, verbose_name="URL of public keys"),
                ),
                ("previous_secret", models.CharField(blank=True, editable=False, max_length=255)),
                (
                    "previous_secret_until",
                    models.DateTimeField(blank=True, editable=False, null=True),
                ),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                ("created", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                (
                    "application",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_machine",
                        to=oauth2_settings.APPLICATION_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="mcp_machines",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "machine client",
                "verbose_name_plural": "machine clients",
            },
        ),
        migrations.CreateModel(
            name="ExternalIdentity",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("tenant", models.CharField(blank=True, max_length=255, verbose_name="tenant")),
                ("subject", models.CharField(max_length=255, verbose_name="subject")),
                ("created", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_identities",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "trusted_issuer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to="django_mcp_oauth.trustedissuer",
                        verbose_name="trusted issuer",
                    ),
                ),
            ],
            options={
                "verbose_name": "external identity",
                "verbose_name_plural": "external identities",
            },
        ),
        migrations.CreateModel(
            name="ManagedAccess",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("resource", models.CharField(max_length=255, verbose_name="server")),
                ("scope", models.TextField(blank=True, verbose_name="scopes")),
                ("created", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("updated", models.DateTimeField(auto_now=True, verbose_name="last assertion")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
                (
                    "application",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_managed_accesses",
                        to=oauth2_settings.APPLICATION_MODEL,
                        verbose_name="client",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_managed_accesses",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "trusted_issuer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="accesses",
                        to="django_mcp_oauth.trustedissuer",
                        verbose_name="trusted issuer",
                    ),
                ),
            ],
            options={
                "verbose_name": "access by a company",
                "verbose_name_plural": "accesses by a company",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "application", "resource"),
                        name="django_mcp_oauth_unique_access",
                    )
                ],
            },
        ),
    ]
