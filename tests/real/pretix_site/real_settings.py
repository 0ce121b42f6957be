"""pretix with this package: what a project adds to its settings."""

from pretix.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "django_mcp", "real"]  # noqa: F405
EMAIL_BACKEND = EMAIL_CUSTOM_SMTP_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
DJANGO_MCP = {
    "AUTHENTICATORS": ["real.tokens.ApiTokens"],
    "STORES": {
        "sessions": {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"},
        "events": {"BACKEND": "django_mcp.stores.memory.MemoryEventStore"},
    },
    "FIRST_MIDDLEWARE": ["pretix.helpers.logs.RequestIdMiddleware"],
    # The scope of the organizer in the URL, and what else of pretix concerns its API.
    "VIEW_MIDDLEWARE": [
        "pretix.base.middleware.BaseLocaleMiddleware",
        "pretix.api.middleware.IdempotencyMiddleware",
        "pretix.multidomain.middlewares.MultiDomainMiddleware",
        "pretix.multidomain.middlewares.SessionMiddleware",
        "pretix.api.middleware.ApiScopeMiddleware",
    ],
}
