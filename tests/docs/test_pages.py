"""The pages of the documentation: their examples run, and their links resolve."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.management import create_permissions
from django.contrib.contenttypes.models import ContentType
from django.db import connection

import django_mcp
from django_mcp import registry
from django_mcp.contrib.skills import finding
from django_mcp.contrib.skills.declaration import SKILLS
from django_mcp.core.components import serializers
from django_mcp.core.components.prompt import PromptOptions
from django_mcp.core.components.resource import ResourceOptions
from django_mcp.core.components.tool import ToolOptions
from django_mcp.core.protocol.schema import compiler
from django_mcp.core.server import Server, failures
from django_mcp.core.server.hooks import HOOKS
from django_mcp.management import descriptions
from tests.docs.examples import FENCE, GUIDE, MEMORY, PAGES, PROJECT, ROOT, Project, blocks
from tests.docs.generated import PART, current
from tests.installed_apps import installed
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


PRODUCTS: Sequence[Mapping[str, Any]] = (
    {"name": "Green tea", "price": "4.50", "stock": 12},
    {"name": "Black tea", "price": "3.90", "stock": 0},
    {"name": "Teapot", "price": "24.00", "stock": 3},
)
"""The products of the examples."""


@pytest.fixture(scope="module")
def shop(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The app of the examples, installed and migrated."""
    sys.path.insert(0, str(PROJECT))
    with installed("shop", "notes"), django_db_blocker.unblock():
        product = importlib.import_module("shop.models").Product
        note = importlib.import_module("notes.models").Note
        with connection.schema_editor() as editor:
            editor.create_model(product)
            editor.create_model(note)
        # Tests of a page would each make it, and find that of the test before in the cache.
        kind = ContentType.objects.get_for_model(product)
        create_permissions(apps.get_app_config("shop"), verbosity=0)
        yield
        kind.delete()
        ContentType.objects.clear_cache()
        with connection.schema_editor() as editor:
            editor.delete_model(note)
            editor.delete_model(product)
    sys.path.remove(str(PROJECT))


@pytest.fixture
def project(
    shop: None, db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """A project with an empty registry and a few products."""
    default = Server("mcp")
    for name in ("tool", "resource", "prompt"):
        monkeypatch.setattr(registry, name, getattr(default, name))
    monkeypatch.setattr(registry, "default", default)
    monkeypatch.setattr(registry.registered, "servers", {default.name: default})
    public = ["django_mcp.auth.anonymous.AnonymousAuthentication"]
    settings.DJANGO_MCP = {"AUTHENTICATORS": public, "STORES": MEMORY}
    product = importlib.import_module("shop.models").Product
    for number, fields in enumerate(PRODUCTS, start=1):
        product.objects.create(pk=number, **fields)
    monkeypatch.setattr(SKILLS, "declarations", {})
    monkeypatch.setattr(SKILLS, "_servers", WeakSet())
    finding.find.cache_clear()  # The app of the examples is installed now.
    for table in (serializers, failures):
        monkeypatch.setattr(table, "_registered", {})
    project = Project(settings)
    yield project
    finding.find.cache_clear()
    serializers.clear_cache()
    if admin.site.is_registered(product):
        admin.site.unregister(product)
    for name in project.written:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_code_examples_of_the_page_run(page: Path, project: Project) -> None:
    project.run(page)


def test_links_have_existing_targets() -> None:
    dead = [f"{title(page)}: {link}" for page in PAGES for link in dead_links(page)]

    assert not dead, f"Links without a target: {dead}"


def dead_links(page: Path) -> Iterator[str]:
    # Links in blocks belong to the files that these show.
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        path, _, part = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or part and part not in anchors(target):
            yield link


def anchors(page: Path) -> set[str]:
    """The anchors of headings."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_pages_contain_no_merge_conflict() -> None:
    conflict = re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)

    assert [title(page) for page in PAGES if conflict.search(page.read_text())] == []


def test_generated_parts_of_the_pages_are_current() -> None:
    old = [title(page) for page in PAGES if page.read_text() != current(page.read_text())]

    assert not old, f"Run .venv/bin/python -m tests.docs.generated for {old}"


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "index.md"
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text())}
    missing = [title(page) for page in PAGES[1:] if page not in listed and page != index]
    assert not missing, f"docs/index.md does not list {missing}: add them"


def test_guide_for_coding_agents_has_at_most_150_lines() -> None:
    _, _, guide = GUIDE.read_text().partition("\n---\n\n")  # Without its front matter.
    assert 0 < len(guide.splitlines()) <= 150


def test_no_tool_of_the_guide_is_weak(project: Project) -> None:
    """Neither those that it declares, nor those that its toolset generates."""
    project.run(GUIDE)

    described = descriptions.describe(
        entry for server in registry.servers() for entry in registry.entries(server)
    )
    weak = {each.listed["name"]: each.weaknesses for each in described if each.weaknesses}
    assert len(described) == 6
    assert weak == {}


def test_api_reference_lists_every_public_name() -> None:
    text = reference("api")
    shown = {name for part in PART.finditer(text) for name in documented(*part[3].split())}
    named = {f"django_mcp.{name}" for name in django_mcp.__all__ if name != "questions"}
    assert named <= shown, (
        f"docs/reference/api lacks {sorted(named - shown)}: give each <!-- generated: api … --> "
        "and <!-- end -->, then run python -m tests.docs.generated"
    )


def test_api_reference_has_every_name_that_an_example_imports() -> None:
    text = reference("api")
    shown = {name for part in PART.finditer(text) for name in documented(*part[3].split())}
    missing = [
        f"{title(page)}: {name}"
        for page in PAGES
        if page.parent != DOCS / "writing"  # They build on what the package itself is made of.
        for name in imported(page)
        if name not in shown and f"`{name}" not in text
    ]
    assert not missing, f"docs/reference/api lacks {missing}"


def documented(name: str, *members: str) -> Iterator[str]:
    """The dotted names that a generated part describes."""
    yield name
    for member in members:
        yield f"{name}.{member}"


def imported(page: Path) -> Iterator[str]:
    """The names of the package that the examples of a page import."""
    for block in blocks(page):
        for statement in ast.walk(ast.parse(block.text if block.label == "python" else "")):
            if isinstance(statement, ast.ImportFrom):
                module = statement.module or ""
                if module.partition(".")[0] == "django_mcp":
                    yield from (f"{module}.{alias.name}" for alias in statement.names)


@pytest.mark.parametrize("options", [ToolOptions, ResourceOptions, PromptOptions])
def test_api_reference_lists_every_option_and_hook(options: Any) -> None:
    text = reference("api")
    missing = [each for each in (*options.__annotations__, *HOOKS) if f"`{each}" not in text]
    assert not missing, f"docs/reference/api does not name {missing}: add them"


@spec("JSCH-03", "2026/SCH-03")
def test_api_reference_lists_exactly_the_supported_json_schema_dialects() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| `(https?://json-schema[^`]+)` \|$", reference("api"), re.MULTILINE
    )
    assert [each.removesuffix("#") for each in rows] == [*compiler.DIALECTS]
    assert rows[0] == compiler.DEFAULT_DIALECT


def reference(name: str) -> str:
    """The text of a page of the reference, and of the pages in its folder."""
    folder = DOCS / "reference"
    pages = (folder / f"{name}.md", *sorted((folder / name).glob("*.md")))
    return "\n".join(page.read_text() for page in pages)
