"""The inputs that are kept: those of attacks, and everything that has failed once.

Each file has an input on each line, in JSON; lines that begin with ``#`` say what the next is.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.fuzz.targets import Input

HERE = Path(__file__).parent


def load() -> list[tuple[str, Input]]:
    """All of them, each with what is said of it."""
    found = []
    for path in sorted(HERE.glob("*.jsonl")):
        what = path.stem
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                what = line.lstrip("# ")
            elif line:
                found.append((what, json.loads(line)))
    return found
