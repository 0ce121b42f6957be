"""Pagination cursors: decoded unchanged, or rejected."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.core.protocol import cursors, limits
from django_mcp.core.protocol.errors import InvalidParams
from tests.rows import rows
from tests.spec import spec


def sign(text: str) -> str:
    """A fake signer, which rejects values that it did not sign."""
    return "sign:" + base64.b64encode(text.encode()).decode()


def unsign(cursor: str) -> str | None:
    if not cursor.startswith("sign:"):
        return None
    try:
        return base64.b64decode(cursor[5:], validate=True).decode()
    except ValueError:
        return None


@spec("PAGE-01")
def test_cursor_decodes_to_the_sort_key_of_the_last_item() -> None:
    cursor = cursors.encode("tools", ["search", "b"], sign)
    assert cursors.decode("tools", cursor, unsign) == ("search", "b")


BAD = [
    ("nothing", None),
    ("empty", ""),
    ("a number", 7),
    ("a boolean", True),
    ("a list", ["sign:"]),
    ("unsigned", '["tools","a"]'),
    ("tampered with", cursors.encode("tools", ["a"], sign) + "!"),
    ("of another listing", cursors.encode("prompts", ["a"], sign)),
    ("signed, but no JSON", sign("tools")),
    ("signed, but no list", sign('{"tools":"a"}')),
    ("signed, but without a key", sign('["tools"]')),
    ("signed, but empty", sign("[]")),
    ("signed, but not of strings", sign('["tools",1]')),
    ("signed, but far too deep", sign("[" * 2500)),
    ("too long to be looked at", "sign:" + "A" * limits.MAX_CURSOR),
]


@pytest.mark.parametrize("cursor", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_cursor_not_issued_for_this_list_is_rejected(cursor: object) -> None:
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        cursors.decode("tools", cursor, unsign)


@rows("key", ["name", (), []])
def test_sort_key_that_is_not_a_sequence_of_strings_is_rejected(key: str | tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="sort key"):
        cursors.encode("tools", key, sign)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.lists(st.text(max_size=50), min_size=1, max_size=4))
def test_any_sort_key_survives_encode_and_decode(kind: str, key: list[str]) -> None:
    assert cursors.decode(kind, cursors.encode(kind, key, sign), unsign) == tuple(key)


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text())
def test_any_malformed_signed_cursor_raises_invalid_params(cursor: str, signed: str) -> None:
    with pytest.raises(InvalidParams):
        cursors.decode("tools", cursor or "x", lambda _: signed)


def test_long_cursor_is_rejected_before_its_signature_is_verified() -> None:
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        cursors.decode("tools", "x" * 100_000, lambda _: pytest.fail("It was verified"))
