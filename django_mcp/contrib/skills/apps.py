"""The app configuration of ``django_mcp.contrib.skills``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.autoreload import autoreload_started, file_changed
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
    """Let ``runserver`` reload when a skill changes, is added or is removed.

    The reloader compares the times of paths that it has seen before. A new path is none of them, so
    the folder that it is added to is watched: ``**`` contains the folder of skills itself.
    """
    from django_mcp.contrib.skills.finding import roots

    missing = []
    for root in roots():
        sender.watch_dir(root.folder, "**")
        sender.watch_dir(root.folder, "**/*")
        if not root.folder.is_dir():
            missing.append(root.folder)
            sender.watch_dir(root.folder.parent.parent, root.folder.parent.name)
    is_other_change = partial(_is_other_change, missing)
    file_changed.connect(is_other_change, weak=False, dispatch_uid="django_mcp.contrib.skills")


def _is_other_change(missing: Sequence[Path], sender: Any, file_path: Path, **_: Any) -> bool:
    """Whether a folder changed that is watched for its folder of skills, which is still missing.

    True prevents the reload.
    """
    awaited = [folder for folder in missing if folder.parent == file_path]
    return bool(awaited) and not any(folder.is_dir() for folder in awaited)
