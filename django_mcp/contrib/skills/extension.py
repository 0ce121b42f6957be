"""Skills as an extension of the protocol: ``io.modelcontextprotocol/skills`` (SEP-2640).

No answer depends on a client's declarations. Whether a caller may use a skill is asked of the
resource of its SKILL.md, and nothing else: a hidden skill is unknown to every method, and so are
its files where they lie below a skill that the caller may use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field

from django_mcp import AuthenticationRequired, Frame, InvalidParams
from django_mcp.contrib.skills import finding
from django_mcp.contrib.skills.declaration import MARKDOWN, SKILLS, innermost
from django_mcp.contrib.skills.files import File
from django_mcp.contrib.skills.finding import SKILL_FILE, Skill, directory_uri
from django_mcp.contrib.skills.front_matter import SkillError
from django_mcp.core.components.base import Component
from django_mcp.core.components.resource import ResourceComponent
from django_mcp.core.dispatch import visibility
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import cursors
from django_mcp.core.protocol.limits import MAX_CURSOR, MAX_URI, cut
from django_mcp.core.server.component_lists import sort_key
from django_mcp.extensions import Extension, Method, find_component

if TYPE_CHECKING:
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

NAME = "io.modelcontextprotocol/skills"
DIRECTORY = "inode/directory"
"""The MIME type of a folder in ``resources/directory/read``."""

Item = TypeVar("Item")


class Page(BaseModel):
    """The parameters of ``skills/list``."""

    # Its validator is made for a server with skills.
    model_config = ConfigDict(defer_build=True)
    cursor: str = Field("", max_length=MAX_CURSOR)


class Named(BaseModel):
    """The parameters of ``skills/get``."""

    model_config = ConfigDict(defer_build=True)
    uri: str = Field(max_length=MAX_URI)


class Folder(Page, Named):
    """The parameters of ``resources/directory/read``."""


# Whether the caller may use a skill.


async def _component(frame: Frame, skill: Skill) -> Component | None:
    """The resource of a skill; None where the caller does not know it. Raises a challenge."""
    return await find_component(frame, ResourceComponent.kind, skill.uri)


async def _listed(frame: Frame) -> dict[str, Skill]:
    """The skills that the caller is listed, by path: also those that need a login or scopes."""
    listed = {}
    for path, skill in SKILLS.of(frame.server).items():
        try:
            is_listed = await _component(frame, skill) is not None
        except AuthenticationRequired:
            is_listed = True
        if is_listed:
            listed[path] = skill
    return listed


def _is_listed(path: str, skill: Skill, listed: dict[str, Skill]) -> bool:
    """Whether a path in the folder of a skill belongs to a skill that the caller is listed.

    A skill below it has its own permission.
    """
    owner = finding.find().innermost(f"{skill.path}/{path}")
    return owner is not None and owner.path in listed


# Methods.


async def list_skills(params: Page, frame: Frame) -> dict[str, Any]:
    """Answer ``skills/list``."""
    listed = await _listed(frame)
    components = frame.server.components
    in_order: list[tuple[tuple[str, ...], Skill]] = []
    for skill in listed.values():
        component = components.find(ResourceComponent.kind, skill.uri)
        if component is not None:
            in_order.append((sort_key(component), skill))
    in_order.sort(key=lambda keyed: keyed[0])
    page, following = _page(frame, "skill", params.cursor, in_order)
    entries = await frame.exchange.run_hook(_entries, page, listed)
    return {"skills": entries, **following, **_cache(frame)}


async def get_skill(params: Named, frame: Frame) -> dict[str, Any]:
    """Answer ``skills/get``."""
    of_server = {skill.uri: skill for skill in SKILLS.of(frame.server).values()}
    skill = of_server.get(params.uri)
    if skill is None or await _component(frame, skill) is None:
        raise InvalidParams(f"There is no skill at {cut(params.uri)}")
    entries = await frame.exchange.run_hook(_entries, [skill], await _listed(frame))
    if not entries:
        raise InvalidParams(f"There is no skill at {cut(params.uri)}")
    return {"skill": entries[0], **_cache(frame)}


async def read_directory(params: Folder, frame: Frame) -> dict[str, Any]:
    """Answer ``resources/directory/read``."""
    uri = params.uri
    skill = innermost(frame, uri)
    if skill is not None and await _component(frame, skill) is None:
        skill = None
    listed = await _listed(frame)
    if skill is not None:
        read = partial(_children, skill, uri, listed)
        children = await frame.exchange.run_hook(_checked, skill, read)
    else:
        children = _groups(uri, listed)
    if children is None:
        raise InvalidParams(f"There is no directory at {cut(uri)}")
    keyed = [((child["uri"],), child) for child in children]
    page, following = _page(frame, f"directory {uri}", params.cursor, keyed)
    return {"resources": page, **following}


def _page(
    frame: Frame, kind: str, cursor: str, items: Sequence[tuple[tuple[str, ...], Item]]
) -> tuple[list[Item], dict[str, str]]:
    """One page of items, which are in the order of their keys, and ``nextCursor``."""
    server = frame.server
    bound = ("cursor", frame.principal.key)
    if "cursor" in frame.message.params:
        last = cursors.decode(kind, cursor, partial(server.unsign, *bound))
        items = [keyed for keyed in items if keyed[0] > last]
    page = items[: server.page_size]
    following = {}
    if len(items) > len(page):
        following["nextCursor"] = cursors.encode(kind, page[-1][0], partial(server.sign, *bound))
    return [item for _key, item in page], following


def _cache(frame: Frame) -> dict[str, Any]:
    """The hints in place of the server's: lists that depend on the caller are private."""
    components = (
        frame.server.components.find(ResourceComponent.kind, skill.uri)
        for skill in SKILLS.of(frame.server).values()
    )
    is_public = all(component is None or component.is_public for component in components)
    is_for_all = is_public and frame.principal.selection is None
    return {} if is_for_all else visibility.private_scope(frame)


