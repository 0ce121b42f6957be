"""The app configuration of ``django_mcp.contrib.url_elicitation``."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_mcp.extensions import Extension


class ElicitationConfig(AppConfig):
    """Pages which users visit for a tool, with ``elicit_page`` of its module ``pages``."""

    name = "django_mcp.contrib.url_elicitation"
    label = "django_mcp_elicitation"
    verbose_name = _("MCP elicitation pages")
    default_auto_field = "django.db.models.BigAutoField"

    def mcp_extension(self) -> Extension:
        return Extension(
            name="django-mcp/url-elicitation",
            input_page="django_mcp_elicitation:question",
            prune=_prune,
        )


def _prune() -> str:
    from django_mcp.contrib.url_elicitation.models import PageAnswer

    return f"Deleted {PageAnswer.objects.prune()} answers of elicitation pages."
