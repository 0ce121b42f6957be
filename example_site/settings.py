"""Settings of the example site: enough to try everything out, not to be deployed as they are.

What differs from one machine to the next comes from the environment: EXAMPLE_DATABASE,
SECRET_KEY, DEBUG, ALLOWED_HOSTS and REDIS_URL.
"""

import os
from pathlib import Path
from typing import Any

BASE_DIR = Path(__file__).resolve().parent.parent

# Good enough to try things out on one's own machine. It signs sessions and cursors, so a site
# which others can reach needs a secret of its own.
SECRET_KEY = os.environ.get("SECRET_KEY", "insecure-key-of-the-example-site")

DEBUG = os.environ.get("DEBUG", "True").lower() in ("1", "true", "yes", "on")

# MCP endpoints refuse other hosts too, and pages of other origins.
ALLOWED_HOSTS = [
    ".localhost",
    "127.0.0.1",
    "[::1]",
    "testserver",
    *os.environ.get("ALLOWED_HOSTS", "").split(),
]

INSTALLED_APPS = [
    "daphne",  # First, since its runserver, which speaks ASGI, replaces Django's.
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_mcp",
    "example_site.helpdesk",
    "example_site.desk",
    "example_site.conformance",
]

DJANGO_MCP = {
    "NAME": "example-site",
    "TITLE": "Example site",
    "INSTRUCTIONS": (
        "A helpdesk, and a desk with a calculator, units, a timer and notes. Begin with "
        "search_tickets; a ticket with its comments is the resource ticket://{number}."
    ),
    # Asked in this order. Without the second one, only people who have logged in may call.
    "AUTHENTICATORS": [
        "django_mcp.auth.django_session.DjangoSessionAuthentication",
        "django_mcp.auth.anonymous.AnonymousAuthentication",
    ],
    # Clients of the first revision read from /mcp/sse, and post to /mcp/messages.
    "HTTP_SSE": True,
}

ASGI_APPLICATION = "example_site.asgi.application"
WSGI_APPLICATION = "example_site.wsgi.application"
ROOT_URLCONF = "example_site.urls"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "example_site" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("EXAMPLE_DATABASE", BASE_DIR / "db.sqlite3"),
        "OPTIONS": {
            # Several tools run at once: readers do not wait for a writer, and a writer waits
            # its turn at the beginning of its transaction instead of failing in the middle.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# By the channel layer one process tells another that something has changed. In-memory is right
# for a single process.
REDIS_URL = os.environ.get("REDIS_URL")
CHANNEL_LAYERS: dict[str, Any] = {
    "default": (
        {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    ),
}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"

# Warnings and errors go to stderr; stdout belongs to the protocol when MCP runs over stdio.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # Django's own configuration would print what it logs a second time.
        "django": {"handlers": [], "level": "WARNING"},
        # Says where it listens.
        "daphne.server": {"level": "INFO"},
    },
}
