"""The skills of the site: in SKILLS_DIRS, and in the folder ``skills`` of each app.

A folder with a SKILL.md is a skill. Its path is that below ``skills``: ``refunds``, or
``billing/refunds`` where folders group skills. A skill may have skills below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from django.apps import apps
from django.core.signals import setting_changed

import django_mcp
from django_mcp import conf
from django_mcp.contrib.skills import files, front_matter
from django_mcp.contrib.skills.files import Listing
from django_mcp.contrib.skills.front_matter import SkillError, SkillText

SCHEME = "skill://"
SKILL_FILE = "SKILL.md"
FOLDER = "skills"
OWN = django_mcp.__name__
"""The app with a skill that only sites that name it serve: the guide for coding agents."""


class Root(NamedTuple):
    """A folder of skills."""

    folder: Path
    module: str
    """The source of its skills, for ``mcp_show``: the module of the app, or the path."""
    is_of_app: bool


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder with a SKILL.md. Its files are read when they are requested."""

    path: str
    folder: Path
    root: Root

    @property
    def is_optional(self) -> bool:
        """Whether it is served only where a site says so."""
        return self.root.module == f"{OWN}.{FOLDER}"

    @property
    def directory(self) -> str:
        """The URI of its folder."""
        return directory_uri(self.path)

    @property
    def uri(self) -> str:
        """The URI of its SKILL.md, which identifies it for clients."""
        return self.uri_of(SKILL_FILE)

    @property
    def source(self) -> str:
        """Its source, for ``mcp_show``: a module of its app, or its folder."""
        if not self.root.is_of_app:
            return str(self.folder)
        return ".".join([self.root.module, *self.path.split("/")])

    def uri_of(self, relative: str) -> str:
        return f"{self.directory}/{_quoted(relative)}"

    def files(self) -> Listing:
        """List its files; raises SkillError beyond the limits of the format."""
        try:
            return files.listing(self.folder)
        except OSError as error:
            raise SkillError("E001", f"it cannot be read: {error}") from error

    def read(self, listed: Listing | None = None) -> SkillText:
        """Read its SKILL.md; raises SkillError for one that hosts refuse."""
        file = (listed or self.files()).files.get(SKILL_FILE)
        if file is None:
            raise SkillError("E001", "its SKILL.md is no regular file")
        try:
            text = front_matter.read(file.read())
        except OSError as error:
            raise SkillError("E001", f"it cannot be read: {error}") from error
        folder = self.path.rpartition("/")[2]
        if text.name != folder:
            raise SkillError("E002", f"its name is {text.name!r}, and its folder {folder!r}")
        return text


class Found(NamedTuple):
    """The skills in folders."""

    skills: dict[str, Skill]
    """By path, in order."""
    twice: list[tuple[Skill, Skill]]
    """The skill that is served, and one of the same path, which is not."""
    left_out: dict[str, str]
    """Paths on the disk that are not served, and why."""
    unread: dict[Path, str]
    """Folders that are not searched, and why."""

    def innermost(self, path: str) -> Skill | None:
        """Return the skill that contains a path below ``skills``, or is it."""
        while path:
            if path in self.skills:
                return self.skills[path]
            path = path.rpartition("/")[0]
        return None


def directory_uri(path: str) -> str:
    return SCHEME + _quoted(path)


def _quoted(path: str) -> str:
    """Percent-encode all but the unreserved characters: each file has one spelling."""
    return quote(path, safe="/")


def roots() -> Sequence[Root]:
    """Return the folders that are searched for skills, in this order; some may not exist."""
    of_project = [Root(path, str(path), False) for path in conf.get().skills_dirs]
    of_apps = [
        Root(Path(app.path) / FOLDER, f"{app.name}.{FOLDER}", True)
        for app in apps.get_app_configs()
    ]
    return [*of_project, *of_apps]


@lru_cache(maxsize=1)
def find() -> Found:
    """Find the skills of the site, once in a process, as its components are."""
    skills: dict[str, Skill] = {}
    twice: list[tuple[Skill, Skill]] = []
    left_out: dict[str, str] = {}
    unread: dict[Path, str] = {}
    for root in roots():
        if not root.folder.is_dir():
            continue
        try:
            listed = files.listing(root.folder, max_files=files.MAX_ENTRIES, max_bytes=1 << 62)
        except (OSError, SkillError) as error:
            unread[root.folder] = str(error)
            continue
        for relative, reason in listed.left_out.items():
            left_out[str(root.folder / relative)] = reason
        for skill in _skills_in(root, listed, left_out):
            served = skills.setdefault(skill.path, skill)
            if served is not skill:
                twice.append((served, skill))
    return Found(dict(sorted(skills.items())), twice, left_out, unread)


def _skills_in(root: Root, listed: Listing, left_out: dict[str, str]) -> Iterator[Skill]:
    for relative in listed.files:
        path, _, name = relative.rpartition("/")
        if name.casefold() != SKILL_FILE.casefold() or not path:
            continue
        if name == SKILL_FILE:
            yield Skill(path, root.folder / path, root)
        elif f"{path}/{SKILL_FILE}" not in listed.files:
            left_out[str(root.folder / relative)] = f"its name is not {SKILL_FILE}"


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("DJANGO_MCP", "INSTALLED_APPS"):
        find.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.contrib.skills.finding")
