"""Opaque pagination cursors: the sort key of the last item, sealed by whoever holds the secret.

Knows no secret. The caller passes the function which seals (signs, and binds to the caller) and
the one which opens a seal or answers None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from django_mcp.protocol.errors import InvalidParams

# Checked before the seal is, so that a long forgery costs no hashing.
MAX_LENGTH = 4096


def encode(kind: str, key: Sequence[str], seal: Callable[[str], str]) -> str:
    """The cursor of the page after the item which sorts at ``key`` in the listing ``kind``.

    A single string is a sequence of its characters to Python and a mistake here: ``[name]``.
    """
    if isinstance(key, str) or not key:
        raise ValueError(f"The sort key of a cursor is a non-empty sequence of strings: {key!r}")
    return seal(json.dumps([kind, *key], separators=(",", ":")))


def decode(kind: str, cursor: object, unseal: Callable[[str], str | None]) -> tuple[str, ...]:
    """The sort key inside ``cursor``; InvalidParams unless it was issued for this listing."""
    if not isinstance(cursor, str) or not 0 < len(cursor) <= MAX_LENGTH:
        raise InvalidParams("Invalid cursor")
    text = unseal(cursor)
    key = None if text is None else _sort_key(text, kind)
    if key is None:
        raise InvalidParams("Invalid cursor")
    return key


def _sort_key(text: str, kind: str) -> tuple[str, ...] | None:
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return None
    return tuple(parts[1:]) if len(parts) > 1 and parts[0] == kind else None
