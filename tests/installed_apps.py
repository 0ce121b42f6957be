"""Installs optional apps for some tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.apps import apps
from django.contrib import admin
from django.core.checks.registry import registry
from django.test import override_settings


@contextmanager
def installed(*names: str) -> Iterator[None]:
    """Add apps to INSTALLED_APPS; afterwards nothing knows their models and checks any more."""
    present = [each.name for each in apps.get_app_configs()]
    with override_settings(INSTALLED_APPS=[*present, *names]):
        yield
    for model in [*admin.site._registry]:
        if model._meta.app_label not in apps.app_configs:
            admin.site.unregister(model)
    for checks in (registry.registered_checks, registry.deployment_checks):
        # They fail without their app. Ours do not.
        checks -= {each for each in checks if each.__module__.startswith("oauth2_provider.")}
