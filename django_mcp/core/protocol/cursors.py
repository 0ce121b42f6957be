"""Opaque pagination cursors: the sort key of the last item, signed and encrypted for its owner."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from django_mcp.core.protocol.errors import InvalidParams
from django_mcp.core.protocol.limits import MAX_CURSOR


def encode(kind: str, key: Sequence[str], sign: Callable[[str], str]) -> str:
    """Return the cursor of the page after the item with the sort key ``key`` in the list ``kind``.

    A key of one string is written ``[name]``; a plain string is rejected.
    """
    if isinstance(key, str) or not key:
        raise ValueError(f"The sort key of a cursor is a non-empty sequence of strings: {key!r}")
    return sign(json.dumps([kind, *key], separators=(",", ":")))


def decode(kind: str, cursor: object, unsign: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the sort key in ``cursor``; raise InvalidParams if it is not for this list."""
    # Checked before the signature, so that a long forgery costs no hashing.
    is_plausible = isinstance(cursor, str) and 0 < len(cursor) <= MAX_CURSOR
    text = unsign(str(cursor)) if is_plausible else None
    try:
        parts = json.loads(text or "null")
    except (ValueError, RecursionError):
        parts = None
    is_key = isinstance(parts, list) and all(isinstance(part, str) for part in parts)
    if not is_key or len(parts) < 2 or parts[0] != kind:
        raise InvalidParams("Invalid cursor")
    return tuple(parts[1:])
