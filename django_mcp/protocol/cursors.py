"""Opaque pagination cursors: the signed sort key of the last item.

The caller passes the function that signs a string and binds it to its owner, and the function that
returns the signed string, or None for an invalid signature.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from django_mcp.protocol.errors import InvalidParams

# Checked before the signature, so that a long forgery costs no hashing.
MAX_LENGTH = 4096


def encode(kind: str, key: Sequence[str], sign: Callable[[str], str]) -> str:
    """Return the cursor of the page after the item with the sort key ``key`` in the list ``kind``.

    A key of one string is written ``[name]``; a plain string is rejected.
    """
    if isinstance(key, str) or not key:
        raise ValueError(f"The sort key of a cursor is a non-empty sequence of strings: {key!r}")
    return sign(json.dumps([kind, *key], separators=(",", ":")))


def decode(kind: str, cursor: object, unsign: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the sort key in ``cursor``; raise InvalidParams if it is not for this list."""
    is_plausible = isinstance(cursor, str) and 0 < len(cursor) <= MAX_LENGTH
    text = unsign(str(cursor)) if is_plausible else None
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
