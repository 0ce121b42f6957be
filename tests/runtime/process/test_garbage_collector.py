"""Exempting what exists from garbage collections, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

from tests.waiting import SECONDS

SCRIPT = """
import asyncio, gc, sys
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x",
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
)
django.setup()
from django_mcp.routing import mount

async def serve(scope, receive, send):
    pass

async def main():
    application = mount(serve)
    assert gc.get_freeze_count() == 0
    for _ in range(2):
        await application({"type": "http", "path": "/", "headers": []}, None, None)
        print(gc.get_freeze_count() > 10_000, gc.isenabled())

asyncio.run(main())
"""


def test_objects_that_exist_at_the_first_request_are_frozen() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert done.stdout.splitlines() == ["True True"] * 2
