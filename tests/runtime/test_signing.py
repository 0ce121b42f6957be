"""Strings that travel through the client: encrypted, bound, and rejected if anything differs."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from random import random
from time import thread_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_mcp import Server, registry
from django_mcp.runtime import signing
from django_mcp.runtime.signing import DjangoSigner, SingleUse

signer = DjangoSigner()


@given(st.text(), st.text())
def test_signed_text_is_returned_for_what_it_is_bound_to(bound_to: str, text: str) -> None:
    signed = signer.sign(bound_to, text)

    assert signer.unsign(bound_to, signed) == text
    assert signer.unsign(bound_to + "x", signed) is None


def test_signed_text_is_different_each_time_and_cannot_be_read() -> None:
    first, second = (signer.sign("purpose", "secret") for _ in range(2))

    assert first != second
    assert "secret" not in first


@given(st.text())
@example("")
@example("AAAA")
@example("A" * 48)
@example("é")
def test_any_other_text_is_rejected(signed: str) -> None:
    assert signer.unsign("purpose", signed) is None


def test_every_other_spelling_of_a_signed_text_is_rejected() -> None:
    signed = signer.sign("purpose", "text")

    for spelling in (signed + "=", signed + "==", signed[:9] + "!" + signed[9:], signed + "\n"):
        assert signer.unsign("purpose", spelling) is None
    for index in range(len(signed)):
        for letter in "AB-_":
            changed = signed[:index] + letter + signed[index + 1 :]
            assert changed == signed or signer.unsign("purpose", changed) is None


def test_signed_text_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    signed = signer.sign("purpose", "text")
    now += 60

    assert signer.unsign("purpose", signed, max_age=60) == "text"
    assert signer.unsign("purpose", signed, max_age=59.9) is None


def test_signatures_are_accepted_with_the_former_key(settings: Any) -> None:
    signed, signature = signer.sign("purpose", "text"), signing.signature("purpose", "text")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], b"a newer one"

    assert signer.unsign("purpose", signed) == "text"
    assert signing.is_signature("purpose", "text", signature)
    assert signing.signature("purpose", "text") != signature

    settings.SECRET_KEY_FALLBACKS = []
    assert signer.unsign("purpose", signed) is None
    assert not signing.is_signature("purpose", "text", signature)


def test_signature_is_rejected_for_another_purpose_or_text() -> None:
    signature = signing.signature("purpose", "text")

    assert signing.is_signature("purpose", "text", signature)
    assert not signing.is_signature("other", "text", signature)
    assert not signing.is_signature("purpose", "other", signature)
    assert not signing.is_signature("purpose", "text", None)


@pytest.mark.parametrize(
    ("purpose", "principal", "bound_to", "path"),
    [
        ("other", "test:1", ("a", None), "/shop"),
        ("purpose", "test:2", ("a", None), "/shop"),
        ("purpose", "test:1", ("a",), "/shop"),
        ("purpose", "test:1", ("b", None), "/shop"),
        ("purpose", "test:1", ("a", None), "/other"),
    ],
)
def test_server_binds_to_itself_the_purpose_and_the_principal(
    purpose: str, principal: str, bound_to: tuple[Any, ...], path: str
) -> None:
    server, same = (registry.configure(Server("shop")) for _ in range(2))
    other = registry.configure(Server("shop", path=path))
    books = registry.configure(Server("books", path="/shop"))
    signed = server.sign("purpose", "test:1", "text", "a", None)

    assert same.unsign("purpose", "test:1", signed, "a", None) == "text"
    assert other.unsign(purpose, principal, signed, *bound_to) is None
    assert books.unsign("purpose", "test:1", signed, "a", None) is None


def test_order_of_names_is_not_bound() -> None:
    server = registry.configure(Server("shop"))
    signed = server.sign("purpose", "", "text", {"a": [{"b": 1, "c": ({"d": 2, "e": 3},)}], "f": 4})

    same = {"f": 4, "a": [{"c": [{"e": 3, "d": 2}], "b": 1}]}
    assert server.unsign("purpose", "", signed, same) == "text"
    assert server.unsign("purpose", "", signed, {**same, "f": 5}) is None


def test_binding_of_many_names_takes_less_than_sorted_json() -> None:
    server = registry.configure(Server("shop"))
    arguments = {f"n{random()}": 1 for _ in range(99_000)}

    def took(act: Callable[[], object]) -> float:
        began = thread_time()
        act()
        return thread_time() - began

    own = min(took(lambda: server.unsign("purpose", "", "forged", arguments)) for _ in range(5))
    assert own < min(took(lambda: json.dumps(arguments, sort_keys=True)) for _ in range(5))


def test_large_texts_that_were_bound_are_not_kept_in_memory() -> None:
    signer.sign("purpose", "text")
    tracemalloc.start()
    try:
        for number in range(20):
            signer.sign(f"{number}" * 1_000_000, "text")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


class TestSingleUse:
    def test_state_is_used_up_when_its_answer_is_kept(self) -> None:
        states = SingleUse(60, None)
        state = signer.sign("purpose", "kept")

        assert states.claim(state)
        assert not states.claim(state)
        states.keep(state)
        assert not states.claim(state)

    def test_released_state_can_be_claimed_again(self) -> None:
        states = SingleUse(60, 30)
        state = signer.sign("purpose", "released")

        assert states.claim(state)
        states.release(state)
        assert states.claim(state)


def test_encrypted_column_is_read_only_in_its_row_and_column() -> None:
    stored = signing.encrypt("task", "row-1", "call", {"name": "Ada"})

    assert "Ada" not in stored
    assert signing.decrypt("task", "row-1", "call", stored) == {"name": "Ada"}
    for place in (("task", "row-2", "call"), ("task", "row-1", "outcome"), ("x", "row-1", "call")):
        with pytest.raises(ValueError, match="cannot be decrypted"):
            signing.decrypt(*place, stored)
