"""manage.py mcp_app_preview: shows the view of a tool in the browser, in a host of MCP Apps."""

from __future__ import annotations

import signal
import threading
import webbrowser
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import registry
from django_mcp.management import addresses, callers, calls
from django_mcp.management.preview import servers
from django_mcp.management.preview.requests import NoView, SiteRequests


class Command(BaseCommand):
    help = "Shows the view of a tool in the browser, with the messages beside it."
    requires_system_checks: list[str] = []  # Nobody has to authenticate: it needs no authenticator.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tool", help="name of a tool with a view")
        parser.add_argument("arguments", nargs="?", default="{}", help="a JSON object")
        parser.add_argument("--server", default=registry.default.name, help="name of the server")
        callers.add_arguments(parser)
        parser.add_argument(
            "--port", type=int, default=0, help="port of the page, and the next one; else free ones"
        )
        parser.add_argument("--no-open", action="store_true", help="print the URL only")
        parser.add_argument(
            "--without-debug", action="store_true", help="start although DEBUG is off"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not (settings.DEBUG or options["without_debug"]):
            raise CommandError(
                "DEBUG is off, so this may be a site in use, and calls are made in earnest. "
                "Use --without-debug if that is intended."
            )
        registry.raise_broken()
        server = addresses.get_server(options["server"])
        principal = callers.principal("command", options["user"], options["scope"])
        requests = SiteRequests(server, principal)
        arguments = calls.read_arguments(options["arguments"])
        try:
            requests.view(requests.tool(options["tool"]))
        except NoView as error:
            raise CommandError(str(error)) from error
        preview = servers.Preview(requests, options["tool"], arguments)
        try:
            with servers.running(preview, port=options["port"]):
                self.stdout.write(f"{preview.url}\nCtrl-C ends the preview.")
                self.stdout.flush()
                if not options["no_open"]:
                    webbrowser.open(preview.url)
                _wait_for_signal()
        except OSError as error:
            raise CommandError(f"The preview cannot listen: {error.strerror}") from error


def _wait_for_signal() -> None:
    """Return at Ctrl-C or SIGTERM."""
    has_ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: has_ended.set())
    with suppress(KeyboardInterrupt):
        has_ended.wait()
