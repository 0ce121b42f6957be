"""manage.py mcp_show: prints the components of the site's MCP servers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.management.color import Style

from django_mcp import registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import visibility
from django_mcp.core.frame.transport import StdioTransport
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST
from django_mcp.core.protocol.texts import similar
from django_mcp.management import calls, descriptions
from django_mcp.pubsub import switches
from django_mcp.registry import Entry, entries
from django_mcp.runtime import pools
from django_mcp.transports import in_process

COLUMNS = ("SERVER", "PATH", "KIND", "NAME", "PERMISSION", "SOURCE")


class Command(BaseCommand):
    help = "Prints the registered tools, resources and prompts; with a name, all its details."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="a name, a URI or a URI template")
        parser.add_argument("--server", help="name of a server; without it, all of them")
        parser.add_argument(
            "--json", action="store_true", dest="as_json", help="print everything as JSON"
        )
        parser.add_argument("--user", help="username: only what this user is listed")
        parser.add_argument(
            "--revision",
            choices=BY_VERSION,
            default=NEWEST.version,
            help="version of the protocol in which details and JSON are printed",
        )
        parser.add_argument(
            "--describe",
            action="store_true",
            help="print what a model reads of the tools, its size, and what is weak",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        registered = _entries(options["server"])
        shown = registered
        if options["user"]:
            principal = calls.principal("command", options["user"], ())
            # On this thread, which has the connections of the command.
            with pools.thread_sensitive():
                shown = async_to_sync(_listed)(principal, shown)
        if options["name"]:
            shown = _with_name(options["name"], shown)
        revision = BY_VERSION[options["revision"]]
        if options["describe"]:
            described = descriptions.describe(registered)
            chosen = [item for item in described if item.entry in shown]
            texts = [descriptions.text(item) for item in chosen]
            return "\n\n".join([*texts, "\n".join(descriptions.totals(chosen))])
        if options["as_json"]:
            return _json([entry.facts(revision) for entry in shown])
        if options["name"]:
            return "\n\n".join(_details(entry.facts(revision), self.style) for entry in shown)
        return "\n".join(_table(shown, self.style))


def _entries(server: str | None) -> list[Entry]:
    """Return the components of a server, or of all."""
    try:
        servers = registry.servers() if server is None else (registry.get(server),)
    except LookupError as error:
        raise CommandError(str(error)) from error
    switches.refresh_safely()
    return [*entries(*map(registry.configure, servers))]


async def _listed(principal: Principal, registered: Sequence[Entry]) -> list[Entry]:
    """Return the components that a caller is listed."""
    request = Request(1, "tools/list", {})
    shown: list[Entry] = []
    for entry in registered:
        frame = in_process.newest_request(
            entry.server, principal, request, transport=StdioTransport()
        )
        if not entry.is_switched_off and await visibility.listed(frame, [entry.component], 1):
            shown.append(entry)
    return shown


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
    near = similar(name, sorted(names))
    suggestion = f" Did you mean {near!r}?" if near else " See mcp_show without a name."
    raise CommandError(f"Nothing named {name!r} is registered.{suggestion}")


def _table(entries: Sequence[Entry], style: Style) -> Iterator[str]:
    rows = [COLUMNS, *map(_row, entries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    yield style.MIGRATE_HEADING(heading)
    for entry, line in zip(entries, lines, strict=True):
        yield style.WARNING(line) if entry.is_switched_off else line


def _row(entry: Entry) -> tuple[str, ...]:
    server = entry.server
    item = entry.component
    permission = str(entry.permission or "-")
    name = f"{item.key} (switched off)" if entry.is_switched_off else item.key
    return server.name, server.path, entry.kind, name, permission, item.source


def _details(facts: Mapping[str, Any], style: Style) -> str:
    """Return one line per fact, or JSON below its name."""
    lines = []
    for name, value in {**facts, **facts["listed"]}.items():
        if name == "listed" or value in (None, "", [], False):
            continue
        label = style.MIGRATE_HEADING(f"{name}:")
        is_short = isinstance(value, str | int)
        lines.append(f"{label} {value}" if is_short else f"{label}\n{_json(value)}")
    return "\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
