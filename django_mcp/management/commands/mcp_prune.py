"""manage.py mcp_prune: deletes expired sessions and events."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand

from django_mcp import stores


class Command(BaseCommand):
    help = "Deletes expired MCP sessions and events. Run it regularly, for example by cron."

    def handle(self, *args: Any, **options: Any) -> None:
        sessions = async_to_sync(stores.sessions().prune)()
        events = async_to_sync(stores.events().prune)()
        self.stdout.write(f"Deleted {sessions} sessions and {events} events.")
