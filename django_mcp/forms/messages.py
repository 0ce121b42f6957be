"""Validation errors as one error of a tool, with a line for each message."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from django_mcp.core.protocol.errors import ToolError

MAX_LINES = 20
MAX_LENGTH = 300
"""Characters of one line."""


def tool_error(summary: str, lines: Iterable[str]) -> ToolError:
    """Return an error of ``summary`` and the first of the lines."""
    return ToolError(described(summary, lines))


def described(summary: str, lines: Iterable[str]) -> str:
    """Return ``summary`` and the first of the lines."""
    first = [*islice(lines, MAX_LINES + 1)]
    shown = [f"{line[:MAX_LENGTH]}..." if len(line) > MAX_LENGTH else line for line in first]
    if len(first) > MAX_LINES:
        shown[-1] = "and more"
    return "\n".join([summary, *shown])
