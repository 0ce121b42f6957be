"""The production site of the documentation: its files are checked as they are shown."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import django
import pytest

from tests.docs.examples import PROJECT, ROOT, blocks
from tests.docs.reader import Reader

PAGE = ROOT / "docs" / "how-to" / "production.md"
BEFORE_6 = '    "django_tasks",  # Not from Django 6 on.\n'
LEFT = {"oauth2_provider.W008", "security.W005", "security.W021"}
"""The warnings that the page names."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The Python files of the page, with the model of the shop."""
    for app in ("mysite", "shop"):
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
    (tmp_path / "shop" / "models.py").write_text((PROJECT / "shop" / "models.py").read_text())
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for file in ("settings", "urls", "asgi"):
            (tmp_path / "mysite" / f"{file}.py").touch()
        for block in blocks(PAGE):
            if block.label == "python":
                reader.write(block)
    settings = tmp_path / "mysite" / "settings.py"
    text = settings.read_text()
    assert BEFORE_6 in text
    if django.VERSION >= (6,):
        settings.write_text(text.replace(BEFORE_6, ""))
    return tmp_path


def test_check_for_deployment_warns_only_of_what_the_page_names(project: Path) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "mysite.settings",
        "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)]),
        "SECRET_KEY": "production-" + "abcdefghij" * 5,
    }
    code = (
        "import django; django.setup()\n"
        "from django.core.checks import run_checks\n"
        "found = run_checks(include_deployment_checks=True)\n"
        "print(*sorted({each.id for each in found}), sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert {*done.stdout.split()} == LEFT
