"""The app configuration."""

from __future__ import annotations

import logging

from django.apps import AppConfig

from django_mcp.extensions import Extension

WITH_SECRETS = ("oauthlib", "oauth2_provider")
"""Loggers with tokens and codes in their debug messages."""


class OAuthConfig(AppConfig):
    name = "django_mcp.contrib.oauth"
    label = "django_mcp_oauth"
    verbose_name = "MCP: access by OAuth"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_mcp.contrib.oauth import checks  # noqa: F401 - the import registers them
        from django_mcp.contrib.oauth.models import end_with_password
        from django_mcp.pubsub import revocations

        revocations.connect_password(end_with_password)

        for name in WITH_SECRETS:
            logger = logging.getLogger(name)
            # A site that logs everything at the level DEBUG does not mean secrets. One that names
            # this logger does.
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.INFO)

    def mcp_extension(self) -> Extension:
        return Extension(name="django-mcp/oauth", prune=_prune)


def _prune() -> str:
    from django_mcp.contrib.oauth import assertions, redemptions, registrations

    redemptions.prune()
    assertions.prune()
    return f"Deleted {registrations.prune()} clients that were never used."
