"""The store in the documentation satisfies the store contract."""

from __future__ import annotations

import sys
from types import ModuleType

from tests.docs.examples import ROOT, blocks
from tests.stores import contracts

COPY = "shop.contracts"
"""The copy of the contracts that the page describes."""


def page_modules(page: str, *files: str) -> list[ModuleType]:
    """The files of a page as modules that can import each other."""
    made = {name: ModuleType(name) for name in files}
    sys.modules |= {**made, COPY: contracts}
    for block in blocks(ROOT / "docs" / page):
        if block.file in made:
            code = compile(block.text, block.location, "exec", dont_inherit=True)
            exec(code, vars(made[block.file]))
    for name in (*files, COPY):
        del sys.modules[name]
    return [*made.values()]


TestFolderSessions = page_modules("writing/store.md", "shop.stores", "shop.tests")[
    1
].TestFolderSessions