# The disk is read on a thread.


def _entries(skills: Sequence[Skill], listed: dict[str, Skill]) -> list[dict[str, Any]]:
    """The entries of skills; one that has become unreadable is left out, and logged."""
    entries = []
    for skill in skills:
        entry = _checked(skill, partial(_entry, skill, listed))
        if entry is not None:
            entries.append(entry)
    return entries


def _entry(skill: Skill, listed: dict[str, Skill]) -> dict[str, Any]:
    on_disk = skill.files()
    text = skill.read(on_disk)
    return {
        "uri": skill.uri,
        "frontmatter": text.front_matter,
        "resources": [
            {"uri": skill.uri_of(path), "digest": file.digest, "size": file.size}
            for path, file in on_disk.files.items()
            if _is_listed(path, skill, listed)
        ],
    }


def _children(skill: Skill, uri: str, listed: dict[str, Skill]) -> list[dict[str, Any]] | None:
    """The entries of a folder of a skill, by URI; None where it has no such folder."""
    on_disk = skill.files()
    folders = {skill.directory: ""}
    folders |= {skill.uri_of(path): f"{path}/" for path in on_disk.folders}
    if uri not in folders:
        return None
    prefix = folders[uri]
    children = []
    for path in (*on_disk.files, *on_disk.folders):
        is_child = path.startswith(prefix) and "/" not in path[len(prefix) :]
        if not is_child or not _is_listed(path, skill, listed):
            continue
        if path in on_disk.files:
            children.append(_described(skill, path, on_disk.files[path]))
        else:
            children.append(_folder(skill.uri_of(path), path))
    return sorted(children, key=lambda child: child["uri"])


def _described(skill: Skill, path: str, file: File) -> dict[str, Any]:
    described = {
        "uri": skill.uri_of(path),
        "name": path.rpartition("/")[2],
        "mimeType": file.mime_type,
        "size": file.size,
    }
    if path == SKILL_FILE:
        text = skill.read()
        described |= {"name": text.name, "description": text.description, "mimeType": MARKDOWN}
    return {name: value for name, value in described.items() if value is not None}


def _folder(uri: str, path: str) -> dict[str, Any]:
    return {"uri": uri, "name": path.rpartition("/")[2], "mimeType": DIRECTORY}


def _groups(uri: str, listed: dict[str, Skill]) -> list[dict[str, Any]] | None:
    """The folders in one that groups skills; None where no skill that is listed is below it."""
    below: dict[str, dict[str, Any]] = {}
    for path in listed:
        names = path.split("/")
        for depth in range(1, len(names)):
            if directory_uri("/".join(names[:depth])) == uri:
                child = "/".join(names[: depth + 1])
                below[child] = _folder(directory_uri(child), child)
    return [below[path] for path in sorted(below)] or None


def _checked(skill: Skill, read: Callable[[], Item]) -> Item | None:
    try:
        return read()
    except (OSError, SkillError) as error:
        log_repeated(logging.ERROR, "The skill %s cannot be served: %s", skill.path, error)
        return None


# The extension.


def settings(server: Server, revision: Revision) -> Json | None:
    """Declare the extension where a server has skills, in all revisions."""
    return {"directoryRead": True} if SKILLS.of(server) else None


def facts(server: Server) -> Iterator[tuple[Any, Any]]:
    """Yield the workbench's lines about the skills of a server."""
    skills = SKILLS.of(server)
    if skills:
        yield _("Skills"), ", ".join(_in_short(skill) for skill in skills.values())


def _in_short(skill: Skill) -> str:
    try:
        listed = skill.files()
        skill.read(listed)
    except SkillError as error:
        return f"{skill.path} ({error})"
    size = sum(file.size for file in listed.files.values())
    return f"{skill.path} ({len(listed.files)}: {size:,} B)"


EXTENSION = Extension(
    name=NAME,
    settings=settings,
    methods=[
        Method(name="skills/list", params=Page, call=list_skills, is_cacheable=True),
        Method(name="skills/get", params=Named, call=get_skill, is_cacheable=True),
        Method(name="resources/directory/read", params=Folder, call=read_directory),
    ],
    facts=facts,
)
