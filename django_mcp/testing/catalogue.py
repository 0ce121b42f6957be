"""A snapshot of the lists of a client, so that a review sees changes for models."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from operator import itemgetter
from pathlib import Path
from typing import Any

UPDATE = "MCP_UPDATE_SNAPSHOTS"
"""The environment variable that has snapshots written instead of compared."""

CONTEXT = 2
"""Unchanged lines that a difference shows around a change."""

VERSIONED_URI = re.compile(r'("ui://[^"]+)/[0-9a-f]{12}(?=")')
"""The URI of a view, which ends with a hash of its page: it tells the model nothing."""

Catalogue = Mapping[str, Sequence[Mapping[str, Any]]]
"""The listed entries by the member of the result that lists them, such as "tools"."""


def assert_unchanged(catalogue: Catalogue, path: str | os.PathLike[str]) -> None:
    """Compare with the file; raises AssertionError with the difference and the remedy."""
    # In a fixed order: the order of registration changes with the order of imports.
    ordered = {kind: sorted(entries, key=itemgetter("name")) for kind, entries in catalogue.items()}
    text = json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"
    listed = VERSIONED_URI.sub(r"\1", text)
    file = Path(path)
    if os.environ.get(UPDATE):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(listed, encoding="utf-8")
        return
    remedy = f"If this is intended, run the test with {UPDATE}=1 to write the file."
    if not file.exists():
        raise AssertionError(f"There is no snapshot at {file}. {remedy}")
    stored = file.read_text(encoding="utf-8")
    if listed != stored:
        difference = unified_diff(
            stored.splitlines(), listed.splitlines(), str(file), "listed", "", "", CONTEXT, ""
        )
        shown = "\n".join(difference)
        raise AssertionError(f"The client is listed something else. {remedy}\n\n{shown}")
