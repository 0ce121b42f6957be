"""Runners of tasks on the frameworks that they use, without workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django
import pytest

from django_mcp.tasks.runners.django_tasks import run_task
from tests.processes import ROOT
from tests.running_site import manage


def test_runner_uses_the_task_framework_of_django_where_it_has_one() -> None:
    package = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"

    assert type(run_task).__module__.startswith(f"{package}.")


def test_celery_runner_without_an_app_of_the_project_is_an_error() -> None:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.tasks.site.settings",
        "TASKS_RUNNER": "celery.CeleryRunner",
    }

    with pytest.raises(RuntimeError, match=r"E003.* CeleryRunner finds no Celery app"):
        manage(Path(sys.executable), ROOT, environment, "check")
