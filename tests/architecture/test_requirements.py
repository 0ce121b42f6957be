"""``tests/requirements.py`` lists every requirement, and cites only tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.requirements import AUTHORIZATION, SESSION, STATELESS, Requirement
from tests.task_requirements import EXTENSION_TASKS, SESSION_TASKS

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SPEC = ROOT.parent / "shared" / "spec"
CONTRACTS = ROOT / "django_mcp" / "testing" / "contracts.py"

ALL = [
    pytest.param(requirement, id=f"{name}:{identity}")
    for name, checklist in (
        ("session", SESSION),
        ("stateless", STATELESS),
        ("authorization", AUTHORIZATION),
        ("session tasks", SESSION_TASKS),
        ("extension tasks", EXTENSION_TASKS),
    )
    for identity, requirement in checklist.items()
]
LEVELS = {"MUST", "SHOULD", "MAY", "CLIENT", "PRACTICE"}

HEADING = re.compile(r"## (\d+(?:\.\d+)?)")
ROW = re.compile(r"\| (?P<id>[A-Z]+(?:-[A-Z]+)*-[0-9A-Z]+) \| (?P<level>[^|]+) \|")
ITEM = re.compile(r"- \*\*(?P<id>[A-Z]+-\d+)\*\* (?P<level>[^·]+)·")


@pytest.mark.parametrize("requirement", ALL)
def test_each_requirement_has_a_test_or_a_reason(requirement: Requirement) -> None:
    assert requirement.level in LEVELS
    assert requirement.tests or requirement.because.strip(), "neither a test nor a reason"
    assert not requirement.because or requirement.because.strip().endswith(".")


@pytest.mark.parametrize("requirement", ALL)
def test_each_test_named_by_a_requirement_exists(requirement: Requirement) -> None:
    missing = [node for node in requirement.tests if not exists(node)]

    assert not missing
    assert len(set(requirement.tests)) == len(requirement.tests)


def test_at_most_a_tenth_of_must_requirements_lack_a_test() -> None:
    musts = [
        each
        for each in (*SESSION.values(), *STATELESS.values(), *AUTHORIZATION.values())
        if each.level == "MUST"
    ]
    unshown = [each for each in musts if not each.tests]

    assert len(unshown) < len(musts) / 10


CHECKLISTS: Sequence[tuple[str, re.Pattern[str], set[str], str, Mapping[str, Requirement]]] = (
    ("session-revisions.md", ROW, {"18", "20"}, "## (a)", SESSION),
    ("2026-07-28.md", ITEM, set(), "# 3.", STATELESS),
)
"""Each checklist, without the sections on tasks and authorization servers."""


@pytest.mark.parametrize(("name", "pattern", "left_out", "ends", "listed"), CHECKLISTS)
def test_requirements_match_the_rows_of_the_checklists(
    name: str,
    pattern: re.Pattern[str],
    left_out: set[str],
    ends: str,
    listed: Mapping[str, Requirement],
) -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    demanded = dict(rows(SPEC / name, pattern, left_out, ends))
    of_topic = {i: each for i, each in AUTHORIZATION.items() if i in demanded}
    listed = {**listed, **of_topic}

    assert sorted(listed.keys() - demanded.keys()) == []
    assert sorted(demanded.keys() - listed.keys()) == []
    assert {i: listed[i].level for i in listed} == {i: demanded[i] for i in listed}


@pytest.mark.parametrize(
    ("name", "pattern", "heading", "ends", "listed"),
    [
        ("session-revisions.md", ROW, "## 18. ", "## 19. ", SESSION_TASKS),
        ("2026-07-28.md", ITEM, "## 3.1 ", "## 3.2 ", EXTENSION_TASKS),
    ],
)
def test_requirements_of_tasks_match_the_rows_of_the_checklists(
    name: str,
    pattern: re.Pattern[str],
    heading: str,
    ends: str,
    listed: Mapping[str, Requirement],
) -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    lines = (SPEC / name).read_text(encoding="utf-8").partition(f"\n{heading}")[2]
    found = filter(None, map(pattern.match, lines.partition(f"\n{ends}")[0].splitlines()))

    assert {row["id"]: level(row["level"]) for row in found} == {
        identity: each.level for identity, each in listed.items()
    }


def test_requirements_of_authorization_are_rows_of_the_checklists() -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    every = {
        identity
        for name, pattern, left_out, ends, _ in CHECKLISTS
        for identity, _ in rows(SPEC / name, pattern, left_out, ends)
    }

    assert sorted(AUTHORIZATION.keys() - every) == []


def rows(
    path: Path, pattern: re.Pattern[str], left_out: set[str], ends: str
) -> Iterator[tuple[str, str]]:
    """The ids and levels of a checklist, without excluded sections."""
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(ends):
            return
        heading = HEADING.match(line)
        section = heading[1] if heading else section
        row = pattern.match(line)
        if row and section not in left_out:
            yield row["id"], level(row["level"])


def level(written: str) -> str:
    """The level of a requirement: the strongest of those given."""
    words = written.strip()
    if words.startswith("C:"):
        return "CLIENT"
    for name in ("MUST", "SHOULD", "MAY"):
        if name in words:
            return name
    return "PRACTICE"


def exists(node: str) -> bool:
    """Whether a file defines a test of this name, without importing it."""
    file, _, name = node.partition("::")
    path = TESTS / file
    return path.is_file() and name in names(path)


@cache
def names(path: Path) -> frozenset[str]:
    """The tests of a file, including those that its classes inherit from contracts."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = {*functions(body)}
    for item in body:
        if isinstance(item, ast.ClassDef) and item.name.startswith("Test"):
            bases = [base.id for base in item.bases if isinstance(base, ast.Name)]
            inherited = [method for base in bases for method in contract(base)]
            found |= {f"{item.name}::{method}" for method in (*functions(item.body), *inherited)}
    return frozenset(found)


def functions(body: list[ast.stmt]) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [item.name for item in body if isinstance(item, kinds) and item.name.startswith("test_")]


@cache
def contract(name: str) -> list[str]:
    """The tests that a contract class defines."""
    classes = ast.parse(CONTRACTS.read_text(encoding="utf-8")).body
    return [
        method
        for item in classes
        if isinstance(item, ast.ClassDef) and item.name == name
        for method in functions(item.body)
    ]
