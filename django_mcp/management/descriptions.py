"""The tools of a server as a model reads them, their size, and their weaknesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django_mcp.core.components.tool import ToolComponent
from django_mcp.registry import Entry

MAX_NAME = 37
"""Characters. Hosts put ``mcp__server__`` before a name and allow 64 together."""
MAX_PARAMETERS = 25
GENERATED = "django_mcp.toolsets."
"""The package with the handlers of toolsets. Their parameters are fields of the model, with or
without a lookup: the names explain them, and a description of each would cost more than it says."""


@dataclass(frozen=True)
class Description:
    """One tool as a model reads it."""

    entry: Entry
    listed: Mapping[str, Any]
    weaknesses: Sequence[str]

    @cached_property
    def tokens(self) -> int:
        return self.entry.tokens


def describe(entries: Iterable[Entry]) -> list[Description]:
    """Return the tools among the entries, each with its weaknesses."""
    listed = [
        (entry, entry.descriptor) for entry in entries if isinstance(entry.component, ToolComponent)
    ]
    texts = Counter(
        (entry.server.name, item["description"]) for entry, item in listed if "description" in item
    )
    shared = {text for text, number in texts.items() if number > 1}
    described = []
    for entry, item in listed:
        module = getattr(entry.component.handler, "__module__", "")
        weaknesses = [*_weaknesses(item, is_generated=module.startswith(GENERATED))]
        if (entry.server.name, item.get("description")) in shared:
            weaknesses.append("another tool has the same description")
        described.append(Description(entry, item, weaknesses))
    return described


def _weaknesses(tool: Mapping[str, Any], *, is_generated: bool) -> Iterator[str]:
    name = tool["name"]
    properties = tool["inputSchema"].get("properties", {})
    if not tool.get("description"):
        yield "it has no description"
    if len(name) > MAX_NAME:
        yield f"its name has {len(name)} characters, and some hosts allow {MAX_NAME}"
    if "." in name or "/" in name:
        yield "its name has a character that some hosts refuse: use letters, digits, _ and -"
    if len(properties) > MAX_PARAMETERS:
        yield f"it has {len(properties)} parameters, and models use {MAX_PARAMETERS} well"
    bare = [key for key, schema in properties.items() if not _is_explained(schema)]
    if bare and not is_generated:
        yield f"parameters without a description: {', '.join(bare)}"


def _is_explained(schema: Any) -> bool:
    return isinstance(schema, Mapping) and bool(schema.get("description"))


def text(description: Description) -> str:
    """Return a tool as text: its description, its parameters, and its weaknesses."""
    tool = description.listed
    lines = [f"{tool['name']} ({description.entry.server.name}), about {description.tokens} tokens"]
    if title := tool.get("title"):
        lines.append(f"  {title}")
    lines += [f"  {line}".rstrip() for line in tool.get("description", "").splitlines()]
    schema = tool["inputSchema"]
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        kind = member.get("type") if isinstance(member, Mapping) else None
        if isinstance(kind, list):
            kind = " or ".join(kind)
        shown_kind = f": {kind}" if kind else ""
        lines.append(f"  - {name}{shown_kind}{', required' if name in required else ''}")
        if _is_explained(member):
            lines.append(f"    {member['description']}")
    lines += [f"  Weak: {weakness}" for weakness in description.weaknesses]
    return "\n".join(lines)


def totals(descriptions: Iterable[Description]) -> Iterator[str]:
    """Yield a line for each server: its tools, their tokens, and how many are weak."""
    by_server: dict[str, list[Description]] = {}
    for description in descriptions:
        by_server.setdefault(description.entry.server.name, []).append(description)
    for name, listed in by_server.items():
        size = sum(description.tokens for description in listed)
        weak = sum(bool(description.weaknesses) for description in listed)
        yield f"{name}: tools {len(listed)}, tokens about {size:,}, weak {weak}"
