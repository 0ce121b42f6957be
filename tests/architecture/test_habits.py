"""Rules of style that a program can check, each by one test that lists all offenders.

What ruff can check is in ``pyproject.toml``. The rules of the syntax tree are in ``rules``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from django_mcp.core.protocol.revisions import BY_VERSION
from tests.architecture import rules
from tests.architecture.sources import PACKAGE, ROOT, sources

VERSION = re.compile("|".join(map(re.escape, BY_VERSION)))


@cache
def trees() -> Mapping[Path, ast.Module]:
    """The syntax trees of the package."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources()}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_module_keeps_the_rule(rule: rules.Rule) -> None:
    problems = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path, tree in trees().items()
        for line, text in sorted(rule(tree))
    ]

    assert not problems, "\n".join([str(rule.__doc__), *problems])


def test_protocol_versions_are_written_only_under_revisions() -> None:
    problems = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path, tree in trees().items()
        if path.parent.name != "revisions"
        for line, text in rules.literals(tree)
        if VERSION.search(text)
    ]

    assert not problems, "Use a field or a feature of the revision instead"


def test_package_raises_no_not_implemented_error() -> None:
    assert [path for path in sources() if "raise NotImplementedError" in path.read_text()] == []


TEST_IMPORT = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)


def test_no_module_of_tests_imports_a_module_with_tests() -> None:
    problems = [
        f"{path.relative_to(ROOT)}: {found[0].strip()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for found in TEST_IMPORT.finditer(path.read_text(encoding="utf-8"))
    ]

    assert not problems, "Move what several modules use to a module without tests"
