"""The size of arguments that the event loop may validate."""

from __future__ import annotations

from typing import Any

from django_mcp.core.components.argument_size import MAX_NODES, is_small
from tests.rows import rows


@rows(
    ("arguments", "expected"),
    [
        ({}, True),
        ({"a": 1, "b": "text", "c": None}, True),
        ({"a": [1] * (MAX_NODES - 1)}, True),
        ({"a": [1] * MAX_NODES}, False),
        ({"a": {"b": [[1] * 300, [1] * 300]}}, False),
        ({"a": dict.fromkeys(map(str, range(600)))}, False),
        ({"a": "x" * 10_000}, True),
        ({"a": ["x" * 20_000, "x" * 20_000]}, False),
    ],
)
def test_size_of_arguments_counts_values_and_text(arguments: Any, expected: bool) -> None:
    assert is_small(arguments) is expected
