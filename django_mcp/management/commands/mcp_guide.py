"""manage.py mcp_guide: prints how to write tools, for coding agents that work on the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

import django_mcp

GUIDE = Path(django_mcp.__file__).parent / "skills" / "django-mcp" / "SKILL.md"
"""A skill: a coding agent can read the printed file, and ``contrib.skills`` can serve it."""


class Command(BaseCommand):
    help = "Prints a guide for coding agents: how to write tools, resources, prompts and tests."
    # It helps with a project that has errors, too.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(GUIDE.read_text(encoding="utf-8"))
