"""manage.py mcp_server_json: prints the server.json that publishes a server."""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import conf, registry
from django_mcp.core.server import card
from django_mcp.core.server.server import Server
from django_mcp.management import calls


class Command(BaseCommand):
    help = "Prints the server.json of a server for the MCP registry, from the data of its card."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--server", default=registry.default.name, help="name of the server")
        parser.add_argument("--url", help="URL of the endpoint; by default BASE_URL with its path")
        parser.add_argument(
            "--name",
            help="name in the registry, such as io.github.acme/shop; by default the host of the "
            "URL in reverse, and the name of the server",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        server = calls.get_server(options["server"])
        problems = [*card.problems(server)]
        if problems:
            raise CommandError(f"The server {server.name!r} cannot be published: {problems[0]}.")
        name = options["name"]
        if name is not None and not card.is_qualified(name):
            raise CommandError(f"{name!r} is no name with a namespace, such as com.example/shop")
        url = _public_url(server, options["url"])
        return json.dumps(card.registry_document(server, url, name), indent=2, ensure_ascii=False)


def _public_url(server: Server, given: str | None) -> str:
    """The URL of the endpoint; raises CommandError for one that others cannot reach."""
    if given is None and conf.get().base_url is None:
        raise CommandError('Set DJANGO_MCP["BASE_URL"] to the public URL of the site, or use --url')
    url = calls.checked_url(given or calls.url_of(server))
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_public = ip_address(host).is_global
    except ValueError:
        is_public = "." in host and not host.endswith(".localhost")
    if parts.scheme != "https" or not is_public:
        raise CommandError(f"The registry accepts public https URLs, and {url} is none")
    return url
