"""Settings of the site; SERVICES_SITE has what differs between tests, as ``workers`` writes it."""

import json
import os
from importlib.util import find_spec

GIVEN = json.loads(os.environ["SERVICES_SITE"])

SECRET_KEY = "services"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.services.site.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "django_mcp.contrib.approvals",
    "django_mcp.contrib.tokens",
    "tests.services.site",
    *GIVEN.get("apps", []),
]
DATABASES = {"default": GIVEN["database"]}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
CHANNEL_LAYERS = {"default": GIVEN["layer"]}
CACHES = {"default": GIVEN["cache"]}
DJANGO_MCP = {
    "NAME": "site",
    "AUTHENTICATORS": [
        "django_mcp.auth.token.TokenAuthentication",
        "django_mcp.auth.anonymous.AnonymousAuthentication",
    ],
    "HTTP_SSE": True,
    **GIVEN["settings"],
}
if "broker" in GIVEN:
    DJANGO_MCP["TASK_RUNNER"] = {
        "BACKEND": "django_mcp.tasks.runners.celery.CeleryRunner",
        "OPTIONS": {"queue": "jobs"},
    }
    CELERY_BROKER_URL = GIVEN["broker"]
    # What a worker had received when it was killed is delivered again within seconds.
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": 5,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }
    CELERY_WORKER_PREFETCH_MULTIPLIER = 1
if "task_database" in GIVEN:
    # Django 6 has the framework itself.
    FRAMEWORK = [] if find_spec("django.tasks") else ["django_tasks"]
    INSTALLED_APPS += [*FRAMEWORK, "django_tasks_db"]
    TASKS = {"default": {"BACKEND": GIVEN["task_database"]}}
    DJANGO_MCP["TASK_RUNNER"] = {
        "BACKEND": "django_mcp.tasks.runners.django_tasks.DjangoTasksRunner",
    }
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
