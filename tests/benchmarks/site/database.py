"""The database of all measured Django projects, configured as in production.

It depends on Django only: the peers' projects import it in environments of their own.
"""

import os
from typing import Any
from urllib.parse import urlsplit

SQLITE: dict[str, Any] = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.environ.get("BENCH_DATABASE", ":memory:"),
    "OPTIONS": {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
    },
}


def postgresql(url: str) -> dict[str, Any]:
    """Return the settings of the database that a URL names."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "OPTIONS": {},
    }


CONNECTIONS: dict[str, dict[str, Any]] = {
    "closed": {"CONN_MAX_AGE": 0},  # Django's default: closed at the end of each request.
    "kept": {"CONN_MAX_AGE": None},
    "pooled": {"CONN_MAX_AGE": 0, "OPTIONS": {"pool": {"min_size": 2, "max_size": 16}}},
}

_url = os.environ.get("BENCH_POSTGRESQL")
_connections = CONNECTIONS[os.environ.get("BENCH_CONNECTIONS", "kept")]
DATABASES = {"default": (postgresql(_url) if _url else SQLITE) | _connections}
