"""Settings of the site: what `docs/how-to/oauth.md` says, with a login page of Django's."""

import os
from pathlib import Path

from django_mcp.contrib.oauth import provider_settings

FOLDER = Path(__file__).resolve().parent

SECRET_KEY = "conformance"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
    "django_mcp",
    "django_mcp.contrib.oauth",
    "tests.conformance.site",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FOLDER / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ],
        },
    },
]
ROOT_URLCONF = "tests.conformance.site.urls"
LOGIN_URL = "login"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["EXAMPLE_DATABASE"]}
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

OAUTH2_PROVIDER = provider_settings({"conformance": "Use the tools"})
DJANGO_MCP = {
    "NAME": "conformance",
    "AUTHENTICATORS": ["django_mcp.auth.oauth_toolkit.OAuthToolkitAuthentication"],
    "SCOPES": ["conformance"],
}
