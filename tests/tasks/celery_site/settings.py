"""Settings of the test site whose tasks run in Celery workers, without a channel layer."""

import os

from tests.tasks.site.settings import *  # noqa: F403 - settings are extended in this way.
from tests.tasks.site.settings import DJANGO_MCP

CELERY_BROKER_URL = os.environ.get("TASKS_BROKER", "redis://127.0.0.1:6379")
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": os.environ.get("TASKS_PREFIX", "")}

DJANGO_MCP |= {
    "TASK_RUNNER": {
        "BACKEND": "django_mcp.tasks.runners.celery.CeleryRunner",
        "OPTIONS": {"queue": "jobs"},
    },
}
