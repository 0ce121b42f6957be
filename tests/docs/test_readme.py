"""The tables of the README: their code uses what is public, their numbers were measured."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.urls import include

import django_mcp
from django_mcp import forms, modeladmin, openapi, rest, toolsets
from django_mcp.contrib import events, skills
from django_mcp.core.components.prompt import PromptOptions
from django_mcp.core.components.resource import ResourceOptions
from django_mcp.core.components.tool import ToolOptions
from django_mcp.testing import Client
from tests.docs.examples import ROOT

README = (ROOT / "README.md").read_text()
DECORATORS: Mapping[str, Any] = {
    "tool": ToolOptions,
    "resource": ResourceOptions,
    "prompt": PromptOptions,
}
PLACES: Sequence[Any] = (django_mcp, forms, modeladmin, openapi, rest, toolsets, events, skills)
"""The modules from which users import what the table names."""


def rows(heading: str, text: str = README) -> Iterator[list[str]]:
    """The cells of each row of the table below a heading, without its own heading."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line[1:-1].split("|")]


def public(name: str) -> Any:
    """What a name of the table stands for."""
    others: Mapping[str, Any] = {"Client": Client, "include": include}
    return others.get(name) or next(
        getattr(place, name) for place in PLACES if hasattr(place, name)
    )


def test_code_of_the_feature_table_uses_public_names_and_their_options() -> None:
    for _, written, _ in rows("What you have, what you write, what comes out"):
        for code in re.findall(r"`([^`]+)`", written):
            check(code)


def check(code: str) -> None:
    """Fail if a name or an option does not exist."""
    if code.startswith('"'):  # A key of DJANGO_MCP.
        assert code.startswith('"AUTHENTICATORS": ')
    elif code.startswith("@"):
        call = ast.parse(code[1:], mode="eval").body
        name, *keywords = names_of(call)
        options = DECORATORS.get(name)
        known = options.__annotations__ if options else inspect.signature(public(name)).parameters
        assert {*keywords} <= {*known, "model"}, code
    elif code.startswith("class "):
        assert inspect.isclass(public(re.findall(r"\((\w+)\)", code)[0]))
    else:
        name, *keywords = names_of(ast.parse(code, mode="eval").body)
        function = django_mcp.Frame().client.elicit if name == "elicit" else public(name)
        assert {*keywords} <= {*inspect.signature(function).parameters}, code


def names_of(code: ast.expr) -> list[str]:
    """The name of what is called, and those of its keywords."""
    if isinstance(code, ast.Name):
        return [code.id]
    assert isinstance(code, ast.Call)
    called = code.func
    assert isinstance(called, ast.Name | ast.Attribute)
    name = called.id if isinstance(called, ast.Name) else called.attr
    return [name, *(str(keyword.arg) for keyword in code.keywords)]


def test_numbers_of_comparisons_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "docs" / "benchmarks.md").read_text()
    # Those of the package follow the name of the case, those of others have a ratio.
    known = re.findall(r"^\| \*[^|]+ \| ([\d.,]+) \|", measured, re.MULTILINE)
    known += re.findall(r"\| ([\d.,]+) \((?:\*\*)?\d", measured)
    for pair in re.findall(r"([\d.,]+) (?:requests|calls)/s \| [^|]+, ([\d,]+) \|", measured):
        known += pair
    rounded = {f"{float(number.replace(',', '')):,.0f}" for number in known}
    performance = (ROOT / "docs" / "reference" / "performance.md").read_text()
    for text, heading in ((README, "Speed"), (performance, "Measurements")):
        for _, *cells in rows(heading, text):
            numbers = [cell.strip("*") for cell in cells if cell.strip("|* ")]
            assert {*numbers} <= rounded
