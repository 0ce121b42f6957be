"""manage.py mcp_stdio: serves one of the site's MCP servers to the parent process."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import registry
from django_mcp.server.server import Server
from django_mcp.transports.connection import stdio


class Command(BaseCommand):
    help = "Serves an MCP server over stdin and stdout, to the client that starts this process."
    requires_system_checks: list[str] = []  # Their output would mix with the messages.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--server", default=registry.default.name, help="name of the server")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            server = registry.configure(registry.get(options["server"]))
        except LookupError as error:
            raise CommandError(str(error)) from error
        asyncio.run(_serve(server))


async def _serve(server: Server) -> None:
    with stdio.guarded_stdout() as out:
        serving = asyncio.ensure_future(stdio.serve(server, out))
        with suppress(NotImplementedError):  # Windows has no such signal.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving
