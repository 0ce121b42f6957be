"""The Content-Security-Policy of a view, which hosts derive from its ``_meta.ui.csp``.

The directives are from the specification of MCP Apps, section "Content Security Policy".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from django_mcp.core.protocol.errors import Json

NONE = "'none'"
SELF = "'self'"
INLINE = "'unsafe-inline'"
DATA = "data:"

Directives = Mapping[str, Sequence[str]]
"""The sources of each directive."""

ALWAYS: Directives = {
    "default-src": (NONE,),
    "script-src": (SELF, INLINE),
    "style-src": (SELF, INLINE),
    "img-src": (SELF, DATA),
    "font-src": (SELF,),
    "media-src": (SELF, DATA),
    "connect-src": (),
    "frame-src": (),
    "object-src": (NONE,),
    "base-uri": (),
    "form-action": (NONE,),
}
"""The sources of every view. No host lets a form navigate the frame of its view."""

RESOURCES = ("script-src", "style-src", "img-src", "font-src", "media-src")

MEMBERS: Mapping[str, Sequence[str]] = {
    "resourceDomains": RESOURCES,
    "connectDomains": ("connect-src",),
    "frameDomains": ("frame-src",),
    "baseUriDomains": ("base-uri",),
}
"""The directives that each member of ``csp`` extends."""

INSTEAD: Mapping[str, str] = {"connect-src": NONE, "frame-src": NONE, "base-uri": SELF}
"""The source of directives that have no other."""

UNSAFE = re.compile(r"[\s;,'\"\x00-\x1f]")
"""Characters that would end a source, or a directive."""

PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
UPGRADES = {"http": ("https",), "ws": ("wss", "http", "https"), "wss": ("https",)}
"""The schemes of URLs that a source with a scheme allows, besides its own."""


def directives(csp: Json | None) -> Directives:
    """Return the sources of each directive; entries that would change the header are left out."""
    sources = {directive: [*own] for directive, own in ALWAYS.items()}
    for member, extended in MEMBERS.items():
        entries = (csp or {}).get(member)
        for entry in entries if isinstance(entries, list | tuple) else ():
            if isinstance(entry, str) and not UNSAFE.search(entry):
                for directive in extended:
                    sources[directive].append(entry)
    return {name: own or [INSTEAD[name]] for name, own in sources.items()}


def header(csp: Json | None) -> str:
    """Return the value of the Content-Security-Policy header."""
    return "; ".join(f"{name} {' '.join(own)}" for name, own in directives(csp).items())


def allows(sources: Iterable[str], url: str) -> bool:
    """Whether one of the sources allows an absolute URL."""
    parts = _split(url)
    return parts is not None and any(_matches(source, parts) for source in sources)


def _matches(source: str, url: SplitResult) -> bool:
    """The matching of CSP level 3, section 6.7.2, for the sources that a view can have."""
    if source.endswith(":"):
        return source[:-1] == url.scheme
    allowed = _split(source)
    if allowed is None or not allowed.hostname or not url.hostname:
        return False
    schemes = (allowed.scheme, *UPGRADES.get(allowed.scheme, ()))
    if url.scheme not in schemes or _port(url) not in (_port(allowed), PORTS.get(url.scheme)):
        return False
    if allowed.hostname.startswith("*."):
        return url.hostname.endswith(allowed.hostname[1:])
    return url.hostname == allowed.hostname


def _port(url: SplitResult) -> int | None:
    return url.port or PORTS.get(url.scheme)


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None for an invalid one."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - It raises ValueError unless it is a number.
    except ValueError:
        return None
    return parts
