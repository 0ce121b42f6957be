"""Links of the built site that have no target: neither a file nor an anchor."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    file: Path
    anchors: set[str] = field(default_factory=set)
    references: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the attributes that are anchors or links."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.references.append(value)


def dead_links(folder: Path) -> list[str]:
    """The links between pages of a folder that have no target."""
    pages = {file: Page(file) for file in sorted(folder.rglob("*.html"))}
    return [
        f"{file.relative_to(folder)}: {reference}"
        for file, page in pages.items()
        for reference in page.references
        if is_dead(reference, page, pages)
    ]


def is_dead(reference: str, page: Page, pages: dict[Path, Page]) -> bool:
    """Return whether a reference to this site has no target."""
    parts = urlsplit(reference)
    if parts.scheme or parts.netloc:
        return False
    target = (page.file.parent / unquote(parts.path)).resolve() if parts.path else page.file
    if not target.exists():
        return True
    if not parts.fragment or target not in pages:
        return False
    return unquote(parts.fragment) not in pages[target].anchors
