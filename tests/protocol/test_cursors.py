"""Pagination cursors: they come back as they went out, or not at all."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.protocol import cursors
from django_mcp.protocol.errors import InvalidParams


def seal(text: str) -> str:
    """Stands for a signature: whatever it did not make, it does not open."""
    return "seal:" + base64.b64encode(text.encode()).decode()


def unseal(cursor: str) -> str | None:
    if not cursor.startswith("seal:"):
        return None
    try:
        return base64.b64decode(cursor[5:], validate=True).decode()
    except ValueError:
        return None


def test_a_cursor_is_the_sort_key_of_the_last_item() -> None:
    cursor = cursors.encode("tools", ["search", "b"], seal)
    assert cursors.decode("tools", cursor, unseal) == ("search", "b")


BAD = [
    ("nothing", None),
    ("empty", ""),
    ("a number", 7),
    ("a boolean", True),
    ("a list", ["seal:"]),
    ("unsealed", '["tools","a"]'),
    ("tampered with", cursors.encode("tools", ["a"], seal) + "!"),
    ("of another listing", cursors.encode("prompts", ["a"], seal)),
    ("sealed, but no JSON", seal("tools")),
    ("sealed, but no list", seal('{"tools":"a"}')),
    ("sealed, but without a key", seal('["tools"]')),
    ("sealed, but empty", seal("[]")),
    ("sealed, but not of strings", seal('["tools",1]')),
    ("sealed, but far too deep", seal("[" * 2500)),
    ("too long to be looked at", "seal:" + "A" * cursors.MAX_LENGTH),
]


@pytest.mark.parametrize("cursor", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_a_cursor_which_was_not_issued_for_this_listing_is_invalid(cursor: object) -> None:
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        cursors.decode("tools", cursor, unseal)


@pytest.mark.parametrize("key", ["name", (), []])
def test_a_sort_key_is_a_non_empty_sequence_of_strings(key: str | tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="sort key"):
        cursors.encode("tools", key, seal)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.lists(st.text(max_size=50), min_size=1, max_size=4))
def test_every_sort_key_comes_back(kind: str, key: list[str]) -> None:
    assert cursors.decode(kind, cursors.encode(kind, key, seal), unseal) == tuple(key)


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text())
def test_whatever_is_sealed_a_bad_cursor_is_the_clients_fault(cursor: str, sealed: str) -> None:
    with pytest.raises(InvalidParams):
        cursors.decode("tools", cursor or "x", lambda _: sealed)
