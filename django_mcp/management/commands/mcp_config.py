"""manage.py mcp_config: prints the configuration of MCP clients for one of the site's servers."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from django_mcp import conf, registry
from django_mcp.core.server.server import Server
from django_mcp.management import calls, terminal
from django_mcp.management.client_configuration import CLIENTS, VARIABLE, Client, Endpoint, Process

UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters that some clients reject in the name of a server."""


class Command(BaseCommand):
    help = "Prints what to write into the configuration of each MCP client, for HTTP and stdio."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--server", default=registry.default.name, help="name of the server")
        parser.add_argument("--url", help="URL of the endpoint; by default BASE_URL with its path")
        parser.add_argument("--client", choices=CLIENTS, help="one client; without it, all of them")
        parser.add_argument("--transport", choices=("http", "stdio"), help="one of the two")
        parser.add_argument(
            "--token",
            nargs="?",
            const="",
            help=f"authenticate by this access token, or by that in the variable {VARIABLE}",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        server = calls.get_server(options["server"])
        name = conf.get().name if server is registry.default else server.name
        name = UNUSUAL.sub("-", name).strip("-") or "mcp"  # As the page for browsers names it.
        url = calls.checked_url(options["url"] or calls.url_of(server))
        endpoint = Endpoint(name=name, url=url, token=options["token"])
        process = _process(name, server)
        chosen = [CLIENTS[options["client"]]] if options["client"] else _chosen()
        parts: list[str] = []
        for client in chosen:
            if options["transport"] != "stdio":
                place = f"# {client.title}, HTTP: {client.http_place}"
                parts.append(f"{place}\n{client.http(endpoint)}")
            if options["transport"] != "http":
                place = f"# {client.title}, stdio: {client.stdio_place}"
                parts.append(f"{place}\n{client.stdio(process)}")
        return "\n\n".join(parts)


def _chosen() -> list[Client]:
    """All clients, or the one that whoever sits at the terminal chooses."""
    clients = [*CLIENTS.values()]
    if not terminal.is_interactive():
        return clients
    index = terminal.choose("Which client?", [client.title for client in clients])
    return clients if index is None else [clients[index]]


def _process(name: str, server: Server) -> Process:
    """The process of ``mcp_stdio``: its paths are absolute, because its folder is unknown."""
    option = () if server is registry.default else ("--server", server.name)
    module = os.environ.get("DJANGO_SETTINGS_MODULE") or settings.SETTINGS_MODULE
    environment = {"DJANGO_SETTINGS_MODULE": module}
    # The manage.py that runs, or the project's.
    folders = (getattr(settings, "BASE_DIR", None), Path.cwd())
    paths = (Path(sys.argv[0]), *(Path(folder) / "manage.py" for folder in folders if folder))
    scripts = (path.resolve() for path in paths if path.name == "manage.py" and path.is_file())
    script = next(scripts, None)
    if script is None:
        environment["PYTHONPATH"] = str(Path.cwd())
    start = ("-m", "django") if script is None else (str(script),)
    return Process(
        name=name,
        command=sys.executable,
        arguments=(*start, "mcp_stdio", *option),
        environment=environment,
    )
