"""The pages as Sphinx reads them: those of docs/, and a few files from outside that folder.

The Markdown of the repository is the only source. The copy of it differs in three points: links
stay within the site, hidden lists of pages (``toctree``) are derived from ``index.md``, and the
first list of that page is laid out as cards.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
START = "index.md"
OUTSIDE: Mapping[str, str] = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "django_mcp/skills/django-mcp/SKILL.md": "agents.md",
}
"""Pages from outside docs/, and their names on the site."""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
CARD = re.compile(r"^(\* \[[^\]]*\]\([^)]*\)): (\w)", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n\s*", re.DOTALL)
"""Of a page that is a skill as well."""
SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)


class UnlistedPage(Exception):
    """A page that no section of ``index.md`` lists."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of ``index.md``: its heading, its text, and the pages that it is first to list."""

    heading: str
    text: str
    pages: tuple[str, ...]


def stage(folder: Path) -> None:
    """Write all pages and images into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS / "images", folder / "images")
    sources = dict(pages())
    sections = navigation()
    check_listed(sources, sections)
    for name, source in sources.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(staged(name, source, sources, sections))


def pages() -> Iterator[tuple[str, Path]]:
    """The name of each page on the site, and its file."""
    for file in sorted(DOCS.rglob("*.md")):
        yield file.relative_to(DOCS).as_posix(), file
    for outside, name in OUTSIDE.items():
        yield name, ROOT / outside


def staged(
    name: str, source: Path, sources: Mapping[str, Path], sections: Iterable[Section]
) -> str:
    """The text of a page, with its hidden lists of other pages."""
    text = within_site(source)
    if name == START:
        text = with_cards(text)
        for section in sections:
            text += toctree(name, section.pages, section.heading)
    return text + toctree(name, children(name, sources))


def with_cards(text: str) -> str:
    """The start page with its first list as cards: the class of a style, and no colons."""
    before, heading, after = text.partition("\n## ")
    tasks, other, rest = after.partition("\n## ")
    tasks = CARD.sub(lambda card: f"{card[1]} {card[2].upper()}", tasks)
    tasks = tasks.replace("\n* ", "\n{.cards}\n* ", 1)
    return "".join([before, heading, tasks, other, rest])


def navigation() -> list[Section]:
    """The sections of ``index.md``, without the first: that links to pages of the others."""
    listed: set[str] = set()
    sections = []
    _, *others = SECTION.findall(within_site(DOCS / START))
    for heading, text in others:
        targets = dict.fromkeys(link[2].partition("#")[0] for link in LINK.finditer(text))
        names = [name for name in targets if name.endswith(".md") and name not in listed]
        listed.update(names)
        top = tuple(name for name in names if parent(name) not in listed)
        sections.append(Section(heading, text, top))
    return sections


def check_listed(sources: Iterable[str], sections: Iterable[Section]) -> None:
    """Fail if a page cannot be reached from ``index.md``."""
    listed = {name for section in sections for name in section.pages}
    reachable = {START, *listed}
    missing = [name for name in sources if not {name, parent(name)} & reachable]
    if missing:
        raise UnlistedPage(
            f"List {', '.join(missing)} in a section of docs/index.md that is not the first."
        )


def parent(name: str) -> str:
    """The page under which the pages of a folder stand: ``api.md`` for those in ``api/``."""
    return f"{PurePosixPath(name).parent}.md"


def children(name: str, sources: Iterable[str]) -> list[str]:
    """The pages in the folder of the same name."""
    return [page for page in sources if parent(page) == name]


def toctree(page: str, names: Iterable[str], caption: str = "") -> str:
    """A hidden list of pages, which gives the site its navigation."""
    lines = [os.path.relpath(name, os.path.dirname(page) or ".") for name in names]
    if not lines:
        return ""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *lines, "```", ""])


def within_site(source: Path) -> str:
    """The text of a file, with its links to files of the repository as links of the site.

    Only the text remains of a link to a file that is not a page.
    """
    here = PurePosixPath(site_name(source)).parent

    def moved(link: re.Match[str]) -> str:
        path, _, part = link[2].partition("#")
        if "://" in path or not path:
            return link[0]
        target = (source.parent / path).resolve()
        if target == ROOT / "README.md":
            target = DOCS / START
        name = site_name(target)
        if not name:
            return link[1]
        anchor = f"#{part}" if part else ""
        return f"[{link[1]}]({os.path.relpath(name, here)}{anchor})"

    return LINK.sub(moved, FRONT_MATTER.sub("", source.read_text()))


def site_name(file: Path) -> str:
    """The name of a file on the site, or an empty string if it is not there."""
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix()
    return OUTSIDE.get(file.relative_to(ROOT).as_posix(), "")
