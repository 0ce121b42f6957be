"""The requests of clients, and what must come back: the files in ``clients``.

A file names its client and its habit, and the server that it addresses: "public" or "protected"
over HTTP, or "stdio". Each exchange has a request as the client sends it, and what the response
contains: its status, headers, and a part of its body, in which ``"..."`` stands for any value and
``*`` in a header for any text. ``absent`` lists members that it must not have. ``$name`` in a
response names a header's value, which later requests send. ``versions`` are the revisions that the
server serves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One file."""

    name: str
    client: str
    habit: str
    server: str
    exchanges: Sequence[Mapping[str, Any]]
    versions: Sequence[str] | None = None


def recordings() -> list[Recording]:
    """Every file, by its name."""
    return [
        Recording(name=path.stem, **json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(FOLDER.glob("*.json"))
    ]


def table() -> str:
    """The clients and their habits, as the documentation shows them."""
    lines = ["| client | habit |", "|---|---|"]
    found = sorted(recordings(), key=lambda each: (each.client.lower(), each.name))
    return "\n".join([*lines, *(f"| {each.client} | {each.habit} |" for each in found)])
