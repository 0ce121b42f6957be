"""Names of credentials, which an answer would hand to a model and its host."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django_mcp.openapi.document import Described

WORDS = re.compile(
    r"(^|_)(password|passwd|passphrase|secret|token|api_?key|private_key|credential)s?(_|$)"
)
KEYS = frozenset({"key"})
"""Names of fields, but not parts of names: ``primary_key`` is not a credential."""


def of_described(described: Described) -> str:
    """Return the operation, or the member of its answer, that is named so; "" for none."""
    if described.method == "delete":
        return ""
    answer = described.answer or {}
    rows = [it.get("items") for it in (answer, *(answer.get("properties") or {}).values())]
    members = [answer, *(row for row in rows if isinstance(row, dict))]
    names = [name for each in members for name in each.get("properties") or ()]
    return described.id if WORDS.search(described.id) else first(names)


def first(names: Iterable[str]) -> str:
    """Return the first name of a credential among names of fields; "" for none."""
    return next((name for name in names if WORDS.search(name) or name in KEYS), "")
