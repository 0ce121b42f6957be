"""Names consist of the field's standard terms: see ``docs/glossary.md``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_imports import ROOT

RETIRED = frozenset(
    [
        "adopt",
        "allowance",
        "announce",
        "announcer",
        "announcing",
        "asked",
        "asking",
        "beat",
        "brought",
        "catalogue",
        "complaint",
        "eager",
        "ear",
        "envelope",
        "enveloped",
        "forgive",
        "handshake",
        "hear",
        "heard",
        "hearing",
        "hears",
        "hub",
        "inventory",
        "keeper",
        "mirrored",
        "offering",
        "recognise",
        "recognised",
        "refusal",
        "refused",
        "respondent",
        "rounds",
        "said",
        "say",
        "says",
        "seal",
        "sealed",
        "sealer",
        "sealing",
        "shelf",
        "speak",
        "speaks",
        "spoke",
        "spoken",
        "standing",
        "tell",
        "tells",
        "told",
        "turns",
        "understudy",
        "undo",
        "undone",
        "unfit",
        "unkept",
        "unsayable",
        "unseal",
    ]
)
"""Words that earlier versions used in place of the terms of the specification and of Django."""

EXCEPTIONS = frozenset({"opening_hours"})
"""Names of what a test's server offers, which is no part of the package's vocabulary."""

PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def sources() -> list[Path]:
    folders = ("django_mcp", "example_site", "tests", "scripts")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def names(path: Path) -> Iterator[tuple[int, str]]:
    """The names that a file defines, with their lines; the first is its own."""
    yield 0, path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def is_retired(name: str) -> bool:
    words = {part.lower() for part in PART.findall(name)}
    return bool(words & RETIRED) and name not in EXCEPTIONS


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_file_defines_no_name_with_a_retired_word(path: Path) -> None:
    assert [(line, name) for line, name in names(path) if is_retired(name)] == []
