"""The size of arguments, and the values that a tool allows to be stored, as bounded JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django_mcp.core.protocol import jsonrpc

MAX_TEXT = 200
"""Characters of one string."""
MAX_VALUES = 50
"""Values of all arguments together."""
MAX_JSON = 4000
"""Characters of the JSON; beyond, each value is replaced by CUT."""
CUT = "…"
SECRET = ("download_url",)
"""Members that are never stored: whoever has the signed URL of a file has the file."""


def size_of(arguments: Any) -> int | None:
    """The bytes of arguments as compact JSON; None without any, or if they are not JSON."""
    if not arguments:
        return None
    try:
        return len(jsonrpc.encode(arguments))
    except ValueError:
        return None


def logged(names: Iterable[str], arguments: Any) -> str:
    """The JSON of the arguments with these names; "" if none of them was sent."""
    if not isinstance(arguments, dict):
        return ""
    values = _Values()
    chosen = {name: values.cut(arguments[name]) for name in names if name in arguments}
    if not chosen:
        return ""
    text = json.dumps(chosen)
    return text if len(text) <= MAX_JSON else json.dumps(dict.fromkeys(chosen, CUT))


class _Values:
    """Copies JSON values, up to MAX_VALUES of them."""

    def __init__(self) -> None:
        self._count = 0

    def cut(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            return CUT
        if isinstance(value, str):
            return _cut(value)
        if isinstance(value, list):
            return [self.cut(item) for item in value[: MAX_VALUES + 1]]
        if isinstance(value, dict):
            names = list(value)[: MAX_VALUES + 1]
            return {_cut(n): CUT if n in SECRET else self.cut(value[n]) for n in names}
        return value


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + CUT
