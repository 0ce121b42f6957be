"""Checks of components that clients reject, cut or cannot show, although the protocol allows them.

Each limit belongs to a client; its comment has the source, as ``docs/reference/checks.md`` does.
There is one warning for each kind of fault, which names all components that have it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from django.apps import apps
from django.conf import settings
from django.core.checks import Warning
from django.utils.functional import Promise

from django_mcp import conf
from django_mcp.checks.base import Found, check
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.protocol.schema.walk import subschemas
from django_mcp.registry import Entry, registered_entries

MAX_DESCRIPTION = 1024
"""Characters: VS Code cuts longer ones (dart-lang/ai#170)."""
MAX_NAME = 64
"""Characters of a tool with the prefix of its server, in Claude Code and in VS Code
(ChromeDevTools/chrome-devtools-mcp#1169, microsoft/vscode#243602)."""
COMBINATIONS = ("anyOf", "oneOf", "allOf")
"""Keywords that the API of Claude rejects at the top of an input schema
(anthropics/claude-code#95504, makenotion/notion-mcp-server#341)."""
UNION_TYPES = frozenset({"array", "object"})
"""Types that Gemini rejects in a list of types (anomalyco/opencode#48073,
github/copilot-cli#4623)."""
HASH = re.compile(r"\.[0-9a-f]{12}(?=\.[^./]*$)")
"""The part of a file's name that ManifestStaticFilesStorage adds."""


@check()
def check_missing_descriptions() -> Found:
    yield from _warning(
        [entry for entry in _tools() if not entry.component.description],
        "have no description, so that a model cannot know when to use them",
        hint="Describe in the docstring what it does and when to use it.",
        id="django_mcp.W003",
    )


@check()
def check_top_level_of_schemas() -> Found:
    yield from _warning(
        [entry for entry in _tools() if not set(COMBINATIONS).isdisjoint(_schema(entry))],
        "have anyOf, oneOf or allOf at the top of their input schema. Clients of Claude reject or "
        "drop such tools",
        hint="Declare the properties, and check in the handler how they may be combined.",
        id="django_mcp.W042",
    )


@check()
def check_properties_of_schemas() -> Found:
    yield from _warning(
        [entry for entry in _tools() if "properties" not in _schema(entry)],
        "have an input schema without properties. Clients of OpenAI's models then fail in every "
        "conversation",
        hint='Add "properties": {} to the schema.',
        id="django_mcp.W043",
    )


@check()
def check_types_of_schemas() -> Found:
    yield from _warning(
        [entry for entry in _tools() if _has_union_type(_schema(entry))],
        'have a list of types with "array" or "object" in their input schema. Clients of Gemini '
        "then fail in every conversation",
        hint='Write "anyOf" with one schema for each type, or a single type.',
        id="django_mcp.W044",
    )


@check()
def check_lengths_of_descriptions() -> Found:
    long: list[Entry] = []
    for entry in registered_entries():
        description = entry.component.description
        # A computed one may need a request.
        if isinstance(description, str | Promise) and len(str(description)) > MAX_DESCRIPTION:
            long.append(entry)
    yield from _warning(
        long,
        f"have a description of more than {MAX_DESCRIPTION:,} characters, which VS Code cuts",
        hint="Say first what it does and when to use it, and leave the rest to the descriptions of "
        "arguments or to a resource.",
        id="django_mcp.W045",
    )


@check()
def check_lengths_of_names() -> Found:
    yield from _warning(
        [entry for entry in _tools() if len(_prefixed(entry)) > MAX_NAME],
        f"have a name of more than {MAX_NAME} characters with the prefix of their server, such as "
        '"mcp__shop__". Claude Code and VS Code cannot call such tools',
        hint="Shorten the name of the tool or of the server.",
        id="django_mcp.W046",
    )


@check()
def check_collisions_of_names() -> Found:
    by_name: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in _tools():
        by_name[_prefixed(entry)[:MAX_NAME]].append(entry)
    yield from _warning(
        [entry for entries in by_name.values() if len(entries) > 1 for entry in entries],
        "have a name that is the same as another one for clients which write a prefix before it, "
        'replace "." by "_" and cut it',
        hint="Rename one of them, or its server.",
        id="django_mcp.W047",
    )


@check()
def check_icons() -> Found:
    url = urljoin(conf.get().base_url or "", settings.STATIC_URL or "")
    # Without the origin in the URL, it is unknown which icons are static files.
    is_absolute = url.startswith(("http:", "https:"))
    if not is_absolute or not apps.is_installed("django.contrib.staticfiles"):
        return
    yield from _warning(
        [
            entry
            for entry in registered_entries()
            if any(_is_missing(url, icon) for icon in entry.component.icons)
        ],
        "have an icon that is no static file of this site",
        hint="Correct the path in icons=…, or add the file.",
        id="django_mcp.W048",
    )


def _warning(entries: Sequence[Entry], problem: str, *, hint: str, id: str) -> Found:
    if entries:
        names = ", ".join(
            f"{entry.kind} {entry.component.name!r} at {entry.component.source}"
            for entry in entries
        )
        yield Warning(f"Components that {problem}: {names}.", hint=hint, id=id)


def _tools() -> Iterator[Entry]:
    return (entry for entry in registered_entries() if isinstance(entry.component, ToolComponent))


def _schema(entry: Entry) -> Mapping[str, Any]:
    assert isinstance(entry.component, ToolComponent)
    return entry.component.input_schema


def _has_union_type(schema: Mapping[str, Any]) -> bool:
    for position in subschemas(schema):
        types = position.schema.get("type")
        if isinstance(types, list) and not UNION_TYPES.isdisjoint(types):
            return True
    return False


def _prefixed(entry: Entry) -> str:
    """The name as Claude Code writes it."""
    name = f"mcp__{entry.server.name}__{entry.component.name}"
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _is_missing(url: str, icon: Mapping[str, Any]) -> bool:
    """Whether an icon is below the URL of static files, and no such file exists."""
    from django.contrib.staticfiles import finders  # It can be imported only with its app.

    if not icon["src"].startswith(url):
        return False
    path = icon["src"].removeprefix(url).partition("?")[0]
    return finders.find(path) is None and finders.find(HASH.sub("", path)) is None
