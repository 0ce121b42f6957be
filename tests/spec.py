"""Requirements and attempts of ``spec.toml``, and the tests that are marked with them.

The marks are read from the syntax trees of the tests, which need not be imported for that.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
CONTENTS: Mapping[str, Any] = tomllib.loads((TESTS / "spec.toml").read_text(encoding="utf-8"))

REQUIREMENTS: Mapping[str, Mapping[str, Mapping[str, str]]] = CONTENTS["requirements"]
"""By group and id: level, section, text, and because."""
ATTEMPTS: Mapping[str, Mapping[str, Mapping[str, str]]] = CONTENTS["attempts"]
"""By group and id: attempt and outcome."""


def spec(*ids: str) -> pytest.MarkDecorator:
    """Mark a test, or a class of tests, that shows requirements or attempts."""
    return pytest.mark.spec(*ids)


@cache
def marked_tests() -> Mapping[str, list[str]]:
    """The tests that are marked with each id, as pytest names them below this folder."""
    tests: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "spec(" in source:
            for test, identity in marks(ast.parse(source)):
                tests.setdefault(identity, []).append(f"{path.relative_to(TESTS)}::{test}")
    return tests


def marks(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The names of tests and the ids of their marks."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "spec":
                    for identity in mark.args:
                        yield f"{prefix}{node.name}", ast.literal_eval(identity)
        if isinstance(node, ast.ClassDef):
            yield from marks(node, f"{node.name}::")
