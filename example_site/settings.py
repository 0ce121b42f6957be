"""Settings of the example site, for local use and not for production.

The environment variables EXAMPLE_DATABASE, EXAMPLE_REDIS_URL, SECRET_KEY, DEBUG and ALLOWED_HOSTS
override what differs between machines.
"""

import os
from pathlib import Path
from typing import Any

from django_mcp.contrib.oauth import provider_settings

BASE_DIR = Path(__file__).resolve().parent.parent

# Suitable for local use only. It signs sessions and cursors, so a site that is reachable from
# elsewhere needs a secret of its own.
SECRET_KEY = os.environ.get("SECRET_KEY", "insecure-key-of-the-example-site")

DEBUG = os.environ.get("DEBUG", "True").lower() in ("1", "true", "yes", "on")

# MCP endpoints reject other hosts and origins, too.
ALLOWED_HOSTS = [
    ".localhost",
    "127.0.0.1",
    "[::1]",
    "testserver",
    *os.environ.get("ALLOWED_HOSTS", "").split(),
]

INSTALLED_APPS = [
    "daphne",  # The first, because it replaces Django's runserver with one that supports ASGI.
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "oauth2_provider",
    "django_mcp",
    "django_mcp.contrib.tokens",
    "django_mcp.contrib.oauth",
    "rest_framework",
    "django_mcp.contrib.url_elicitation",
    "django_mcp.contrib.approvals",
    "django_mcp.contrib.call_log",
    "django_mcp.contrib.events",
    "django_mcp.contrib.skills",
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
    # Tried in this order. Without the last one, only authenticated users may connect.
    "AUTHENTICATORS": [
        "django_mcp.auth.token.TokenAuthentication",
        "django_mcp.auth.oauth_toolkit.OAuthToolkitAuthentication",
        "django_mcp.auth.django_session.DjangoSessionAuthentication",
        "django_mcp.auth.anonymous.AnonymousAuthentication",
    ],
    # Every access token needs it, so that clients ask for it and for no more.
    "SCOPES": ["helpdesk"],
    # Clients of revision 2024-11-05 read from /mcp/sse, and post to /mcp/messages.
    "HTTP_SSE": True,
}

# The site is an authorization server, whose scopes users see in these words.
OAUTH2_PROVIDER = provider_settings(
    {
        "helpdesk": "Use the helpdesk and the desk",
        "helpdesk:write": "Change the priority of tickets",
    }
)

# A tool of the official conformance suite has anyOf at the top of its schema.
SILENCED_SYSTEM_CHECKS = ["django_mcp.W042"]

ASGI_APPLICATION = "example_site.asgi.application"
WSGI_APPLICATION = "example_site.wsgi.application"
ROOT_URLCONF = "example_site.urls"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "home"

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
            # Tools run concurrently: readers do not wait for a writer, and a writer gets the lock
            # at the start of its transaction instead of failing within it.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The channel layer sends notifications between processes. The in-memory layer suffices for
# a single process.
REDIS_URL = os.environ.get("EXAMPLE_REDIS_URL")
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

# Warnings and errors are written to stderr; over stdio, stdout is reserved for the protocol.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # Django's own configuration would print each record a second time.
        "django": {"handlers": [], "level": "WARNING"},
        # Logs the address that the server listens at.
        "daphne.server": {"level": "INFO"},
    },
}
