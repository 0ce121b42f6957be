"""Extras and commands in prose are those of the package."""

from __future__ import annotations

import re
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator, Mapping
from functools import cache

from django.core.management import BaseCommand, get_commands, load_command_class

from tests.docs.examples import FENCE, PAGES, ROOT
from tests.rows import rows

PROSE = (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
INSTALLED = re.compile(r"django[-_]mcp(?:[-_]channels)?\[([\w, -]+)\]")
NAMED = re.compile(r"\bextras? (`[\w-]+`(?:(?:,| and| or)* `[\w-]+`)*)")
CODE = re.compile(r"`([^`\n]+)`")
SECTION = re.compile(r"^## (mcp_\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {*project["optional-dependencies"]}


def extras_of(text: str) -> Iterator[str]:
    """The extras that a text names, and those that it installs."""
    for match in INSTALLED.finditer(text):
        yield from re.split(r", ?", match[1])
    for match in NAMED.finditer(text.replace("\n", " ")):
        yield from CODE.findall(match[1])


@cache
def options() -> Mapping[str, set[str]]:
    """The options of each command of the package, with those of its subcommands."""
    commands = {name: app for name, app in get_commands().items() if name.startswith("mcp_")}
    return {
        name: {*options_of(load_command_class(app, name).create_parser("manage.py", name))}
        for name, app in commands.items()
    }


def options_of(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, _SubParsersAction):  # Those of mcp_token.
            for subparser in action.choices.values():
                yield from options_of(subparser)


def unknown_commands(text: str) -> Iterator[str]:
    """Commands of the package and their options, as a text shows them, that do not exist."""
    shown = [match[3] for match in FENCE.finditer(text) if match[2] == "console"]
    lines = [*CODE.findall(FENCE.sub("", text)), *"\n".join(shown).splitlines()]
    for line in lines:
        found = re.search(r"(?:^|manage\.py )(mcp_[a-z_]+)(?=$| )(.*)", line)
        if found is None:
            continue
        if found[1] not in options():
            # `mcp_name` and `mcp_outcome` are attributes of log records.
            if "manage.py" in line or "--" in found[2]:
                yield f"{line!r}: there is no command {found[1]}"
            continue
        for option in OPTION.findall(found[2]):
            if option not in options()[found[1]]:
                yield f"{line!r}: {found[1]} has no option {option}"


def test_every_extra_that_a_page_names_exists() -> None:
    named = {(name, page) for page in PROSE for name in extras_of(page.read_text())}
    unknown = [f"{page.relative_to(ROOT)}: {name}" for name, page in named if name not in extras()]
    assert not unknown, f"pyproject.toml has no such extras: {unknown}"
    missing = extras() - {name for name, _ in named}
    assert not missing, f"No page says what these extras are for: {missing}"


def test_every_command_and_option_that_a_page_shows_exists() -> None:
    unknown = [
        f"{page.relative_to(ROOT)}: {command}"
        for page in PROSE
        for command in unknown_commands(page.read_text())
    ]
    assert not unknown, "\n".join(unknown)


def test_command_reference_lists_exactly_the_commands_and_their_options() -> None:
    text = FENCE.sub("", (ROOT / "docs" / "reference" / "commands.md").read_text())
    sections = {name: {*OPTION.findall(body)} for name, body in SECTION.findall(text)}
    # What every command of Django has is described there; --verbosity is, where it has an effect.
    common = {*options_of(BaseCommand().create_parser("", "")), "--skip-checks"}
    expected = {name: names - common for name, names in options().items()}
    assert {name: names - common for name, names in sections.items()} == expected


def test_page_about_stability_lists_exactly_the_apps_and_extras() -> None:
    text = (ROOT / "docs" / "reference" / "stability.md").read_text()
    rows = re.findall(r"^\| `([\w.-]+)` \|.*\| ([^|]+) \|$", text, re.MULTILINE)
    apps = {
        f"django_mcp.contrib.{file.parent.name}": (file.parent / "migrations").is_dir()
        for file in (ROOT / "django_mcp" / "contrib").glob("*/apps.py")
    }
    listed = {name: cell.startswith("yes") for name, cell in rows if name.startswith("django_mcp.")}
    assert listed == apps
    assert {name for name, _ in rows} - {*listed} == extras()


@rows(
    "text",
    [
        "Programs that use the REST API | the extra `rest-framework` |",
        "It requires the extras `jwt` and `rest-framework`.",
        '$ pip install "django-mcp-channels[rest-framework]"',
    ],
)
def test_unknown_extra_is_found(text: str) -> None:
    assert not {*extras_of(text)} <= extras()


@rows(
    "text",
    [
        "Run `manage.py mcp_clean` by cron.",
        "Run `mcp_call --as ann`.",
        "```console\n$ python manage.py mcp_token create ann --scopes read\n```\n",
    ],
)
def test_unknown_command_or_option_is_found(text: str) -> None:
    assert [*unknown_commands(text)]
