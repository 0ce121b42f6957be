"""manage.py mcp_doctor: sends a running server the requests of MCP clients, and prints findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import registry
from django_mcp.management import calls
from django_mcp.management.discovery import CLIENTS
from django_mcp.management.examination import Http, by_clients, has_failed, heading, of_project
from django_mcp.management.findings.base import Finding

MAX_TIMEOUT = 3_600.0
"""Seconds: a thread cannot wait for any number of them."""


class Command(BaseCommand):
    help = "Says which MCP clients can connect to a running server and log in, and what to mend."
    requires_system_checks: list[str] = []  # The server may be of another project.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "url", nargs="?", help="URL of the endpoint; by default BASE_URL with the server's path"
        )
        parser.add_argument("--server", default=registry.default.name, help="name of the server")
        parser.add_argument("--client", choices=CLIENTS, help="one client; without it, all of them")
        parser.add_argument("--timeout", type=float, default=10.0, help="seconds for each request")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 < options["timeout"] <= MAX_TIMEOUT:
            raise CommandError(f"--timeout must be a number of seconds up to {MAX_TIMEOUT:g}")
        given = options["url"] or calls.url_of(calls.get_server(options["server"]))
        url = calls.checked_url(given)
        show = self.stdout.write if options["verbosity"] > 1 else lambda _: None
        http = Http(options["timeout"], show)
        chosen = [CLIENTS[options["client"]]] if options["client"] else [*CLIENTS.values()]
        findings = {client.title: http.play(client, url) for client in chosen}
        in_project = of_project(url, http)
        self._print(in_project)
        for titles, shared in by_clients(findings).items():
            self._print({heading(titles, findings): shared})
        failing = [title for title, of_client in findings.items() if has_failed(of_client)]
        if failing:
            raise CommandError(f"{heading(failing, findings)} cannot connect to {url} or log in")
        if any(map(has_failed, in_project.values())):
            raise CommandError("Clients connect, but this project has errors")

    def _print(self, sections: Mapping[str, Sequence[Finding]]) -> None:
        for title, findings in sections.items():
            self.stdout.write(self.style.MIGRATE_HEADING(title))
            for finding in findings:
                self.stdout.write(f"  {finding.level.value:<8}{finding.text}")
                if finding.remedy:
                    self.stdout.write(f"  {'':<8}Mend: {finding.remedy}")
