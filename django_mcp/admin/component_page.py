"""The page of a component: its descriptor for clients, and the rights to use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_mcp import registry
from django_mcp.core.protocol.revisions import Statefulness
from django_mcp.core.protocol.schema import parameters
from django_mcp.core.protocol.schema.parameters import Parameter
from django_mcp.registry import Entry

MEMBERS = {
    "annotations": _("Annotations"),
    "execution": _("Execution"),
    "icons": _("Icons"),
    "_meta": _("Metadata"),
}
"""Members of a descriptor that are shown as JSON, and their headings."""
TEXTS = {
    "uri": _("URI"),
    "uriTemplate": _("URI template"),
    "mimeType": _("MIME type"),
    "size": _("Size in bytes"),
}
"""Members of a descriptor that are shown as text, and their labels."""


class Fact(NamedTuple):
    """A line of a list of facts."""

    label: Any
    value: Any
    is_code: bool = False


class Table(NamedTuple):
    """Parameters as a table, and the JSON that clients read."""

    heading: Any
    rows: Sequence[Parameter]
    json: str
    json_heading: Any
    empty: Any

    @property
    def has_defaults(self) -> bool:
        return any(row.default for row in self.rows)

    @property
    def has_descriptions(self) -> bool:
        return any(row.description or row.limits for row in self.rows)


class ShownIn(NamedTuple):
    """A revision that the server speaks, and the members that its clients are not sent."""

    version: str
    missing: str


def facts(entry: Entry) -> list[Fact]:
    """Return where a component is declared, and how clients address it."""
    listed = entry.descriptor
    texts = [Fact(label, listed[name], True) for name, label in TEXTS.items() if name in listed]
    return [
        Fact(_("Server"), entry.server.name),
        Fact(_("Kind"), entry.kind),
        Fact(_("Name"), entry.component.name, True),
        *texts,
        Fact(_("App"), entry.app or "-"),
        Fact(_("Declared in"), entry.component.source, True),
        *(Fact(label, value) for label, value in entry.labelled_options()),
    ]


def access(entry: Entry) -> list[Fact]:
    """Return the rights that a caller needs for a component."""
    component = entry.component
    policy = component.when_denied or entry.server.when_denied
    policies = [] if policy is None else [Fact(_("Otherwise"), policy)]
    cache = component.cache
    hint = "-" if cache is None else f"{cache.ttl_ms} ms, {cache.scope}"
    return [
        Fact(_("Permission"), entry.permission or _("none"), bool(entry.permission)),
        Fact(_("Scopes"), ", ".join(sorted(component.scopes)) or _("none")),
        *policies,
        Fact(_("Group"), component.group or "-"),
        Fact(_("Cache hint"), hint),
    ]


def tables(entry: Entry) -> list[Table]:
    """Return the parameters of a component, and the members of its result."""
    listed = entry.descriptor
    shown = []
    if "inputSchema" in listed:
        schema = listed["inputSchema"]
        rows = parameters.of_schema(schema)
        empty = _("It has no parameters.")
        shown.append(Table(_("Parameters"), rows, _json(schema), _("Input schema as JSON"), empty))
    if "arguments" in listed:
        arguments = listed["arguments"]
        rows = parameters.of_prompt(arguments)
        text = _json(arguments)
        shown.append(Table(_("Arguments"), rows, text, _("Arguments as JSON"), ""))
    if "outputSchema" in listed:
        schema = listed["outputSchema"]
        rows = parameters.of_schema(schema)
        empty = _("Its members are not named.")
        shown.append(Table(_("Result"), rows, _json(schema), _("Output schema as JSON"), empty))
    return shown


def details(entry: Entry) -> list[Fact]:
    """Return the members that are shown as JSON."""
    listed = entry.descriptor
    return [Fact(label, _json(listed[name])) for name, label in MEMBERS.items() if name in listed]


def revisions(entry: Entry) -> list[ShownIn]:
    """Return the revisions that show a component, newest first."""
    server = entry.server
    registry.make_ready(server)
    served = [
        revision for statefulness in Statefulness for revision in server.revisions(statefulness)
    ]
    newest_first = sorted(served, key=lambda revision: revision.version, reverse=True)
    everything = entry.descriptor
    shown = []
    for revision in newest_first:
        listed = server.components.descriptor(revision, entry.component)
        missing = sorted(everything.keys() - listed.keys())
        shown.append(ShownIn(revision.version, ", ".join(missing)))
    return shown


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
