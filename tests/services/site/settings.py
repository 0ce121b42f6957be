"""Settings of the site; SERVICES_SITE has what differs between tests, as ``workers`` writes it."""

import json
import os

GIVEN = json.loads(os.environ["SERVICES_SITE"])

SECRET_KEY = "services"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.services.site.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.services.site",
]
DATABASES = {"default": GIVEN["database"]}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
CHANNEL_LAYERS = {"default": GIVEN["layer"]}
CACHES = {"default": GIVEN["cache"]}
DJANGO_MCP = {
    "NAME": "site",
    "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
    "HTTP_SSE": True,
    **GIVEN["settings"],
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
