"""A worker process that assigns fifty keys in a session, each in an update of its own.

``python -m tests.stores.writer <database> <session id> <mark>`` prints a line when it is ready,
starts after a line of input, and prints a line when it is done. The database is an entry of
``DATABASES`` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module

import django
from django.conf import settings

from django_mcp.core.frame.session import Change


async def write(session_id: str, mark: str) -> None:
    """Assign the keys."""
    # Modules that import models can be imported after django.setup() only.
    make_store = import_module("django_mcp.stores").sessions
    for number in range(50):
        await make_store().update(session_id, [Change("assigns", "put", f"{mark}{number}", number)])


if __name__ == "__main__":
    database, session_id, mark = sys.argv[1:]
    settings.configure(
        DATABASES={"default": json.loads(database)},
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django_mcp.apps.SimpleMcpConfig",
        ],
    )
    django.setup()
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(write(session_id, mark))
    print("done", flush=True)
