"""System checks of the app ``django_mcp.contrib.skills``: skills that hosts refuse or misread."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from posixpath import dirname, normpath
from typing import Any
from urllib.parse import unquote

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from django_mcp import conf, registry
from django_mcp.contrib.skills import finding
from django_mcp.contrib.skills.declaration import SKILLS
from django_mcp.contrib.skills.files import Listing
from django_mcp.contrib.skills.finding import SKILL_FILE, Skill
from django_mcp.contrib.skills.front_matter import SkillError, SkillText
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.protocol.texts import similar

INDENT = r"^[ \t>]*"
"""What is before the code of a list or of a quotation."""
BLOCK_OF_CODE = re.compile(
    rf"{INDENT}(?P<fence>`{{3,}}|~{{3,}})[^`\n]*\n.*?{INDENT}(?P=fence)[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
CODE = re.compile(r"(?<!`)(?P<mark>`+)(?!`)[^\n]*?(?<!`)(?P=mark)(?!`)")
TARGET = r"(?:<([^<>\n]*)>|((?:[^\s<>()]|\([^\s<>()]*\))+))"
LINK = re.compile(rf"\]\(\s*{TARGET}[^)\n]*\)|^\[(?!\^)[^\]\n]+\]:\s*{TARGET}", re.MULTILINE)
"""A link, or the target of one; a name that begins with ``^`` is that of a footnote."""
ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|//|#")
"""Links with a scheme or a host, and those to a heading."""
NAME = r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:\([^`]*\))?`"
SPAN = re.compile(NAME)
"""Text that looks like the name of a tool, or of one of its arguments."""
CALLED = re.compile(rf"\b(?:[Tt]ools?|[Cc]alls?)\s+{NAME}|{NAME}\s+tool\b")
"""Text that can only be the name of a tool."""
SIMILARITY = 0.85
HINTS = {
    "E001": f"Begin {SKILL_FILE} with a line ---, then name: and description:, and a line ---.",
    "E002": "Give the skill the name of its folder.",
    "E003": "Say in 1 to 1024 characters what the skill does, and when to use it.",
    "E004": "Leave out what an agent does not need, or make several skills of it.",
}


@register("django_mcp")
def check_skills(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    # A check stays registered where a test has changed INSTALLED_APPS.
    if not apps.is_installed("django_mcp.contrib.skills"):
        return []
    try:
        return [*_folders(), *_same_names(), *_skills()]
    except ImproperlyConfigured:
        return []  # The check of the settings reports it.


def _folders() -> Iterator[CheckMessage]:
    for folder in conf.get().skills_dirs:
        if not folder.is_dir():
            yield Warning(
                f"SKILLS_DIRS names {folder}, which is no folder.",
                hint="Correct the path, or make the folder.",
                id="django_mcp_skills.W001",
            )
    on_disk = finding.find()
    for folder, reason in on_disk.unread.items():
        yield Warning(
            f"The skills in {folder} are not served: {reason}.",
            hint="Let it be a folder of skills alone, which the process may read.",
            id="django_mcp_skills.W005",
        )
    for served, other in on_disk.twice:
        yield Error(
            f"There are two skills {served.path!r}: {served.folder} is served, and "
            f"{other.folder} is not.",
            hint="Rename one of the folders, and the skill in it.",
            id="django_mcp_skills.E005",
        )
    for path, reason in on_disk.left_out.items():
        yield Warning(
            f"{path} is not served: {reason}.",
            hint="Put the file itself into the folder of the skill, under the name that it needs.",
            id="django_mcp_skills.W002",
        )


def _same_names() -> Iterator[CheckMessage]:
    for server in registry.servers():
        names = Counter(path.rpartition("/")[2] for path in SKILLS.of(server))
        for name, count in names.items():
            if count > 1:
                yield Warning(
                    f"{count} skills of the server {server.name!r} have the name {name!r}: some "
                    "hosts know them by it.",
                    hint="Rename all but one of them.",
                    id="django_mcp_skills.W003",
                )


def _skills() -> Iterator[CheckMessage]:
    for skill in finding.find().skills.values():
        servers = SKILLS.servers_of(skill)
        if not servers:
            continue
        try:
            listed = skill.files()
            text = skill.read(listed)
        except SkillError as error:
            yield Error(
                f"The skill {skill.path!r} in {skill.folder} is not served: {error}.",
                hint=HINTS[error.code],
                id=f"django_mcp_skills.{error.code}",
            )
            continue
        yield from _large_files(skill, listed)
        yield from _links(skill, listed)
        tools = {name for server in servers for name in _tools(server)}
        if tools:
            yield from _unknown_tools(skill, text, tools)


def _large_files(skill: Skill, listed: Listing) -> Iterator[CheckMessage]:
    most = conf.get().max_result_size
    for path, file in listed.files.items():
        # Bytes that are not text become four characters for each three of them.
        if file.size > most or (file.size * 4 > most * 3 and not _is_text(file.read())):
            yield Error(
                f"{path} of the skill {skill.path!r} is too large to be read: a result has at most "
                f"{most:,} bytes.",
                hint="Make it smaller, or raise MAX_RESULT_SIZE.",
                id="django_mcp_skills.E006",
            )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _links(skill: Skill, listed: Listing) -> Iterator[CheckMessage]:
    targets = {*listed.files, *listed.folders, "."}
    for path, file in listed.files.items():
        if not path.endswith(".md"):
            continue
        text = CODE.sub("", BLOCK_OF_CODE.sub("", file.read().decode(errors="replace")))
        for target in map("".join, LINK.findall(text)):
            if ELSEWHERE.match(target):
                continue
            # It leads to a file of the skill: from the file with the link, or from SKILL.md.
            relative = unquote(re.split("[?#]", target)[0])
            from_file = normpath(f"{dirname(path) or '.'}/{relative}")
            if from_file in targets or normpath(relative) in targets:
                continue
            yield Error(
                f"{path} of the skill {skill.path!r} links to {target!r}, which is not there.",
                hint="Links are relative to the file, and lead to files of the skill.",
                id="django_mcp_skills.E007",
            )


def _tools(server: Any) -> Iterator[str]:
    try:
        for tool in server.components.of_kind(ToolComponent.kind):
            yield tool.name
    except (ConfigurationError, DatabaseError):
        return  # The checks of the server report it.


def _unknown_tools(skill: Skill, text: SkillText, tools: Collection[str]) -> Iterator[CheckMessage]:
    body = BLOCK_OF_CODE.sub("", text.body)
    called = {*map("".join, CALLED.findall(body))}
    for name in sorted({*SPAN.findall(body)} - {*tools}):
        near = similar(name, tools, SIMILARITY)
        if near is None and name not in called:
            continue
        yield Warning(
            f"The skill {skill.path!r} names the tool {name!r}, which its server does not have.",
            hint=f"Did you mean {near!r}?" if near else "Name a tool that mcp_show lists.",
            id="django_mcp_skills.W004",
        )
