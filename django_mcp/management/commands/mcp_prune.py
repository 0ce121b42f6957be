"""manage.py mcp_prune: forgets sessions and events which have expired."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand

from django_mcp import stores


class Command(BaseCommand):
    """Clears what nobody can load any more, and the database still holds."""

    help = "Forgets MCP sessions and events which have expired. Run it now and then, by cron."

    def handle(self, *args: Any, **options: Any) -> None:
        """Forget, and say how much."""
        sessions = async_to_sync(stores.sessions().prune)()
        events = async_to_sync(stores.events().prune)()
        self.stdout.write(f"Forgot {sessions} sessions and {events} events.")
