"""The Celery app of the site, as documented for a project."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.services.site.settings")

app = Celery("site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["django_mcp.tasks.runners"], related_name="celery")
