"""The public description of a server, for clients that have not connected to it yet.

Its card and the entries of the AI catalogue (SEP-2127), and the ``server.json`` of the registry.
They have the name and description of the server and where it is, and none of its components: the
same for everybody, whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django_mcp.core.protocol.texts import resolved

if TYPE_CHECKING:
    from django_mcp.core.server.server import Server

SCHEMAS = "https://static.modelcontextprotocol.io/schemas"
CARD_SCHEMA = f"{SCHEMAS}/v1/server-card.schema.json"
REGISTRY_SCHEMA = f"{SCHEMAS}/2025-12-11/server.schema.json"
CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"

NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
MAX_NAME = 200
MAX_LOCAL_NAME = 100
"""Characters of a name without its namespace: they leave room for any host."""
MAX_TEXT = 100
"""Characters of a title or a description."""
MAX_VERSION = 255
MAX_REGISTRY_ICON = 255
"""Characters of the URL of an icon in the registry."""
RANGE = re.compile(r"[\^~<>=*|\s]|\bx\b", re.IGNORECASE)
"""Characters of a range of versions, which a version does not have: ``^1.2``, ``>=1``, ``1.*``."""
CAPTURED = re.compile(r"<(?:[^<>:]*:)?([^<>]+)>")
"""A captured value in the path of an endpoint: ``<slug:org>``."""
SOURCES: Mapping[str, str] = {
    "github.com": "github",
    "gitlab.com": "gitlab",
    "bitbucket.org": "bitbucket",
    "codeberg.org": "codeberg",
}
"""How registries call the services that host repositories."""


def qualified_name(server: Server, url: str) -> str:
    """Return the name of a server with its namespace: the host of its URL in reverse.

    A name that has a namespace stays.
    """
    name = str(server.info["name"])
    if is_qualified(name):
        return name
    host = urlsplit(url).hostname or "localhost"
    namespace = ".".join(reversed(host.split("."))) if _is_domain(host) else host
    local = re.sub(r"[^a-zA-Z0-9._-]+", "-", name).strip("-")
    return f"{re.sub(r'[^a-zA-Z0-9.-]+', '-', namespace)}/{local}"


def is_qualified(name: str) -> bool:
    """Whether a name has a namespace, and the form that cards and the registry need."""
    return NAME.fullmatch(name) is not None and len(name) <= MAX_NAME


def _is_domain(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return True
    return False


def problems(server: Server) -> Iterator[str]:
    """Yield why a server has no valid card, each with the remedy."""
    info = resolved(server.info)
    local = qualified_name(server, "").partition("/")[2]
    if not 0 < len(local) <= MAX_LOCAL_NAME:
        yield (
            f"its name is {info['name']!r}: use letters, digits, '.', '_' and '-', at most "
            f"{MAX_LOCAL_NAME}"
        )
    description = info.get("description")
    if not description:
        yield f'it has no description: write description="…", of at most {MAX_TEXT} characters'
    for member in ("title", "description"):
        length = len(str(info.get(member) or ""))
        if length > MAX_TEXT:
            yield f"its {member} has {length} characters: shorten it to {MAX_TEXT}"
    version = str(info["version"])
    if RANGE.search(version) or not 0 < len(version) <= MAX_VERSION:
        yield f"its version is {version!r}: write one version, such as '1.2.0', and no range"
    website = info.get("websiteUrl")
    if website is not None and not _is_url(website):
        yield f"its website is {website!r}: write a URL with https://"
    repository = info.get("repository")
    if repository is not None and _repository(repository) is None:
        yield (
            f"its repository is {repository!r}: write the URL of one at {', '.join(SOURCES)}, or "
            '{"url": "https://…", "source": "name of the service"}'
        )


def _is_url(value: Any) -> bool:
    if not isinstance(value, str) or re.search(r"\s", value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and bool(parts.hostname)


def _repository(value: Any) -> dict[str, Any] | None:
    """The repository as it is published; None for a value that is none."""
    if isinstance(value, str):
        host = urlsplit(value).hostname if _is_url(value) else None
        value = {"url": value, "source": SOURCES.get(host or "")}
    members = ("url", "source", "id", "subfolder")
    if not isinstance(value, Mapping) or not value.keys() <= set(members):
        return None
    strings = {name: value[name] for name in members if isinstance(value.get(name), str)}
    is_complete = len(strings) == len(value) and "source" in strings
    return strings if is_complete and _is_url(strings.get("url")) else None


def describe(server: Server, url: str) -> dict[str, Any]:
    """Return the card of a server at ``url``; it must have no problems."""
    remote = {
        "type": "streamable-http",
        "url": url,
        "supportedProtocolVersions": [*server.options.versions],
    }
    identity = _identity(server, qualified_name(server, url))
    return {"$schema": CARD_SCHEMA, **identity, "remotes": [remote]}


def catalog(cards: Mapping[str, tuple[Server, str]]) -> dict[str, Any]:
    """Return the AI catalogue of these servers and the URLs of their endpoints, by URL of card."""
    entries = []
    for card_url, (server, url) in cards.items():
        namespace, _, name = qualified_name(server, url).partition("/")
        publisher = ".".join(reversed(namespace.split("."))) if _is_domain(namespace) else namespace
        # ``urn:air:example.com:mcp:shop`` for ``com.example/shop``.
        identifier = f"urn:air:{publisher}:mcp:{name}"
        entries.append({"identifier": identifier, "type": CARD_TYPE, "url": card_url})
    return {"specVersion": "1.0", "entries": entries}


def registry_document(server: Server, url: str, name: str | None = None) -> dict[str, Any]:
    """Return the ``server.json`` of a server whose endpoint has this URL.

    Values that the path captures become variables, which users of the registry enter.
    """
    captured = CAPTURED.findall(urlsplit(url).path)
    remote: dict[str, Any] = {"type": "streamable-http", "url": CAPTURED.sub(r"{\1}", url)}
    if captured:
        remote["variables"] = {value: {"isRequired": True} for value in captured}
    document = _identity(server, name or qualified_name(server, url))
    # The registry stores no images: it has their URLs.
    icons = [
        icon
        for icon in document.pop("icons", ())
        if icon["src"].startswith("https:") and len(icon["src"]) <= MAX_REGISTRY_ICON
    ]
    shown = {"icons": icons} if icons else {}
    return {"$schema": REGISTRY_SCHEMA, **document, **shown, "remotes": [remote]}


def _identity(server: Server, name: str) -> dict[str, Any]:
    info = resolved(server.info)
    members = {
        "name": name,
        "title": info.get("title") or None,
        "description": str(info["description"]),
        "version": str(info["version"]),
        "websiteUrl": info.get("websiteUrl"),
        "repository": _repository(info.get("repository")),
        "icons": info.get("icons") or None,
    }
    return {member: value for member, value in members.items() if value is not None}
