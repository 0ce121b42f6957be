"""manage.py mcp_stdio: serves one of the site's MCP servers to the parent process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import close_old_connections

from django_mcp import registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.server.server import Server
from django_mcp.management import calls
from django_mcp.transports.connection import connection, stdio

EXIT_WITHIN = 5.0
"""Seconds after the grace of running calls for everything else to end."""


class Command(BaseCommand):
    help = "Serves an MCP server over stdin and stdout, to the client that starts this process."
    requires_system_checks: list[str] = []  # Their output would mix with the messages.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--server", default=registry.default.name, help="name of the server")
        calls.add_caller_arguments(parser)
        calls.add_selection_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        registry.raise_broken()  # No system check has reported it.
        server = calls.get_server(options["server"])
        principal = calls.principal("stdio", options["user"], options["scope"])
        principal = replace(principal, selection=calls.selected(options))
        is_process = getattr(self, "_called_from_command_line", False)
        if is_process:  # It may live for days, and this thread is idle.
            close_old_connections()
        ended = _exit_soon if is_process else lambda: None
        asyncio.run(_serve(server, principal, ended))


async def _serve(server: Server, principal: Principal, ended: Callable[[], object]) -> None:
    with stdio.guarded_stdio() as (source, out):
        served = stdio.serve(server, source, out, principal, ended=ended)
        serving = asyncio.ensure_future(served)
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            loop.remove_signal_handler(number)  # A second signal ends the process at once.
            ended()
            serving.cancel()

        with suppress(NotImplementedError):  # Windows has only KeyboardInterrupt.
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop, number)
        with suppress(asyncio.CancelledError):
            await serving


def _exit_soon() -> None:
    """End the process within a bound, whatever handlers, hooks and their threads do."""
    timer = threading.Timer(connection.grace_period() + EXIT_WITHIN, os._exit, (0,))
    timer.daemon = True
    timer.start()
