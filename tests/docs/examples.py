"""The examples of the documentation: found in its pages, and run as the project they describe.

A page runs from top to bottom. A Python block belongs to the file that its first line names
(``# shop/mcp.py``), or else to that of the previous block; several blocks of a file are
concatenated. ``mcp.py`` registers with an empty registry, ``settings.py`` and ``urls.py`` apply to
the rest of the page, and the tests in ``tests.py`` run. A command runs if its output is shown.
Tests that readers need not see are beside this module: those of ``docs/how-to/forms.md`` are in
``how-to/forms.py``. They run at the end of the page.
"""

from __future__ import annotations

import inspect
import io
import json
import linecache
import re
import shlex
import shutil
import sys
import textwrap
import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import environ, pathsep
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.apps import AppConfig
from django.core.management import CommandError, call_command, get_commands
from django.db import connections, transaction
from django.db.utils import load_backend

from django_mcp import extensions, registry, stores
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.testing import Client, SyncClient
from tests.databases import SERVERS, why_not_database

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Path(__file__).resolve().parent / "project"
GUIDE = ROOT / "django_mcp" / "skills" / "django-mcp" / "SKILL.md"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), GUIDE)

FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
TEMPLATE = re.compile(r"\{# \w+/templates/([\w/.]+) #\}\n")
FILE = re.compile(r"# (\w+(?:/\w+)*)\.py\n")
ELSEWHERE = ("client",)
"""Files that need packages which are not installed here: ``test_tutorial`` runs them."""
PROGRAMS = pathsep.join([str(ROOT / "scripts"), f"{sys.prefix}/bin", environ.get("PATH", "")])
MEMORY = {
    "sessions": {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"},
    "events": {"BACKEND": "django_mcp.stores.memory.MemoryEventStore"},
}
ENVIRONMENT = {"SECRET_KEY": "of-the-environment-" + "abcdefghij" * 4}
"""The variables that settings read."""
GIVEN: Mapping[str, Any] = {
    "client_for": Client,
    "mcp_client": Client,
    "sync_mcp_client": SyncClient,
    "transactional_db": None,
}
"""Replacements for the fixtures of pytest."""
NEED_PRODUCTS = {
    "docs/reference/api/components.md",
    "docs/writing/transport.md",
}
"""Pages with tests that do not make their own rows yet. Only remove pages here."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    location: str
    label: str
    text: str

    @property
    def file(self) -> str | None:
        """The module of the file that it names, or None."""
        named = FILE.match(self.text)
        return named[1].replace("/", ".") if named else None

    def fail(self, why: str) -> AssertionError:
        """An error message with the location of the block."""
        return AssertionError(f"{self.location}: {why}")


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, from top to bottom."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{page.relative_to(ROOT)}:{line}", found[2], textwrap.dedent(found[3]))


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """The commands of a console as argument lists, each with the output below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.count('"') % 2:  # A quoted argument continues on the next line.
            line, _, shown = shown.partition("\n")
            command = f"{command}\n{line}"
        yield shlex.split(command), shown.strip()


class Project:
    """The project of one page, which grows with each block."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.page = ""
        self.file = "page"
        self.written: dict[str, str] = {}
        """The text of each file so far, by module name."""
        self.templates: dict[str, str] = {}

    def run(self, page: Path) -> None:
        """Run every block of the page, whose extensions are installed until its end."""
        self.page = str(page.relative_to(ROOT))
        with extensions.installed(), mock.patch.dict(environ, ENVIRONMENT):
            self._run(page)

    def _run(self, page: Path) -> None:
        for block in blocks(page):
            if block.label not in TAKE:
                raise block.fail(f"label it as one of {', '.join(TAKE)}, not {block.label!r}")
            try:
                TAKE[block.label](self, block)
            except Exception as error:
                error.add_note(f"This is shown at {block.location}")
                raise
        self._run_unshown(page)

    def _run_unshown(self, page: Path) -> None:
        """Run the tests of the page that it does not show."""
        file = (ROOT / "tests" / page.relative_to(ROOT)).with_suffix(".py")
        if file.exists():
            self.python(Block(str(file.relative_to(ROOT)), "python", file.read_text()))

    def python(self, block: Block) -> None:
        """Run a block as a part of its file, or compare it with the folder ``project``."""
        self.file = block.file or self.file
        present = PROJECT / f"{self.file.replace('.', '/')}.py"
        if present.exists() and present.read_text().strip() not in block.text:
            raise block.fail(f"show the contents of {present.relative_to(ROOT)}")
        if not present.exists() and self.file not in ELSEWHERE:
            self._continue(sys.modules.setdefault(self.file, ModuleType(self.file)), block.text)

    def _continue(self, module: ModuleType, more: str) -> None:
        before, present = dict(vars(module)), self.written.get(self.file, "")
        self.written[self.file] = text = f"{present}{more}\n"
        # With the line numbers of the file, for tracebacks.
        name, numbered = f"{self.file}.py", "\n" * present.count("\n") + more
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(numbered, name, "exec", dont_inherit=True), vars(module))
        new = {name: it for name, it in vars(module).items() if before.get(name) is not it}
        take = TAKE_FILE.get(self.file.rpartition(".")[2])
        if take is not None:
            take(self, module, new)

    def _apply(self, module: ModuleType, new: Mapping[str, Any]) -> None:
        for name, value in new.items():
            if name == "DJANGO_MCP":
                # Another thread would not see the rows that a test has written.
                self.settings.DJANGO_MCP = {"STORES": MEMORY, **value}
            elif name == "DATABASES":
                _connect(value)
            elif name.isupper() and name != "INSTALLED_APPS":
                setattr(self.settings, name, value)
        stores.sessions()
        stores.events()

    def _route(self, module: ModuleType, new: Mapping[str, Any]) -> None:
        self.settings.ROOT_URLCONF = module.__name__

    def _get_ready(self, module: ModuleType, new: Mapping[str, Any]) -> None:
        for name, config in new.items():
            is_own = isinstance(config, type) and config.__module__ == module.__name__
            if is_own and issubclass(config, AppConfig):
                app = config(f"{module.__name__}.{name}", sys.modules[config.name])
                app.ready()
                if hasattr(app, extensions.ATTRIBUTE):
                    extensions.install([*INSTALLED.all, app.mcp_extension()])

    def _register(self, module: ModuleType, new: Mapping[str, Any]) -> None:
        registry.register_module(module)

    def _test(self, module: ModuleType, new: Mapping[str, Any]) -> None:
        """Run tests without the products of the project: readers do not have these rows."""
        if self.page in NEED_PRODUCTS:
            self._run_tests(new)
            return
        with transaction.atomic():
            sys.modules["shop.models"].Product.objects.all().delete()
            self._run_tests(new)
            transaction.set_rollback(True)

    def _run_tests(self, new: Mapping[str, Any]) -> None:
        for name, test in new.items():
            if isinstance(test, type) and issubclass(test, unittest.TestCase):
                result = unittest.TestResult()
                # At its end it closes the connection, whose transaction is that of our own test.
                with mock.patch.object(connections["default"], "close"):
                    unittest.defaultTestLoader.loadTestsFromTestCase(test).run(result)
                assert result.wasSuccessful(), result.errors + result.failures
            elif name.startswith("test_"):
                given = {each: GIVEN[each] for each in inspect.signature(test).parameters}
                (async_to_sync(test) if inspect.iscoroutinefunction(test) else test)(**given)

    def console(self, block: Block) -> None:
        """Check that each command exists; run it and compare where the page shows its output."""
        for words, shown in commands(block):
            if words[:2] == ["python", "manage.py"]:
                _manage(block, words[2:], shown)
            elif words[0] != "source" and not shutil.which(Path(words[0]).name, path=PROGRAMS):
                raise block.fail(f"there is no program {words[0]}: name one that readers have")

    def diff(self, block: Block) -> None:
        """Run the file as it is after the change."""
        kept = [line for line in block.text.splitlines() if not line.startswith("-")]
        after = "\n".join(line if line[:1] == "#" else line[1:] for line in kept)
        self.python(Block(block.location, "python", after + "\n"))

    def html(self, block: Block) -> None:
        """Add a template, which its first line names."""
        named = TEMPLATE.match(block.text)
        if named is None:
            raise block.fail("name the template: {# shop/templates/shop/cart.html #}")
        self.templates[named[1]] = block.text
        loaders = [
            ("django.template.loaders.locmem.Loader", self.templates),
            "django.template.loaders.app_directories.Loader",
        ]
        engine = "django.template.backends.django.DjangoTemplates"
        self.settings.TEMPLATES = [{"BACKEND": engine, "OPTIONS": {"loaders": loaders}}]

    def json(self, block: Block) -> None:
        """Check that it is JSON."""
        json.loads(block.text)

    def markdown(self, block: Block) -> None:
        """Compare a SKILL.md with the one in the folder ``project``."""
        name = block.text.partition("name: ")[2].partition("\n")[0]
        if (PROJECT / "shop" / "skills" / name / "SKILL.md").read_text() != block.text:
            raise block.fail(f"show the contents of the skill {name}")

    def text(self, block: Block) -> None:
        """Ignore a block that is for readers only."""


TAKE: Mapping[str, Callable[[Project, Block], None]] = {
    "python": Project.python,
    "diff": Project.diff,
    "console": Project.console,
    "html": Project.html,
    "json": Project.json,
    "markdown": Project.markdown,
    # ``tests/services/test_rolling_restarts.py`` runs them.
    **dict.fromkeys(("nginx", "caddyfile", "yaml", "ini"), Project.text),
    # Code for another package; ``tests/moving`` runs it.
    "py": Project.text,
    **dict.fromkeys(("", "text"), Project.text),
}
TAKE_FILE: Mapping[str, Callable[[Project, ModuleType, Mapping[str, Any]], None]] = {
    "apps": Project._get_ready,
    "settings": Project._apply,
    "mcp": Project._register,
    "urls": Project._route,
    "tests": Project._test,
}


def _connect(databases: Mapping[str, Any]) -> None:
    """Check that servers which are available accept the options; the test has another database."""
    described = connections.configure_settings({**databases})
    for alias, entry in described.items():
        kind = entry["ENGINE"].rpartition(".")[2]
        if kind in SERVERS and why_not_database(kind) is None:
            wrapper = load_backend(entry["ENGINE"]).DatabaseWrapper(
                {**entry, **SERVERS[kind]}, alias
            )
            try:
                with wrapper.cursor() as cursor:
                    cursor.execute("SELECT 1")
            finally:
                wrapper.close()
                if entry["OPTIONS"].get("pool"):
                    wrapper.close_pool()


def _manage(block: Block, words: list[str], shown: str) -> None:
    if words[0] not in get_commands():
        raise block.fail(f"manage.py has no command {words[0]}: see manage.py help")
    if shown:
        out = io.StringIO()
        try:
            call_command(*words, stdout=out, stderr=out, no_color=True)
        except CommandError as error:
            out.write(f"CommandError: {error}")
        printed = _with_paths_of_readers(out.getvalue()).strip()
        if printed != shown:
            raise block.fail(f"show what {words[0]} prints:\n{printed}")


def _with_paths_of_readers(printed: str) -> str:
    """Replace what is different on each machine, as the pages show it."""
    for ours, theirs in READERS.items():
        printed = printed.replace(ours, theirs)
    return printed


READERS: Mapping[str, str] = {
    sys.executable: "/path/to/the/environment/bin/python",
    str(ROOT): "/path/to/the/project",
    "example_site.settings": "mysite.settings",
}
