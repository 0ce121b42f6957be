"""A small site of Wagtail with its API v3, and with this package."""

import os
from pathlib import Path

DATA = Path(os.environ["WAGTAIL_DATA"])
SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost"]
ROOT_URLCONF = "real.urls"
INSTALLED_APPS = [
    "wagtail.contrib.redirects",
    "wagtail.sites",
    "wagtail.users",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
    "wagtail.api.v3",
    "modelcluster",
    "taggit",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_mcp",
    "real",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MEDIA_ROOT = DATA / "media"
STATIC_URL = "/static/"
USE_TZ = True
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
WAGTAIL_SITE_NAME = "Shop"
WAGTAILADMIN_BASE_URL = "http://localhost"
DJANGO_MCP = {
    "AUTHENTICATORS": [
        "real.tokens.ApiTokens",
        "django_mcp.auth.anonymous.AnonymousAuthentication",
    ],
    "STORES": {
        "sessions": {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"},
        "events": {"BACKEND": "django_mcp.stores.memory.MemoryEventStore"},
    },
}
