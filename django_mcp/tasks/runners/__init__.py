"""Runners of tasks: the one that the site names in ``TASK_RUNNER``, and one module for each."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_mcp import conf
from django_mcp.tasks.runners.base import Runner


@cache
def get() -> Runner:
    """The runner of this site; raises ImproperlyConfigured."""
    backend = conf.get().task_runner
    where = 'DJANGO_MCP["TASK_RUNNER"]'
    runner = backend.make(where)
    if not isinstance(runner, Runner):
        raise ImproperlyConfigured(f"{where}: {backend.path} is no Runner.")
    return runner


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {*conf.READ, "TASKS"}:
        get.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.tasks.runners")
