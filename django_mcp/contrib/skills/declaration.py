"""Who may use a skill: ``skill`` in the module ``mcp`` of an app, and the components it becomes.

A SKILL.md is a resource, with the permission, the scopes and the group that were said. Whether the
caller may use this resource decides about the skill everywhere: in lists, in its folder, and for
its other files, which one template reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack
from weakref import WeakSet

from django_mcp import CacheHint, Frame, ResourceNotFound, Response, Server, registry
from django_mcp.contrib.skills import finding
from django_mcp.contrib.skills.files import File
from django_mcp.contrib.skills.finding import SCHEME, SKILL_FILE, Skill
from django_mcp.contrib.skills.front_matter import SkillError, SkillText
from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.declaration import Options
from django_mcp.core.components.prompt import PromptComponent, prompt_component
from django_mcp.core.components.resource import (
    ResourceComponent,
    TemplateComponent,
    resource_component,
)
from django_mcp.core.components.responses import ResourceResponse
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol.texts import similar
from django_mcp.core.server.components import Expected
from django_mcp.core.server.server import checked_server
from django_mcp.extensions import find_component

MARKDOWN = "text/markdown"
OF_SITE = ("title", "icons", "permission", "scopes", "when_denied", "cache", "order", "group")
"""The options of a skill: the options of resources that its SKILL.md does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The declarations of a site about skills."""

    servers: tuple[Server, ...] = ()
    """Without any, the default server."""
    is_prompt: bool = False
    options: Mapping[str, Any]


def skill(
    *paths: str,
    server: Server | Sequence[Server] | None = None,
    prompt: bool = False,
    **options: Unpack[Options],
) -> None:
    """Say who may use the skills with these paths, and the skills in their folders.

    A skill has the options of a resource, and is served by ``server``, one or several, by default
    the default server. With ``prompt``, clients that know no skills have them as prompts. The
    nearest declaration above a skill applies to it. Raises ConfigurationError for a path without
    skills.
    """
    SKILLS.declare(paths, server, prompt, options)


class Skills:
    """The declared skills, and which servers serve them."""

    def __init__(self) -> None:
        self.declarations: dict[str, Declaration] = {}
        self._servers: WeakSet[Server] = WeakSet()

    def declare(
        self,
        paths: Sequence[str],
        server: Server | Sequence[Server] | None,
        is_prompt: bool,
        options: Options,
    ) -> None:
        if not paths:
            raise ConfigurationError('skill() names no skill: write skill("refunds", …)')
        _check_options(paths[0], options)
        is_list = isinstance(server, Iterable) and not isinstance(server, str)
        given: Any = server if is_list or server is None else [server]
        where = f"the skill {paths[0]!r}"
        servers = tuple(checked_server(each, where) for each in given or ())
        declaration = Declaration(servers=servers, is_prompt=is_prompt, options=options)
        for path in paths:
            _check_path(path)
            if path in self.declarations:
                raise ConfigurationError(f"The skill {path!r} is declared twice: write it once")
            self.declarations[path] = declaration
        for serving in servers or (registry.default,):
            self.serve_on(serving)

    def serve_on(self, server: Server) -> None:
        """Let a server build the components of its skills when it is first used."""
        if server not in self._servers:
            self._servers.add(server)
            server.components.defer(partial(self._build, server), partial(self._expected, server))

    def declaration_of(self, path: str) -> Declaration | None:
        """Return the declaration of a skill, else of the nearest skill or folder above."""
        while path and path not in self.declarations:
            path = path.rpartition("/")[0]
        return self.declarations.get(path)

    def of(self, server: Server) -> dict[str, Skill]:
        """Return the skills that a server serves, by path."""
        if server not in self._servers:
            return {}
        return {
            path: skill
            for path, skill in finding.find().skills.items()
            if server in self.servers_of(skill)
        }

    def servers_of(self, skill: Skill) -> Sequence[Server]:
        declaration = self.declaration_of(skill.path)
        if declaration is None:
            return () if skill.is_optional else (registry.default,)
        return declaration.servers or (registry.default,)

    def _expected(self, server: Server) -> Iterator[Expected]:
        skills = self.of(server)
        if skills:
            yield Expected(ResourceComponent.kind)
            yield Expected(TemplateComponent.kind)
        if any(self._is_prompt(path) for path in skills):
            yield Expected(PromptComponent.kind)

    def _is_prompt(self, path: str) -> bool:
        declaration = self.declaration_of(path)
        return declaration is not None and declaration.is_prompt

    def _build(self, server: Server) -> Iterable[Component]:
        components: list[Component] = []
        for path, skill in self.of(server).items():
            try:
                text = skill.read()
            except SkillError as error:
                logging.getLogger("django_mcp").error("The skill %s is not served: %s", path, error)
                continue
            declaration = self.declaration_of(path)
            options = {} if declaration is None else dict(declaration.options)
            components.append(_resource(skill, text, options))
            if self._is_prompt(path):
                components.append(_prompt(skill, text, options))
        if components:
            components.append(_template())
        return components


SKILLS = Skills()


def _check_path(path: str) -> None:
    known = finding.find().skills
    if path in known or any(each.startswith(f"{path}/") for each in known):
        return
    near = similar(path, known)
    question = f" Did you mean {near!r}?" if near else ""
    raise ConfigurationError(
        f"There is no skill {path!r}: there are {', '.join(known) or 'none'}.{question} A skill is "
        f"a folder with a {SKILL_FILE}, in skills/ of an app or in SKILLS_DIRS"
    )


def _check_options(path: str, options: Options) -> None:
    for name in options:
        if name not in OF_SITE:
            near = similar(name, OF_SITE)
            question = f" Did you mean {near!r}?" if near else ""
            raise ConfigurationError(
                f"A skill has no option {name!r}: there are {', '.join(OF_SITE)}.{question}"
            )

    def skill_file() -> None:
        """Stand for the SKILL.md, which is read when the server is first used."""

    # The errors name the function.
    skill_file.__module__ = "skills"
    skill_file.__qualname__ = path
    resource_component(skill_file, SCHEME + SKILL_FILE, **options)


# Components.


def _resource(skill: Skill, text: SkillText, options: Mapping[str, Any]) -> Component:
    async def read(frame: Frame) -> Response:
        # The registered one, which has the scopes that its group needs on the server.
        registered = frame.server.components.find(ResourceComponent.kind, skill.uri)
        if registered is None:
            raise ResourceNotFound
        return await contents(frame, skill, skill.uri, registered)

    component = resource_component(
        read,
        skill.uri,
        **options,
        name=text.name,
        description=text.description,
        mime_type=MARKDOWN,
    )
    return replace(component, module=skill.source, find_line=int)


def _template() -> Component:
    component = resource_component(
        read_file,
        SCHEME + "{+path}",
        name="skill_files",
        description="The files of skills, which their SKILL.md names relative to itself.",
    )
    # The SKILL.md of a file decides, whatever groups the connection selects.
    return replace(component, is_in_every_selection=True, find_line=int)


def _prompt(skill: Skill, text: SkillText, options: Mapping[str, Any]) -> Component:
    def get_messages() -> Response:
        response = Response.prompt().user(skill.read().body.strip())
        if len(skill.files().files) == 1:
            return response
        return response.user(f"Relative links lead to resources below {skill.directory}/")

    names = {name: value for name, value in options.items() if name != "cache"}
    component = prompt_component(
        get_messages, **names, name=text.name, description=text.description
    )
    return replace(component, module=skill.source, find_line=int)


async def read_file(uri: str, frame: Frame) -> Response:
    """Read a file of a skill that the caller may use."""
    skill = innermost(frame, uri)
    if skill is None:
        raise ResourceNotFound
    component = await find_component(frame, ResourceComponent.kind, skill.uri)
    if component is None:
        raise ResourceNotFound
    return await contents(frame, skill, uri, component)


def innermost(frame: Frame, uri: str) -> Skill | None:
    """Return the skill with a URI in its folder, the innermost one, if the server has it.

    Percent-encoding is compared as it is written: a URI has one spelling.
    """
    skills = SKILLS.of(frame.server)
    by_directory = {skill.directory: skill for skill in finding.find().skills.values()}
    while len(uri) > len(SCHEME):
        skill = by_directory.get(uri)
        if skill is not None:
            return skill if skill.path in skills else None
        uri = uri.rpartition("/")[0]
    return None


async def contents(frame: Frame, skill: Skill, uri: str, component: Component) -> Response:
    """Read the file of a skill at a URI, on a thread; raises ResourceNotFound for any other.

    ``component`` is the resource of the skill, whose cache hint each of its files has.
    """
    response: ResourceResponse = await frame.exchange.run_hook(_contents, skill, uri)
    hint = component.cache or frame.server.cache or CacheHint(ttl_ms=0)
    if not component.is_public:
        hint = replace(hint, scope="private")
    return replace(response, cache=hint)


def _contents(skill: Skill, uri: str) -> ResourceResponse:
    try:
        listed = skill.files().files
        by_uri = {skill.uri_of(relative): file for relative, file in listed.items()}
        if uri not in by_uri:
            raise ResourceNotFound
        return response_of(by_uri[uri])
    except (OSError, SkillError) as error:
        log_repeated(logging.ERROR, "A file of the skill %s cannot be read: %s", skill.path, error)
        raise ResourceNotFound from error


def response_of(file: File) -> ResourceResponse:
    """Return the contents of a file: as text where its bytes are UTF-8, else as they are."""
    data = file.read()
    mime_type = file.mime_type
    try:
        return Response.resource().text(data.decode(), mime_type=mime_type)
    except UnicodeDecodeError:
        return Response.resource().blob(data, mime_type=mime_type)
