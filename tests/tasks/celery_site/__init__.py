"""The test site with Celery: the app is imported wherever the settings are, as documented."""

from tests.tasks.celery_site.celery import app as celery_app

__all__ = ["celery_app"]
