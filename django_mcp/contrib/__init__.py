"""Optional apps, each for ``INSTALLED_APPS``. Nothing outside of them imports them."""

from __future__ import annotations

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured


def require_app(models: str) -> None:
    """Raise ImproperlyConfigured unless the app with the module ``models`` is installed.

    Such a module calls it before its classes: without the app, Django would take them for models of
    ``django_mcp``, which is a package around them, and write migrations of them there.
    """
    name = models.rpartition(".")[0]
    if not apps.is_installed(name):
        raise ImproperlyConfigured(
            f'{name} is used, but not installed: add "{name}" to INSTALLED_APPS, and run '
            "manage.py migrate."
        )
