"""Inventories of intersphinx for the names of other projects that signatures contain.

``inventories.toml`` lists them. A nightly check of external links finds an address that is gone.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "inventories.toml"
HEADER = """# Sphinx inventory version 2
# Project: {project}
# Version: {version}
# The remainder of this file is compressed using zlib.
"""


def write_inventories(folder: Path) -> dict[str, tuple[str, str]]:
    """Write the files, and return the mapping that intersphinx expects."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, listed in tomllib.loads(SOURCE.read_text()).items():
        file = folder / f"{project}.inv"
        header = HEADER.format(project=project, version=listed["version"]).encode()
        file.write_bytes(header + zlib.compress(entries(listed["objects"]).encode()))
        mapping[project] = (listed["base"], str(file))
    return mapping


def entries(objects: Mapping[str, str]) -> str:
    """The lines of an inventory: name, kind, priority, address and shown name."""
    return "".join(f"{name} py:class 1 {place} -\n" for name, place in objects.items())
