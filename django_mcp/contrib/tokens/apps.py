"""The app configuration of ``django_mcp.contrib.tokens``."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_delete, post_save
from django.utils.translation import gettext_lazy as _


class TokensConfig(AppConfig):
    """Personal access tokens for ``django_mcp.auth.token.TokenAuthentication``."""

    name = "django_mcp.contrib.tokens"
    label = "django_mcp_tokens"
    verbose_name = _("MCP access tokens")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These modules import models, so that they can be imported only now.
        from django_mcp.contrib.tokens import checks  # noqa: F401 - the import registers them
        from django_mcp.contrib.tokens.models import (
            PersonalAccessToken,
            end_with_password,
            on_change,
        )
        from django_mcp.pubsub import revocations

        for signal in (post_save, post_delete):
            signal.connect(on_change, sender=PersonalAccessToken, dispatch_uid=self.label)
        revocations.connect_password(end_with_password)
