"""The app configuration of ``django_mcp.contrib.skills``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.autoreload import autoreload_started
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_mcp.extensions import Extension


class SkillsConfig(AppConfig):
    """Folders with instructions for agents, and the files that these name."""

    name = "django_mcp.contrib.skills"
    label = "django_mcp_skills"
    verbose_name = _("MCP skills")

    def ready(self) -> None:
        # The folders of apps are known only now.
        from django_mcp import registry
        from django_mcp.contrib.skills import checks  # noqa: F401 - the import registers them
        from django_mcp.contrib.skills.declaration import SKILLS

        SKILLS.serve_on(registry.default)
        autoreload_started.connect(watch, dispatch_uid="django_mcp.contrib.skills")

    def mcp_extension(self) -> Extension:
        from django_mcp.contrib.skills.extension import EXTENSION

        return EXTENSION


def watch(sender: Any, **_: Any) -> None:
    """Let ``runserver`` reload when a file of a skill changes."""
    from django_mcp.contrib.skills.finding import roots

    for root in roots():
        sender.watch_dir(root.folder, "**/*")
