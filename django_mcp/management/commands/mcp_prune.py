"""manage.py mcp_prune: deletes expired sessions, events and tasks, and rows of extensions.

An extension which has more to delete has a function ``prune``. It returns a sentence about the
deleted rows.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand

from django_mcp import stores
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.runtime import pools
from django_mcp.tasks import store


class Command(BaseCommand):
    help = (
        "Deletes expired MCP sessions, events and tasks, and OAuth clients that were never used, "
        "as the workers do once a minute."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        sessions = async_to_sync(stores.sessions().prune)()
        events = async_to_sync(stores.events().prune)()
        # On this thread, which may be in the transaction of a test.
        with pools.thread_sensitive():
            tasks = async_to_sync(store.get().prune)()
        self.stdout.write(f"Deleted {sessions} sessions, {events} events and {tasks} tasks.")
        for extension in INSTALLED.all:
            if extension.prune is not None:
                self.stdout.write(str(extension.prune()))
