"""Stored sessions: runtime components are signed together with their session."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.frame.session import Session
from django_mcp.stores.base import pack, unpack

SPEC = {"kind": "tool", "name": "own", "handler": "shop.mcp:own"}
SESSION = Session(
    id="one", server="shop", principal="test:1", version="2025-11-25", components={"tool:own": SPEC}
)


def test_components_are_restored_for_their_session() -> None:
    assert unpack(pack(SESSION), session_id="one") == SESSION
    assert "signature" not in pack(SESSION._replace(components={}))


def test_components_are_restored_with_a_former_key(settings: Any) -> None:
    text = pack(SESSION)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "a newer one"

    assert unpack(text, session_id="one") == SESSION


@pytest.mark.parametrize(
    ("before", "after"), [("shop.mcp:own", "os:system"), ('"signature"', '"unknown"')]
)
def test_components_that_were_changed_are_ignored(
    before: str, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = pack(SESSION)
    assert before in text

    assert unpack(text.replace(before, after), session_id="one").components == {}
    assert "signature" in caplog.text


def test_components_of_another_session_are_ignored() -> None:
    assert unpack(pack(SESSION), session_id="other").components == {}
