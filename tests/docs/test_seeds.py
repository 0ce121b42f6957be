"""The page on the design seeds: its names can be imported, and the tests in seeds.toml exist."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "coming-from-anubis-and-mcp-cpp.md"
SEEDS = ROOT.parent / "shared" / "seeds"
TESTS = Path(__file__).with_name("seeds.toml")
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    seed: str
    here: str

    @property
    def names(self) -> list[str]:
        named = [name for name in CODE.findall(self.here) if name.startswith("django_mcp")]
        if not self.here.startswith("the same of "):
            return named
        return [*named, *(f"{named[0]}.{snake_case(seed)}" for seed in CODE.findall(self.seed))]


def snake_case(name: str) -> str:
    """``assign/2`` as ``assign``, and ``CallTool`` as ``call_tool``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.partition("/")[0]).lower()


def rows() -> list[Row]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [Row(*(cell.strip("| ") for cell in row)) for row in cells if row[0] != "original"]


def test_names_in_each_row_can_be_imported() -> None:
    names = {name for row in rows() for name in row.names}

    assert sorted(name for name in names if not is_importable(name)) == []


def is_importable(name: str) -> bool:
    """Whether a dotted name is an importable object, or a field of a class."""
    owner, _, field = name.rpartition(".")
    try:
        resolve_name(name)
    except AttributeError:
        return field in resolve_name(owner).__annotations__
    except ImportError:
        return False
    return True


def test_originals_have_existing_tests() -> None:
    shown = tomllib.loads(TESTS.read_text())["rows"]
    known = {name for each in shown for name in each["originals"]}
    missing = {name for row in rows() for name in CODE.findall(row.seed)} - known

    assert missing == set()
    assert [test for each in shown for test in each["tests"] if not exists(test)] == []
    assert [each["originals"] for each in shown if not each["tests"]] == []


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and name in defined(file)


@cache
def defined(path: Path) -> frozenset[str]:
    """The tests of a file; those of classes start with the name of the class."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{name}" for each in node.body for name in function(each)}
        names.update(function(node))
    return frozenset(names)


def function(node: ast.AST) -> list[str]:
    """The name of a function; nothing for other nodes."""
    return [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []


def test_every_row_has_a_name_or_a_reason() -> None:
    assert [row.seed for row in rows() if not row.names and len(row.here.split()) < 3] == []


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seeds are not part of this repository")
class TestSeedCoverage:
    def seed_column(self) -> str:
        return "\n".join(row.seed for row in rows())

    def seed(self, number: int) -> str:
        (path,) = SEEDS.glob(f"{number:03}_*.txt")
        return path.read_text()

    def test_every_frame_function_of_the_seed_has_a_row(self) -> None:
        headings = set(re.findall(r"^# `(\w+)`$", self.seed(0), re.MULTILINE))

        assert {name for name in headings if name not in self.seed_column()} == set()
        assert len(headings) > 25

    def test_every_frame_option_and_field_of_the_seed_has_a_row(self) -> None:
        options = set(re.findall(r"\{:(\w+),", self.seed(0)))
        fields = set(re.findall(r"^  \* `(\w+)` - ", self.seed(0), re.MULTILINE))

        assert {name for name in options | fields if name not in self.seed_column()} == set()

    def test_every_tool_callback_and_field_of_the_seed_has_a_row(self) -> None:
        headings = set(re.findall(r"^# `(\w+)`$", self.seed(2), re.MULTILINE))
        fields = set(re.findall(r"^  (\w+): ", self.seed(2), re.MULTILINE))

        assert {name for name in headings | fields if name not in self.seed_column()} == set()

    def test_every_server_function_and_type_of_the_seed_has_a_row(self) -> None:
        text = self.seed(4)
        functions = set(re.findall(r"^- [\w:<>]+(?: const)? (\w+)\(", text, re.MULTILINE))
        functions |= set(re.findall(r"^- std::\w+<[^(]*> (\w+)\(", text, re.MULTILINE))
        types = set(re.findall(r"^- using (\w+) =", text, re.MULTILINE))

        assert {name for name in functions | types if name not in self.seed_column()} == set()
        assert len(functions) > 30
