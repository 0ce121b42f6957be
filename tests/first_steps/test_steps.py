"""Each forgotten or wrong step, as a project in a process of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.first_steps.steps import NEW_CLIENT, STEPS, Step
from tests.first_steps.template import create, run

TITLES = [f"{step.mistake}, {step.noticed}" for step in STEPS]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without a mistake."""
    folder = tmp_path_factory.mktemp("project")
    create(folder)
    return folder


def test_project_without_mistakes_has_no_findings_and_answers(template: Path) -> None:
    assert "no issues" in run(template, "manage.py", "check")
    assert run(template, *NEW_CLIENT).startswith("200 ")


@pytest.mark.parametrize("step", STEPS, ids=TITLES)
def test_mistake_is_answered_with_words_that_help(
    step: Step, template: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    # Byte code could be taken for that of a file which is changed in the same second.
    shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    changed = 0
    for file, old, new in step.edits:
        text = (folder / file).read_text()
        changed += old in text
        (folder / file).write_text(text.replace(old, new))
    assert changed or not step.edits
    printed = run(folder, *step.command)
    assert step.words in " ".join(printed.split()), printed
