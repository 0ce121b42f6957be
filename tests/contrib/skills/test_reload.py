"""``runserver`` reloads when a skill is changed, added or removed."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.utils import autoreload
from django.utils.autoreload import StatReloader, file_changed

from django_mcp.contrib.skills.apps import watch
from tests.contrib.skills.conftest import Folder
from tests.http_client import connect, stateless
from tests.moving.project import lay_out
from tests.running_site import serving_by
from tests.waiting import wait_until

SKILL = "---\nname: refunds\ndescription: How to refund\n---\nDo it.\n"
Reloads = Callable[[], list[Path]]
"""Looks for changes once, and returns what led to a reload."""


@pytest.fixture
def reloads(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reloads]:
    """Django's reloader, which has seen the folders once, long ago."""
    reloaded: list[Path] = []
    monkeypatch.setattr(autoreload, "trigger_reload", reloaded.append)
    monkeypatch.setattr(autoreload, "iter_all_python_module_files", list)
    monkeypatch.setattr(StatReloader, "SLEEP_TIME", 0)
    reloader = StatReloader()

    def look() -> list[Path]:
        if not reloader.directory_globs:
            watch(reloader)
            age(folder.root.parent)
        reloaded.clear()
        next(ticker)
        return [*reloaded]

    ticker = reloader.tick()
    yield look
    assert file_changed.disconnect(dispatch_uid="django_mcp.contrib.skills")


def age(folder: Path) -> None:
    """Let everything in a folder be older than what a test writes."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (1, 1))


def test_changed_file_of_a_skill_is_a_reload(folder: Folder, reloads: Reloads) -> None:
    file = folder.skill("refunds")
    assert reloads() == []

    file.write_text(SKILL)
    assert reloads() == [file]
    assert reloads() == []


def test_added_skill_is_a_reload(folder: Folder, reloads: Reloads) -> None:
    folder.skill("returns")
    assert reloads() == []

    folder.skill("refunds")
    assert reloads() == [folder.root]
    folder.skill("billing/invoices")
    assert reloads() == [folder.root]
    folder.skill("billing/refunds")
    assert reloads() == [folder.root / "billing"]


def test_removed_skill_is_a_reload(folder: Folder, reloads: Reloads) -> None:
    folder.skill("refunds")
    assert reloads() == []

    shutil.rmtree(folder.root / "refunds")
    assert reloads() == [folder.root]


def test_first_skill_of_a_site_is_a_reload_and_nothing_else_beside_it(
    folder: Folder, reloads: Reloads
) -> None:
    folder.root.rmdir()
    assert reloads() == []

    (folder.root.parent / "db.sqlite3-journal").touch()
    assert reloads() == []
    age(folder.root.parent)
    folder.skill("refunds")
    assert reloads() == [folder.root.parent]


@pytest.mark.nightly
def test_runserver_serves_a_skill_that_was_added(tmp_path: Path) -> None:
    python = Path(sys.executable)
    environment = lay_out(tmp_path, ["mounted"], python)
    (tmp_path / "mysite" / "settings.py").write_text(SETTINGS)
    numbers = itertools.count()

    def is_served(port: int) -> bool:
        skills = skills_of(port)
        if skills == []:
            # The reloader may not have looked at the folders yet, so there is more than one.
            folder = tmp_path / "shop" / "skills" / f"refunds-{next(numbers)}"
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(SKILL.replace("refunds", folder.name))
        return bool(skills)

    command = ("manage", "runserver", "127.0.0.1:{port}")
    with serving_by(command, python, tmp_path, environment) as site:
        assert skills_of(site.port) == []
        wait_until(lambda: is_served(site.port), "the skill is served", pause=2)


SETTINGS = """
from mysite.base import *

INSTALLED_APPS += ["daphne", "django_mcp", "django_mcp.contrib.skills"]
ASGI_APPLICATION = "mysite.asgi.application"
DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]}
"""


def skills_of(port: int) -> list[str] | None:
    """The names of the skills that a server has; None while it restarts."""
    body, headers = stateless("skills/list", {})
    try:
        with connect(port) as client:
            response = client.post("/mcp", content=body, headers=headers)
    except httpx.TransportError:
        return None
    # Without skills, a server does not know the method.
    result = response.json().get("result", {"skills": []})
    return [entry["frontmatter"]["name"] for entry in result["skills"]]
