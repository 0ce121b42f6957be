"""manage.py mcp_show: prints the components of the site's MCP servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import registry
from django_mcp.registry import Entry, entries

COLUMNS = ("SERVER", "PATH", "KIND", "NAME", "PERMISSION", "SOURCE")


class Command(BaseCommand):
    """Prints a table of all components, or all details of those with one name."""

    help = "Prints the registered tools, resources and prompts; with a name, all its details."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="a name, a URI or a URI template")
        parser.add_argument("--server", help="name of a server; without it, all of them")
        parser.add_argument(
            "--json", action="store_true", dest="as_json", help="print everything as JSON"
        )

    def handle(self, *args: Any, **options: Any) -> str:
        found = list(_chosen(options["name"], options["server"]))
        if options["name"] and not found:
            raise CommandError(f"Nothing named {options['name']!r} is registered.")
        if options["as_json"]:
            return _json([entry.facts() for entry in found])
        if options["name"]:
            return "\n\n".join(_details(entry.facts()) for entry in found)
        return "\n".join(_table(found))


def _chosen(name: str | None, server: str | None) -> Iterator[Entry]:
    try:
        servers = registry.servers() if server is None else (registry.get(server),)
    except LookupError as error:
        raise CommandError(str(error)) from error
    for each in map(registry.configure, servers):
        for entry in entries(each):
            if name in (None, entry.component.name, entry.component.key):
                yield entry


def _table(found: Iterable[Entry]) -> Iterator[str]:
    rows = [COLUMNS, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _row(entry: Entry) -> Sequence[str]:
    server, component = entry.server, entry.component
    permission = entry.permission or "-"
    return (server.name, server.path, entry.kind, component.key, permission, component.source)


def _details(facts: Mapping[str, Any]) -> str:
    """Return one line per fact, or JSON below its name."""
    return "\n".join(
        f"{name}: {value}" if isinstance(value, str | int) else f"{name}:\n{_json(value)}"
        for name, value in {**facts, **facts["listed"]}.items()
        if name != "listed" and value not in (None, "", [])
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
