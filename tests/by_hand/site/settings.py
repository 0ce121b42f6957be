"""Settings of the site; what differs between tests comes from the environment."""

import json
import os

SECRET_KEY = "robustness"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.by_hand.site.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django_mcp",
    "tests.by_hand.site",
]
DATABASES = {
    "default": json.loads(os.environ["ROBUSTNESS_DATABASE"])
    if "ROBUSTNESS_DATABASE" in os.environ
    else {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LAYER = os.environ.get("ROBUSTNESS_LAYER", "channels.layers.InMemoryChannelLayer")
CHANNEL_LAYERS = {"default": {"BACKEND": LAYER}}
USE_TZ = True
DJANGO_MCP = {
    "NAME": "robustness",
    "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
    **json.loads(os.environ.get("ROBUSTNESS_SETTINGS", "{}")),
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
