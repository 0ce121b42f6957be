"""``spec.toml`` lists every requirement, and each of its lines is shown by a test."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.spec import ATTEMPTS, REQUIREMENTS, marked_tests

SPEC = Path(__file__).resolve().parents[3] / "shared" / "spec"

Requirements = Mapping[str, Mapping[str, str]]
SESSION = REQUIREMENTS["session"]
STATELESS = REQUIREMENTS["stateless"]
AUTHORIZATION = REQUIREMENTS["authorization"]
SESSION_TASKS = REQUIREMENTS["session_tasks"]
STATELESS_TASKS = REQUIREMENTS["stateless_tasks"]
SKILLS = REQUIREMENTS["skills"]
ALL = {identity: each for group in REQUIREMENTS.values() for identity, each in group.items()}
LEVELS = {"MUST", "SHOULD", "MAY", "CLIENT", "PRACTICE"}

HEADING = re.compile(r"## (\d+(?:\.\d+)?)")
ROW = re.compile(r"\| (?P<id>[A-Z]+(?:-[A-Z]+)*-[0-9A-Z]+) \| (?P<level>[^|]+) \|")
ITEM = re.compile(r"- \*\*(?P<id>[A-Z]+-\d+)\*\* (?P<level>[^·]+)·")


def test_each_requirement_has_a_level_and_a_section() -> None:
    assert [name for name, each in ALL.items() if each["level"] not in LEVELS] == []
    assert [name for name, each in ALL.items() if not each["section"].strip()] == []
    assert [name for name, each in ALL.items() if not each["text"].endswith(".")] == []


def test_each_requirement_has_a_test_or_a_reason() -> None:
    reasons = {name: each["because"] for name, each in ALL.items() if "because" in each}

    assert sorted(ALL.keys() - marked_tests().keys() - reasons.keys()) == []
    assert [name for name, reason in reasons.items() if not reason.endswith(".")] == []


def test_each_attempt_has_one_test() -> None:
    attempts = [identity for group in ATTEMPTS.values() for identity in group]

    assert [identity for identity in attempts if len(marked_tests().get(identity, ())) != 1] == []


def test_each_mark_of_a_test_is_listed() -> None:
    listed = {*ALL, *(identity for group in ATTEMPTS.values() for identity in group)}

    assert {name: marked_tests()[name] for name in marked_tests().keys() - listed} == {}
    assert [name for name, tests in marked_tests().items() if len(set(tests)) < len(tests)] == []


def test_at_most_a_tenth_of_must_requirements_lack_a_test() -> None:
    groups = (SESSION, STATELESS, AUTHORIZATION)
    musts = {name for group in groups for name, each in group.items() if each["level"] == "MUST"}

    assert len(musts - marked_tests().keys()) < len(musts) / 10


CHECKLISTS: Sequence[tuple[str, re.Pattern[str], set[str], str, Requirements]] = (
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
    listed: Requirements,
) -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    demanded = dict(rows(SPEC / name, pattern, left_out, ends))
    of_topic = {i: each for i, each in AUTHORIZATION.items() if i in demanded}
    listed = {**in_checklist(listed), **of_topic}

    assert sorted(listed.keys() - demanded.keys()) == []
    assert sorted(demanded.keys() - listed.keys()) == []
    assert {i: listed[i]["level"] for i in listed} == {i: demanded[i] for i in listed}


@pytest.mark.parametrize(
    ("name", "pattern", "heading", "ends", "listed"),
    [
        ("session-revisions.md", ROW, "## 18. ", "## 19. ", SESSION_TASKS),
        ("2026-07-28.md", ITEM, "## 3.1 ", "## 3.2 ", STATELESS_TASKS),
    ],
)
def test_requirements_of_tasks_match_the_rows_of_the_checklists(
    name: str,
    pattern: re.Pattern[str],
    heading: str,
    ends: str,
    listed: Requirements,
) -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    lines = (SPEC / name).read_text(encoding="utf-8").partition(f"\n{heading}")[2]
    found = filter(None, map(pattern.match, lines.partition(f"\n{ends}")[0].splitlines()))

    assert {row["id"]: level(row["level"]) for row in found} == {
        identity: each["level"] for identity, each in in_checklist(listed).items()
    }


def test_requirements_of_skills_match_the_rows_of_the_checklist() -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    lines = (SPEC / "skills.md").read_text(encoding="utf-8").splitlines()
    found = {row["id"]: level(row["level"]) for row in filter(None, map(ROW.match, lines))}
    # The others are reserved, or say what nobody has to do.
    demanded = {identity: each for identity, each in found.items() if each != "PRACTICE"}
    assert demanded == {identity: each["level"] for identity, each in SKILLS.items()}


def test_requirements_of_authorization_are_rows_of_the_checklists() -> None:
    if not SPEC.is_dir():
        pytest.skip("the checklists are not part of the repository, and are not beside it here")

    every = {
        identity
        for name, pattern, left_out, ends, _ in CHECKLISTS
        for identity, _ in rows(SPEC / name, pattern, left_out, ends)
    }

    assert sorted(AUTHORIZATION.keys() - every) == []


def in_checklist(listed: Requirements) -> Requirements:
    """Requirements by their ids in the checklist of the stateless revision, which says it once."""
    return {identity.removeprefix("2026/"): each for identity, each in listed.items()}


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
