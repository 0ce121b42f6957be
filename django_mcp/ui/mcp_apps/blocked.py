"""Find blocked parts of a view: its policy is compared with its HTML.

URLs that a script puts together are not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import NamedTuple

from django_mcp.core.protocol.errors import Json
from django_mcp.ui.mcp_apps import policy


class Blocked(NamedTuple):
    """A part of a view that its host blocks."""

    directive: str
    """The directive of the policy, such as ``img-src``."""
    source: str
    """The URL, or the blocked function of a script, such as ``eval``."""
    line: int
    """The line of the HTML, from 1."""

    def __str__(self) -> str:
        remedy = REMEDIES.get(self.directive, INLINE_IT)
        return f"line {self.line}: {self.directive} blocks {self.source}: {remedy}"


INLINE_IT = 'inline it with mcp_static, or name its origin in csp={"resource": […]}'
REMEDIES: Mapping[str, str] = {
    "connect-src": 'call a tool instead, or name its origin in csp={"connect": […]}',
    "frame-src": 'name its origin in csp={"frame": […]}',
    "base-uri": 'name its origin in csp={"base_uri": […]}',
    "object-src": "no view may embed objects",
    "form-action": "a view cannot navigate: call a tool with the values of the form",
}

ATTRIBUTES: Mapping[tuple[str, str], str] = {
    ("script", "src"): "script-src",
    ("img", "src"): "img-src",
    ("img", "srcset"): "img-src",
    ("input", "src"): "img-src",
    ("image", "href"): "img-src",
    ("video", "poster"): "img-src",
    ("source", "srcset"): "img-src",
    ("source", "src"): "media-src",
    ("audio", "src"): "media-src",
    ("video", "src"): "media-src",
    ("track", "src"): "media-src",
    ("iframe", "src"): "frame-src",
    ("object", "data"): "object-src",
    ("embed", "src"): "object-src",
    ("form", "action"): "form-action",
    ("button", "formaction"): "form-action",
    ("input", "formaction"): "form-action",
    ("base", "href"): "base-uri",
}
"""The directives for attributes that contain URLs."""

RELATIONS: Mapping[str, str] = {
    "stylesheet": "style-src",
    "icon": "img-src",
    "modulepreload": "script-src",
}
"""The directives for the relations of a ``link``; others load nothing."""

SEVERAL = ("srcset",)
"""Attributes with several URLs; a size may follow each of them."""

FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}", re.IGNORECASE)
IMPORT = re.compile(r"""@import\s+(?:url\(\s*)?["']?([^"')\s;]+)""", re.IGNORECASE)
CSS_URL = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)""", re.IGNORECASE)

SCRIPTS: Mapping[re.Pattern[str], str] = {
    re.compile(r"""\b(?:fetch|WebSocket|EventSource|sendBeacon)\(\s*["'`]([^"'`$]+)"""): (
        "connect-src"
    ),
    re.compile(r"""\.open\(\s*["'][A-Z]+["']\s*,\s*["'`]([^"'`$]+)"""): "connect-src",
    re.compile(r"""\bimport\s*\(?\s*["']([^"']+)"""): "script-src",
    re.compile(r"""\bimport\b[^;"'(]*?\bfrom\s*["']([^"']+)"""): "script-src",
    re.compile(r"\b(eval)\s*\("): "script-src",
    re.compile(r"\bnew\s+(Function)\s*\("): "script-src",
}
"""Calls of scripts that load or compile something; the first group is the URL or the call."""

SCRIPT_TYPES = ("module", "text/javascript")

COMPILERS = ("eval", "Function")
"""They need ``'unsafe-eval'``, which no host allows."""


def find(html: str, csp: Json | None) -> list[Blocked]:
    """Return the parts that a host blocks in a view with this HTML and ``_meta.ui.csp``."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    sources = policy.directives(csp)
    return [each for each in parser.loaded if not _is_allowed(each, sources)]


def _is_allowed(loaded: Blocked, sources: policy.Directives) -> bool:
    """Whether a URL may be loaded; a relative one leads nowhere, as a view has no other files."""
    if loaded.source in COMPILERS:
        return False
    if loaded.source.startswith("#"):
        return loaded.directive != "base-uri"
    return policy.allows(sources[loaded.directive], loaded.source)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.loaded: list[Blocked] = []
        """Everything that the document loads."""
        self._within = ""
        """The element with text to read, "style" or "script"."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value.strip() for name, value in attrs if value}
        line, _ = self.getpos()
        for name, value in values.items():
            directive = ATTRIBUTES.get((tag, name))
            if (tag, name) == ("link", "href"):
                relations = values.get("rel", "").lower().split()
                directive = next((RELATIONS[it] for it in relations if it in RELATIONS), None)
            urls = [value]
            if name in SEVERAL and not value.startswith("data:"):
                urls = [each.split()[0] for each in value.split(",") if each.strip()]
            if directive is not None:
                self._add(directive, urls, line)
        self._add_style(values.get("style", ""), line)
        # Elements of other types contain no script, but JSON.
        is_script = tag == "script" and values.get("type", "module") in SCRIPT_TYPES
        self._within = tag if tag == "style" or is_script else ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._within = ""

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        line, _ = self.getpos()
        if self._within == "style":
            self._add_style(data, line)
        elif self._within == "script":
            for pattern, directive in SCRIPTS.items():
                for match in pattern.finditer(data):
                    at = line + data.count("\n", 0, match.start())
                    self._add(directive, [match[1]], at)

    def _add(self, directive: str, urls: list[str], line: int) -> None:
        self.loaded += [Blocked(directive, url, line) for url in urls if url]

    def _add_style(self, text: str, line: int) -> None:
        for directive, start, url in _style_urls(text):
            self._add(directive, [url], line + text.count("\n", 0, start))


def _style_urls(text: str) -> Iterator[tuple[str, int, str]]:
    """The directive, the place and the URL of all that a style sheet loads."""
    for match in IMPORT.finditer(text):
        yield "style-src", match.start(), match[1]
    fonts = [match.span() for match in FONT_FACE.finditer(text)]
    imports = [match.span() for match in IMPORT.finditer(text)]
    for match in CSS_URL.finditer(text):
        if _is_within(match.start(), imports):
            continue
        is_font = _is_within(match.start(), fonts)
        yield "font-src" if is_font else "img-src", match.start(), match[1].strip()


def _is_within(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)
