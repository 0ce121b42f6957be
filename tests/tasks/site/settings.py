"""Settings of the example site whose tasks run in worker processes, without a channel layer."""

import os
from importlib.util import find_spec

from example_site.settings import *  # noqa: F403 - settings are extended in this way.
from example_site.settings import DJANGO_MCP, INSTALLED_APPS

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": os.environ.get("TASKS_PGPORT", "5432"),
    }
}
# Django 6 has the framework itself.
FRAMEWORK = [] if find_spec("django.tasks") else ["django_tasks"]
INSTALLED_APPS += [*FRAMEWORK, "django_tasks_db", "tests.tasks.site"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

RUNNER = os.environ.get("TASKS_RUNNER", "django_tasks.DjangoTasksRunner")
DJANGO_MCP |= {
    "TASK_RUNNER": {"BACKEND": f"django_mcp.tasks.runners.{RUNNER}"},
}
