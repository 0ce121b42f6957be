"""manage.py mcp_show: prints the components of the site's MCP servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp import registry
from django_mcp.management import descriptions
from django_mcp.registry import Entry, entries

COLUMNS = ("SERVER", "PATH", "KIND", "NAME", "PERMISSION", "SOURCE")


class Command(BaseCommand):
    help = "Prints the registered tools, resources and prompts; with a name, all its details."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="a name, a URI or a URI template")
        parser.add_argument("--server", help="name of a server; without it, all of them")
        parser.add_argument(
            "--json", action="store_true", dest="as_json", help="print everything as JSON"
        )
        parser.add_argument(
            "--describe",
            action="store_true",
            help="print what a model reads of the tools, its size, and what is weak",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        registered = _entries(options["server"])
        shown = registered
        if options["name"]:
            shown = _with_name(options["name"], registered)
        if options["describe"]:
            described = descriptions.describe(registered)
            chosen = [item for item in described if item.entry in shown]
            texts = [descriptions.text(item) for item in chosen]
            return "\n\n".join([*texts, "\n".join(descriptions.totals(chosen))])
        if options["as_json"]:
            return _json([entry.facts() for entry in shown])
        if options["name"]:
            return "\n\n".join(_details(entry.facts()) for entry in shown)
        return "\n".join(_table(shown))


def _entries(server: str | None) -> list[Entry]:
    """Return the components of a server, or of all."""
    try:
        servers = registry.servers() if server is None else (registry.get(server),)
    except LookupError as error:
        raise CommandError(str(error)) from error
    return [*entries(*map(registry.configure, servers))]


def _with_name(name: str, registered: Sequence[Entry]) -> list[Entry]:
    """Return the components of this name; raises CommandError, with a similar name, for none."""
    names: set[str] = set()
    matching: list[Entry] = []
    for entry in registered:
        own = {entry.component.name, entry.component.key}
        names |= own
        if name in own:
            matching.append(entry)
    if matching:
        return matching
    similar = get_close_matches(name, sorted(names), n=1)
    suggestion = f" Did you mean {similar[0]!r}?" if similar else " See mcp_show without a name."
    raise CommandError(f"Nothing named {name!r} is registered.{suggestion}")


def _table(entries: Iterable[Entry]) -> Iterator[str]:
    rows = [COLUMNS]
    for entry in entries:
        server = entry.server
        item = entry.component
        permission = str(entry.permission or "-")
        rows.append((server.name, server.path, entry.kind, item.key, permission, item.source))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _details(facts: Mapping[str, Any]) -> str:
    """Return one line per fact, or JSON below its name."""
    return "\n".join(
        f"{name}: {value}" if isinstance(value, str | int) else f"{name}:\n{_json(value)}"
        for name, value in {**facts, **facts["listed"]}.items()
        if name != "listed" and value not in (None, "", [])
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
