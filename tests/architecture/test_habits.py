"""Rules of style that a program can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_mcp.protocol.revisions import BY_VERSION
from tests.architecture.test_imports import PACKAGE, sources

VERSION = re.compile("|".join(map(re.escape, BY_VERSION)))
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The string and bytes literals of a module with their lines, without docstrings."""
    spared = {id(node) for node in documentation(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in spared:
            value = node.value
            if isinstance(value, bytes):
                yield node.lineno, value.decode("latin-1")
            elif isinstance(value, str):
                yield node.lineno, value


def documentation(tree: ast.Module) -> Iterator[ast.AST]:
    """The docstrings of a module, including those of fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.value


def path_params(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in paths]


@pytest.mark.parametrize(
    "path", path_params([path for path in sources() if path.parent.name != "revisions"])
)
def test_protocol_versions_are_written_only_under_revisions(path: Path) -> None:
    tree = ast.parse(path.read_text())

    found = [(line, text) for line, text in constants(tree) if VERSION.search(text)]

    assert found == [], "Use a field or a feature of the revision instead"


@pytest.mark.parametrize(
    "path", path_params([path for path in sources() if path.parent.name != "migrations"])
)
def test_module_docstring_has_a_complete_first_sentence(path: Path) -> None:
    text = path.read_text()

    if text:
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        assert first.endswith((".", "?", ":")), f"The module docstring starts with {first!r}"


@pytest.mark.parametrize("path", path_params(sources()))
def test_module_contains_no_todo_or_not_implemented_error(path: Path) -> None:
    assert re.findall(r"TODO|FIXME|XXX|raise NotImplementedError", path.read_text()) == []
