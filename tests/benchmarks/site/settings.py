"""Settings of the measured project; cases change them by environment variables."""

import os
from typing import Any

from tests.benchmarks.calls import AUDIENCE
from tests.benchmarks.site.database import DATABASES as DATABASES

SECRET_KEY = "only for measuring"
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.benchmarks.site",
]

AUTHENTICATORS = os.environ.get("BENCH_AUTHENTICATORS", "anonymous.AnonymousAuthentication").split()
NEEDED_APPS = {
    "token.TokenAuthentication": "django_mcp.contrib.tokens",
    "oauth_toolkit.OAuthToolkitAuthentication": "oauth2_provider",
}
INSTALLED_APPS += [NEEDED_APPS[each] for each in AUTHENTICATORS if each in NEEDED_APPS]
if os.environ.get("BENCH_CALL_LOG"):
    INSTALLED_APPS.append("django_mcp.contrib.call_log")

STORES = {
    "memory": ("memory.MemorySessionStore", "memory.MemoryEventStore"),
    "database": ("database.DatabaseSessionStore", "database.DatabaseEventStore"),
    "cache": ("cache.CacheSessionStore", "cache.CacheEventStore"),
}
_sessions, _events = STORES[os.environ.get("BENCH_STORE", "database")]

DJANGO_MCP = {
    "AUTHENTICATORS": [f"django_mcp.auth.{each}" for each in AUTHENTICATORS],
    # The port, and with it the URL of the endpoint, differs in each run.
    "AUDIENCES": [AUDIENCE],
    "STORES": {
        "sessions": {"BACKEND": f"django_mcp.stores.{_sessions}"},
        "events": {"BACKEND": f"django_mcp.stores.{_events}"},
    },
}

REDIS_URL = os.environ.get("BENCH_REDIS")
CACHES: dict[str, Any] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CHANNEL_LAYERS: dict[str, Any] = {
    "default": {"BACKEND": "channels.layers.InMemoryChannelLayer"},
}
if REDIS_URL:
    CACHES["default"] = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
    }
    CHANNEL_LAYERS["default"] = {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
