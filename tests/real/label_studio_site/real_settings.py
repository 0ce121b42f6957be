"""Label Studio with this package: what a project adds to its settings."""

# What the second module imports reads the settings of the first one, from here.
from core.settings.base import *  # noqa: F403
from core.settings.label_studio import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "django_mcp", "real"]  # noqa: F405
DJANGO_MCP = {
    "AUTHENTICATORS": ["django_mcp.auth.django_session.DjangoSessionAuthentication"],
    "STORES": {
        "sessions": {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"},
        "events": {"BACKEND": "django_mcp.stores.memory.MemoryEventStore"},
    },
}
