"""The pages for contributors: layers are the contracts, and the modules that they name exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, blocks

DESIGN = ROOT / "docs" / "design.md"
AREAS = sorted((ROOT / "docs" / "design").glob("*.md"))
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
COSTS = ROOT / "docs" / "what-guarantees-cost.md"
MODULE = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+(?:\.py)?)?|[a-z_]+\.py)`")
PACKAGE = ROOT / "django_mcp"
MAX_WORDS = 5000
METHODS = {"tools/call", "prompts/get", "resources/read", "tasks/result"}
NO_MODULES = {"build/site", "mcp.py", "notifications/initialized", *METHODS}


def test_layers_of_the_page_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    around, core = (contract["layers"] for contract in contracts["contracts"][:2])
    (shown,) = (block.text for block in blocks(DESIGN) if "protocol | concurrency" in block.text)
    # A layer, and after two spaces what it is.
    assert [line.strip().split("  ")[0] for line in shown.splitlines()] == [*around, *core]


def test_design_has_at_most_the_bound_of_words() -> None:
    """Without the table of rooms, which is no prose."""
    text = "\n".join(page.read_text() for page in (DESIGN, *AREAS))
    assert (
        len(re.sub(r"^\| `[a-z_.]+` \| [\d,]+ \|.*$", "", text, flags=re.MULTILINE).split())
        <= MAX_WORDS
    )


@pytest.mark.parametrize("page", [DESIGN, *AREAS, COSTS, CONTRIBUTING], ids=lambda page: page.stem)
def test_modules_that_the_page_names_exist(page: Path) -> None:
    named = {*MODULE.findall(page.read_text())} - NO_MODULES
    missing = [name for name in named if not exists(name)]
    assert not missing, f"{page.name} names modules that do not exist: {missing}"


def exists(name: str) -> bool:
    """Whether a path of the package or of the repository exists, also without ``.py``."""
    paths = [folder / path for folder in (PACKAGE, ROOT) for path in (name, f"{name}.py")]
    return any(path.exists() for path in paths)
